"""Kinds of server, a folder each: its series, where it answers, which of its flags matter, and what to try."""
