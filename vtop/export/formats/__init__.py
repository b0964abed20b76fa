"""The forms an export is written in: CSV, Parquet, a Perfetto trace, OpenMetrics text."""
