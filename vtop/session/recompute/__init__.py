"""Work done again after preemptions, and where the engine's time went."""
