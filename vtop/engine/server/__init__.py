"""A simulated vLLM server that answers over HTTP: its pages, its streams, its errors, its faults."""
