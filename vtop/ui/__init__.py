"""The screen: Textual widgets that draw a frame and compute no number."""
