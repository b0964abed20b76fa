"""The simulated vLLM engine: its scheduler on virtual time, a step's duration, and the fit of both to a recording."""
