"""GPUs: their peaks, their energy, and the engine's arithmetic against them."""
