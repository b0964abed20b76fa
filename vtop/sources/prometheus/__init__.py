"""Servers that a Prometheus scraped: its stored samples become the scrapes of a session."""
