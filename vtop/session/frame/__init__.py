"""What there is to see at one instant, a file a subject: frozen records, computed by the other storeys."""
