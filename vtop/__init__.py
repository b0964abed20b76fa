"""vtop: the instrument panel of a vLLM server."""

__version__ = "0.1.0"
