"""What only vtop computes of a server, as metrics that a Prometheus scrapes from a running vtop."""
