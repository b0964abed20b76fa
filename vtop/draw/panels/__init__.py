"""The panels of the screen, and the table of them."""
