"""The screen as a picture or as text, without a terminal and without the network."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from vtop.ui import picture, textual_private

if TYPE_CHECKING:
    from textual.app import App


def svg(app: App[None], title: str) -> str:
    """The screen as one self-contained SVG, in the fonts of the machine that shows it."""
    width, height = app.size
    return picture.svg(textual_private.screen_lines(app), width, height, title)


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
