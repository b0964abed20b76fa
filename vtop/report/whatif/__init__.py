"""An answer of what-if, written down."""
