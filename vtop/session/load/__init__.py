"""vtop's own load: its phases, its requests, and what they saw."""
