"""The figures of a report, before they are drawn."""
