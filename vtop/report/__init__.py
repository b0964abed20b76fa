"""The written evidence of a session: what a recording holds, found, stated with its evidence, and written down."""
