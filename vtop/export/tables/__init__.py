"""The tables of an export: what a row is, and what stands in its columns."""
