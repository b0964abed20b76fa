"""What load a recording's server was under, and the same load on the simulated engine."""
