"""What a server and this host's GPUs said, page after page, and the stretch of it that a window is about."""
