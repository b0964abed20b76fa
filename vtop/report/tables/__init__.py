"""The tables of a report, a file a subject; what each is made of stands in its notes."""
