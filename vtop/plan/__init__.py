"""Before and beyond a measurement: what fits, what it costs, how many GPUs to split over, what a queue does to it."""
