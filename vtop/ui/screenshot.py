"""The screen as a picture or as text, without a terminal and without the network.

Textual's own SVG names a web font; here that is left out, and the fonts of the machine are used. Every row of the SVG
states its length, so columns stay aligned in any monospaced font.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from rich.console import Console

from vtop.ui import textual_private

if TYPE_CHECKING:
    from textual.app import App

_WEB_FONT = re.compile(r"@font-face\s*\{[^}]*\}", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FONT_FAMILY = re.compile(r"font-family:\s*Fira Code,\s*monospace")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
FONTS = "'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(app: App[None], title: str) -> str:
    """The screen as one self-contained SVG."""
    drawn = app.export_screenshot(title=title)
    drawn = _FONT_FAMILY.sub(f"font-family: {FONTS}", _COMMENT.sub("", _WEB_FONT.sub("", drawn)))
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", drawn)


def text(app: App[None]) -> str:
    """The screen as plain lines, without trailing blanks."""
    width, height = app.size
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, record=True, legacy_windows=False
    )
    textual_private.print_screen(app, console)
    lines = [line.rstrip() for line in console.export_text(styles=False).splitlines()]
    return "\n".join(lines).rstrip("\n") + "\n"


def png(drawn: str, scale: float = 2.0) -> bytes:
    """A PNG of an SVG."""
    import vl_convert

    return bytes(vl_convert.svg_to_png(drawn, scale=scale))
