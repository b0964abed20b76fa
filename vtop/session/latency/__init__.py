"""Latencies from the server's histograms: what TTFT is made of, how it grows with load, where the ITL tail lies."""
