"""The KV pool: how large it is, how full it is and should be, and who was preempted."""
