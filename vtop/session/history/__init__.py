"""What a server and this host's GPUs said, scrape after scrape, and the span of it that a window is about."""
