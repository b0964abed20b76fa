"""A screen's lines as one self-contained SVG: letters as text, and what charts are made of as shapes without seams.

Block characters of a font leave hairlines between the cells, and are as wide as the font at hand has them. Here each
is a rectangle on the grid of cells; those of one colour are one path, whose edges are drawn sharp.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from rich.color import blend_rgb
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME

from vtop.draw.text import width_of

FONTS: Final = "'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"
CELL: Final = (10, 20)  # pixels
_FONT_PX: Final = 16
_BASELINE_PX: Final = 15
_EDGE_PX: Final = 10  # around the screen
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DIM: Final = 0.4  # as Rich has it
_RULE, _HEAVY, _TICK = _THIN = ("─", "━", "╵")


class Box(NamedTuple):
    """A rectangle: pixels."""

    x: float
    y: float
    width: float
    height: float


def _boxes() -> dict[str, tuple[tuple[Box, ...], float]]:
    """Of each sign that is drawn: its boxes within a cell, and how opaque they are."""
    width, height = CELL
    half, middle = width / 2, height / 2
    of: dict[str, tuple[tuple[Box, ...], float]] = {}
    for n, sign in enumerate("▁▂▃▄▅▆▇█", 1):
        of[sign] = ((Box(0, height - height * n / 8, width, height * n / 8),), 1.0)
    for n, sign in enumerate("▏▎▍▌▋▊▉", 1):
        of[sign] = ((Box(0, 0, width * n / 8, height),), 1.0)
    low_left, low_right = Box(0, middle, half, middle), Box(half, middle, half, middle)
    right = Box(half, 0, half, height)
    of |= {
        "▖": ((low_left,), 1.0),
        "▗": ((low_right,), 1.0),
        "▐": ((right,), 1.0),
        "▙": ((Box(0, 0, half, height), low_right), 1.0),
        "▟": ((low_left, right), 1.0),
    }
    of |= {sign: ((Box(0, 0, width, height),), share) for sign, share in (("▓", 0.85), ("▒", 0.65), ("░", 0.45))}
    of[_RULE] = ((Box(0, middle - 0.75, width, 1.5),), 1.0)
    of[_HEAVY] = ((Box(0, middle - 1.5, width, 3),), 1.0)
    of[_TICK] = ((Box(half - 0.75, 0, 1.5, middle),), 1.0)
    return of


_SHAPES: Final = _boxes()
_RUN: Final = re.compile(f"([{''.join(_SHAPES)}]+)")


def svg(lines: Iterable[Sequence[Segment]], width: int, height: int, title: str) -> str:
    """The picture of `height` lines of `width` cells."""
    paths: dict[tuple[str, float], list[str]] = {}
    thin: dict[str, list[str]] = {}  # rules and ticks, which sharp edges would lose in a smaller picture
    words: dict[Style, list[str]] = {}
    ground = SVG_EXPORT_THEME.background_color.hex
    for y, line in enumerate(lines):
        x = 0
        for text, style, control in line:
            if control:
                continue
            ink, behind = _colours(style or Style.null())
            cells = width_of(text)
            if y == 0 and x == 0:
                ground = behind
            if behind != ground:
                paths.setdefault((behind, 1.0), []).append(_path([Box(x, y, cells, 1)], (0, 0), CELL))
            for at, run, shapes in _runs(text, x):
                if shapes:
                    for (boxes, opacity), first, n in _alike(run, at):
                        fine = run[0] in _THIN
                        d = thin.setdefault(ink, []) if fine else paths.setdefault((ink, opacity), [])
                        if _whole(boxes):
                            d.append(_path([Box(0, boxes[0].y, n * CELL[0], boxes[0].height)], (first, y)))
                        else:
                            d += [_path(boxes, (k, y)) for k in range(first, first + n)]
                elif run.strip():
                    words.setdefault(style or Style.null(), []).extend(_words(run, at, y))
            x += cells
    w, h = width * CELL[0] + 2 * _EDGE_PX, height * CELL[1] + 2 * _EDGE_PX
    shown = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", title)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img"'
        f" aria-label={quoteattr(shown)}>",
        f"<title>{escape(shown)}</title>",
        f'<rect width="{w}" height="{h}" rx="6" fill="{ground}"/>',
        f'<g transform="translate({_EDGE_PX} {_EDGE_PX})">',
        '<g shape-rendering="crispEdges">',
        *(f'<path fill="{ink}"{_opaque(share)} d="{"".join(d)}"/>' for (ink, share), d in paths.items()),
        "</g>",
        *(f'<path fill="{ink}" d="{"".join(d)}"/>' for ink, d in thin.items()),
        f'<g font-family="{FONTS}" font-size="{_FONT_PX}">',
    ]
    for style, texts in words.items():
        bold = ' font-weight="bold"' if style.bold else ""
        lean = ' font-style="italic"' if style.italic else ""
        under = ' text-decoration="underline"' if style.underline else ""
        parts += [f'<g fill="{_colours(style)[0]}"{bold}{lean}{under}>', *texts, "</g>"]
    return "\n".join([*parts, "</g></g></svg>"]) + "\n"


def _colours(style: Style) -> tuple[str, str]:
    """What is written and what is behind it."""
    theme = SVG_EXPORT_THEME
    ink = theme.foreground_color if style.color is None or style.color.is_default else style.color.get_truecolor(theme)
    behind = (
        theme.background_color
        if style.bgcolor is None or style.bgcolor.is_default
        else style.bgcolor.get_truecolor(theme, foreground=False)
    )
    if style.reverse:
        ink, behind = behind, ink
    if style.dim:
        ink = blend_rgb(ink, behind, _DIM)
    return ink.hex, behind.hex


def _runs(text: str, x: int) -> Iterator[tuple[int, str, bool]]:
    """The text in runs of shapes and of letters, each with the cell that it begins in."""
    for at, run in enumerate(_RUN.split(text)):
        if run:
            yield x, run, at % 2 == 1
            x += width_of(run)


def _alike(run: str, x: int) -> Iterator[tuple[tuple[tuple[Box, ...], float], int, int]]:
    """The same sign several times over: its shape, the first cell, how many."""
    for found in re.finditer(r"(.)\1*", run):
        yield _SHAPES[found[1]], x + found.start(), len(found[0])


def _whole(boxes: Sequence[Box]) -> bool:
    """Whether the shapes of neighbours are one."""
    return len(boxes) == 1 and boxes[0].x == 0 and boxes[0].width == CELL[0]


def _path(boxes: Iterable[Box], cell: tuple[int, int], unit: tuple[float, float] = (1, 1)) -> str:
    return "".join(
        f"M{cell[0] * CELL[0] + box.x * unit[0]:g} {cell[1] * CELL[1] + box.y * unit[1]:g}"
        f"h{box.width * unit[0]:g}v{box.height * unit[1]:g}h{-box.width * unit[0]:g}z"
        for box in boxes
    )


def _opaque(share: float) -> str:
    return "" if share == 1.0 else f' fill-opacity="{share:g}"'


def _words(text: str, x: int, y: int) -> Iterator[str]:
    """Letters, whose length is stated so that columns stand in any monospaced font.

    What several blanks part is set apart: a reader of SVG may take them as one.
    """
    for found in re.finditer(r"[^ ]+(?: [^ ]+)*", text):
        said = escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", found[0]))
        at = (x + width_of(text[: found.start()])) * CELL[0]
        length = width_of(found[0]) * CELL[0]
        where = f'x="{at}" y="{y * CELL[1] + _BASELINE_PX}" textLength="{length}"'
        yield f'<text {where} lengthAdjust="spacingAndGlyphs">{said}</text>'
