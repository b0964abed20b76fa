"""The screen as a picture or as text, without a terminal and without the network."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from vtop.ui import picture, textual_private

if TYPE_CHECKING:
    from textual.app import App

_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def svg(app: App[None], title: str) -> str:
    """The screen as one self-contained SVG, in the fonts of the machine that shows it."""
    width, height = app.size
    return picture.svg(textual_private.screen_lines(app), width, height, title)


def moving(pictures: Sequence[str], frame_s: float) -> str:
    """Pictures of one size as one SVG that shows each for frame_s seconds, and begins again; without a script."""
    head = _SIZE.search(pictures[0])
    assert head is not None
    width, height = head[1], head[2]
    many, long_s = len(pictures), frame_s * len(pictures)
    frames = []
    for at, one in enumerate(pictures):
        inside = base64.b64encode(one.encode()).decode()
        shown = [("hidden", 0.0)] if at else []
        shown += [("visible", at / many)] + ([("hidden", (at + 1) / many)] if at + 1 < many else [])
        values, times = ";".join(value for value, _ in shown), ";".join(f"{time:.6g}" for _, time in shown)
        frames.append(
            f'<image width="{width}" height="{height}" visibility="{"hidden" if at else "visible"}" '
            f'href="data:image/svg+xml;base64,{inside}"><animate attributeName="visibility" calcMode="discrete" '
            f'values="{values}" keyTimes="{times}" dur="{long_s:g}s" repeatCount="indefinite"/></image>'
        )
    namespace = "http://www.w3.org/2000/svg"
    return f'<svg viewBox="0 0 {width} {height}" xmlns="{namespace}">\n' + "\n".join(frames) + "\n</svg>\n"


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
    """A PNG of an SVG, in its 256 most frequent colours: an eighth of the bytes, and all but a few edges of letters as
    they were. Its corners are square."""
    import vl_convert
    from PIL import Image

    with Image.open(io.BytesIO(vl_convert.svg_to_png(drawn, scale=scale))) as whole:
        whole.load()
    ground = whole.getpixel((whole.width // 2, 0))
    flat = Image.new("RGBA", whole.size, ground)
    flat.alpha_composite(whole)
    flat = flat.convert("RGB")
    colours = sorted(flat.getcolors(flat.width * flat.height) or (), reverse=True)[:256]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in colours if isinstance(colour, tuple) for part in colour])
    written = io.BytesIO()
    flat.quantize(palette=palette, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return written.getvalue()
