"""Many servers side by side: the table of them, and who differs from its peers."""
