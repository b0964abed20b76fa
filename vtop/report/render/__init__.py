"""A report's document in its forms: HTML, Markdown, JSON, text."""
