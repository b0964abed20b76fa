"""Where the wall-clock time of the window went, in one line: a bar, and a legend that names all that is drawn in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import LEFT
from vtop.draw.text import Line, Phrase, Piece, line, side_by_side, width_of
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

_LEAST: Final = 6  # cells of a bar
_READABLE: Final = 16  # for these the legend is rather written shorter


def known(frame: Frame) -> bool:
    """Whether there is anything to draw."""
    clock = frame.wallclock
    return any((clock.decode_s, clock.prefill_s, clock.recompute_s, clock.idle_s))


def bar(frame: Frame, width: int, look: Look) -> Line:
    """Decode, prefill, recompute, idle. In a narrow panel the legend grows shorter, then the bar; what then has no room
    for its name is not drawn either."""
    clock, signs = frame.wallclock, look.glyphs.parts
    parts = [
        _Part(value, *rest)
        for value, *rest in (
            (clock.decode_s, "decode", "decode", "decode", signs["decode"]),
            (clock.prefill_s, "prefill", "prefill", "prefill", signs["prefill"]),
            (clock.recompute_s, "recompute", "recomp", "preemption", signs["queue"]),
            (clock.idle_s, "idle", "idle", "dim", look.glyphs.rule),
        )
        if value
    ]
    room = width - LEFT - 2
    named = list(parts)
    while len(named) > 1 and not _forms(look, room, named, parts):
        named.remove(min(named, key=lambda part: part.seconds))
    columns, legend = next(iter(_forms(look, room, named, parts)), (0, [(named[0].word, named[0].role)]))
    cells = chart.shares([part.seconds for part in parts], columns)
    runs = [(part.sign * n if part in named else " " * n, part.role) for n, part in zip(cells, parts, strict=True) if n]
    return line(look, width, (f"{'wall clock':<{LEFT}}", "dim"), *runs, ("  ", "dim"), *legend)


class _Part(NamedTuple):
    seconds: float
    word: str
    short: str
    role: str
    sign: str


def _forms(look: Look, room: int, named: Sequence[_Part], parts: Sequence[_Part]) -> list[tuple[int, list[Piece]]]:
    """The bar's cells and the legend beside them, in each form that fits, the fullest first."""
    total = sum(part.seconds for part in parts)
    long, short, bare = (
        [
            Phrase(
                0,
                (
                    (f"{part.sign} {part.word if full else part.short} ".rstrip() + " " * bool(said), part.role),
                    (said, "text"),
                ),
            )
            for part in named
            for said in (words(part.seconds / total),)
        ]
        for words, full in ((units.percent, True), (units.whole_percent, False), (lambda _: "", False))
    )
    third = max(_LEAST, (room + 2) // 3)
    forms = []
    for items, between in ((long, " · "), (short, " "), (bare, " ")):
        legend = side_by_side(items, between)
        columns = min(third, room - sum(width_of(look.say(text)) for text, _ in legend))
        if columns >= _LEAST:
            forms.append((columns, legend))
    return [form for form in forms if form[0] >= min(third, _READABLE)] or forms
