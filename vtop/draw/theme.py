"""How vtop looks: a theme's colours by meaning, as ready-made styles, and the signs that charts are drawn with.

Colour is never the only sign: without it (NO_COLOR) a look has bold, dim and reverse; in ASCII it has no character
above 0x7e.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.color import Color, ColorParseError, blend_rgb
from rich.color_triplet import ColorTriplet
from rich.errors import StyleSyntaxError
from rich.style import Style

from vtop import plain, small_file, xdg
from vtop.errors import VtopError
from vtop.shipped import folder

# Every role a theme colours, with its attributes where there is colour and where there is none.
ROLES: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("", ""),
    "number": ("bold", "bold"),  # coloured as text
    "dim": ("", "dim"),
    "border": ("", "dim"),
    "title": ("bold", "bold"),
    "running": ("", ""),
    "waiting": ("", ""),
    "queue": ("", ""),
    "prefill": ("", ""),
    "prompt": ("", ""),
    "decode": ("", ""),
    "generation": ("", ""),
    "frontend": ("", ""),
    "network": ("", ""),
    "kv": ("", ""),
    "preemption": ("", ""),
    "power": ("", ""),
    "limit": ("", ""),
    "good": ("bold", "bold"),
    "warn": ("bold", "bold"),
    "bad": ("bold", "bold reverse"),
    "mark": ("bold", "bold"),
    "key": ("bold", "bold"),  # coloured as title
    "stale": ("", "dim"),
}
_COLOURED_AS: Final = {"number": "text", "key": "title"}
_PARTS: Final = ("queue", "prefill", "decode", "frontend", "network")  # drawn in whole blocks: hue tells them apart
_CHARTED: Final = ("running", "waiting", "prompt", "generation", "kv", "power")
SHADES: Final = (1.0, 0.84, 0.7, 0.58)  # of a chart's rows, from the top down: the same in every column
EDGES: Final = ("running", "kv", "power", "queue", "generation", "network", "mark", "dim")  # that headings may have
_GREY_IN_ANSI: Final = ("dim", "border", "stale")  # there dim is an attribute: no ANSI colour is grey in every palette


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs of charts. `blocks` has nine, from empty to full; `parts` are told apart without colour."""

    blocks: str
    halves: str  # of 9 x 9: a cell whose left half is filled to so many eighths, and its right half to so many
    meter: str  # a bar's last cell, from empty to full
    zero: str  # a true zero: not a gap, which is blank
    tick: str
    ellipsis: str
    rule: str
    heavy: str  # the rule of what binds
    parts: Mapping[str, str]
    signs: Mapping[str, str]  # of logged events and states


_SIGNS: Final = {
    "start": "▶",
    "restart": "↻",
    "outage": "×",
    "back": "✓",
    "unhealthy": "!",
    "preemption": "▼",
    "mark": "◆",
    "note": "·",
    "end": "■",
    "waiting": "…",
    "down": "×",
    "blind": "?",
    "frozen": "‖",
    "idle": "○",
    "busy": "●",
}
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_QUADRANTS: Final = {(0, 1): "▗", (0, 2): "▐", (1, 0): "▖", (1, 2): "▟", (2, 0): "▌", (2, 1): "▙"}


def _half(left: int, right: int) -> str:
    """Eighths where both halves are much the same, else each half empty, half full or full."""
    halves = tuple(max(1, (of + 2) // 4) if of else 0 for of in (left, right))
    return _QUADRANTS.get((halves[0], halves[1]), _BLOCKS[(left + right + 1) // 2])


UNICODE: Final = Glyphs(
    blocks=_BLOCKS,
    halves="".join(_half(left, right) for left in range(9) for right in range(9)),
    meter=" ▏▎▍▌▋▊▉█",
    zero="_",
    tick="╵",
    ellipsis="…",
    rule="─",
    heavy="━",
    parts={"queue": "█", "prefill": "▓", "decode": "▒", "frontend": "░", "network": "·"},
    signs=_SIGNS,
)
_PLAIN: Final = " .:-=+*%#"
ASCII: Final = Glyphs(
    blocks=_PLAIN,
    halves="".join(_PLAIN[max(left, right)] for left in range(9) for right in range(9)),
    meter="    -   #",
    zero="_",
    tick="|",
    ellipsis="..",
    rule="-",
    heavy="=",
    parts={"queue": "#", "prefill": "=", "decode": "+", "frontend": ".", "network": ":"},
    signs={
        **_SIGNS,
        "start": ">",
        "restart": "R",
        "outage": "X",
        "back": "+",
        "preemption": "v",
        "mark": "M",
        "note": "-",
        "end": "=",
        "waiting": "~",
        "down": "X",
        "frozen": "|",
        "idle": "o",
        "busy": "*",
    },
)

_TO_ASCII: Final = {
    ord(character): plain
    for character, plain in {
        "–": "-", "−": "-", "—": "-", "‑": "-", "·": "|", "…": "..", "×": "x", "÷": "/", "≈": "~", "°": "", "µ": "u",
        "μ": "u", "≤": "<=", "≥": ">=", "→": "->", "←": "<-", "↑": "^", "↓": "v", "●": "*", "○": "o", "‖": "||",
        "▶": ">", "◀": "<", "▲": "^", "▼": "v", "■": "=", "◆": "*", "✓": "+", "✗": "x", "⚠": "!", "↻": "R", "█": "#",
        "▓": "=", "▒": "+", "░": ".", "─": "-", "━": "=",
        "▌": "|", "│": "|", "Δ": "d", "±": "+-", "“": '"', "”": '"', "‘": "'", "’": "'",
        "∞": "inf", "␣": "spc",
    }.items()
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A theme and its glyphs. `styles` has one Style per role of ROLES, without background; `page` carries that."""

    name: str
    dark: bool
    ascii: bool
    colour: bool
    colours: Mapping[str, str]  # by role, and "background" and "panel"; as written in the theme
    styles: Mapping[str, Style]
    page: Style
    glyphs: Glyphs
    faded: Look | None = None  # for what is stale; None in the faded look itself

    @property
    def solid(self) -> bool:
        """Whether colour tells the parts of a chart apart, so that each can be drawn in whole blocks."""
        return self.colour

    def say(self, text: str) -> str:
        """The text as this look can show it: harmless, and in ASCII when that is asked for."""
        if text.isprintable():
            if not self.ascii or text.isascii():
                return text
        else:
            text = clean(text)
        return text.translate(_TO_ASCII).encode("ascii", "replace").decode() if self.ascii else text


def clean(text: str) -> str:
    """Untrusted text made harmless: controls, escapes, surrogates and invisible characters become visible signs."""
    return plain.line(text)


def names() -> tuple[str, ...]:
    """The themes there are, by name: vtop's, and a person's own."""
    return tuple(sorted({path.stem for place in _places() for path in place.glob("*.toml")}))


def path_of(name: str) -> Path:
    """The file of a theme; of a person's own before vtop's of the same name."""
    own, shipped = (place / f"{name}.toml" for place in _places())
    return own if own.is_file() else shipped


def _places() -> tuple[Path, Path]:
    return xdg.config_folder() / "themes", folder("themes")


def load(name: str = "dark", *, ascii: bool = False, colour: bool = True) -> Look:
    """The look of a theme. Raises VtopError for a theme that is not there or not whole."""
    if name not in names():
        raise VtopError(f"there is no theme {name!r}: there are {', '.join(names())}")
    try:
        return look(name, tomllib.loads(small_file.read_own(path_of(name))), ascii=ascii, colour=colour)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise VtopError(f"theme {name!r} cannot be read ({error}): there are {', '.join(names())}") from None


def look(name: str, theme: Mapping[str, object], *, ascii: bool = False, colour: bool = True) -> Look:
    """The look of a theme's table: a colour for each role, and `dark`. Raises VtopError for one that is not whole."""
    colours: dict[str, str] = {}
    for role in ("background", "panel", *(role for role in ROLES if role not in _COLOURED_AS)):
        value = theme.get(role)
        if not isinstance(value, str):
            raise VtopError(f"theme {name!r} has no colour for {role!r}: themes there are: {', '.join(names())}")
        colours[role] = value
    if not isinstance(dark := theme.get("dark"), bool):
        raise VtopError(f"theme {name!r} must say dark = true or false: themes there are: {', '.join(names())}")
    ansi = colours["background"] == "default"
    styles: dict[str, Style] = {}
    try:
        for role, (attributes, alone) in ROLES.items():
            shown = colours[_COLOURED_AS.get(role, role)]
            grey = "dim " if ansi and role in _GREY_IN_ANSI else ""
            styles[role] = Style.parse(f"{grey}{attributes} {shown}" if colour else alone or "none")
        for role in _CHARTED:
            for at, share in enumerate(SHADES[1:], 1):
                styles[f"{role} {at}"] = _shade(colours[role], colours["background"], share) if colour else Style.null()
        for role in EDGES:
            edge = _shade(colours[role], colours["background"], 0.6) if colour else styles["border"]
            title = Style.parse(f"bold {colours[role]}") if colour else styles["title"]
            styles |= {f"{role} edge": edge, f"{role} title": title}
        faded = dict.fromkeys(styles, styles["stale"])
        if colour:
            for at, share in enumerate(SHADES[1:], 1):
                old_shade = _shade(colours["stale"], colours["background"], share)
                faded |= {f"{role} {at}": old_shade for role in _CHARTED}
            faded |= {role: _shade(colours[role], colours["background"], 0.7) for role in _PARTS}
        page = Style.parse(f"{colours['text']} on {colours['background']}" if colour else "none")
    except (StyleSyntaxError, ColorParseError) as error:
        raise VtopError(f"theme {name!r}: {error}; themes there are: {', '.join(names())}") from None
    glyphs = ASCII if ascii else UNICODE
    old = Look(name, dark, ascii, colour, colours, faded, page, glyphs)
    return Look(name, dark, ascii, colour, colours, styles, page, glyphs, old)


def _shade(colour: str, background: str, share: float) -> Style:
    """A colour on its way to the background; of sixteen colours there is one shade."""
    if background == "default":
        return Style.parse(colour)
    return Style(color=Color.from_triplet(blend_rgb(_triplet(background), _triplet(colour), share)))


def _triplet(colour: str) -> ColorTriplet:
    return Color.parse(colour).get_truecolor()
