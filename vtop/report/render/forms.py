"""A document in the form that was asked for: the one place that knows which form has which writer."""

from __future__ import annotations

from typing import Final

from vtop.report.render.document import Document

FORMS: Final = {  # by a file's ending
    ".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json", ".txt": "txt", ".svg": "svg",
}  # fmt: skip


def written(content: Document, form: str) -> bytes:
    """html, md or txt. Raises ModuleNotFoundError where what a form needs is not installed."""
    if form == "md":
        from vtop.report.render.markdown import markdown

        return markdown(content).encode()
    if form == "html":
        from vtop.report.render.html import html

        return html(content).encode()
    from vtop.report.render.terminal import text

    return text(content).encode()
