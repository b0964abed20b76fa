"""What a /metrics page says: text to series, series to meaning."""
