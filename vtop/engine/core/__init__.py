"""The engine on virtual time: vLLM V1's scheduler, its KV pool, and what a step takes."""
