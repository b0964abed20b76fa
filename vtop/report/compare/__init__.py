"""Two or more recordings against each other, phase by phase, each difference with its noise."""
