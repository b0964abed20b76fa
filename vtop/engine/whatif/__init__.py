"""What other flags would have done to a recorded load."""
