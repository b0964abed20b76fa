"""The processes that send requests, and the thread that leads them from phase to phase."""
