"""Pure drawing: data, width and palette in, lines out."""
