"""Recordings for other programs: tables, a trace for Perfetto, text for Prometheus; and a session for a notebook."""
