"""Which limit binds, on what evidence, and what to try against it."""
