"""One request over HTTP/1.1 with every stamp, and what its answer means."""
