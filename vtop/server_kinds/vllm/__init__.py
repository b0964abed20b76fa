"""vLLM: its series, its endpoints, its command line, its defaults, and the flags to try against a limit."""
