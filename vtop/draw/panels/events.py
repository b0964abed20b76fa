"""The panel events: what happened, the newest on top."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.draw.text import Line, Piece, blank, clauses, line, width_of
from vtop.draw.theme import Look
from vtop.session.frame.charts import LoggedEvent
from vtop.session.frame.frame import Frame
from vtop.session.frame.vocabulary import LoggedKind

EVENT_ROLES: Final[dict[LoggedKind, str]] = {
    "start": "dim",
    "restart": "warn",
    "flags": "warn",
    "outage": "bad",
    "back": "good",
    "unhealthy": "bad",
    "preemption": "preemption",
    "mark": "mark",
    "note": "dim",
    "end": "dim",
}
_WORDS: Final[dict[LoggedKind, str]] = {"start": "attached ·"}


def events(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """What happened, the newest on top: session time, sign, word, text."""
    latest = frame.event_log[: -height - 1 : -1]
    lines = [_event(logged, width, look) for logged in latest]
    if not lines:
        lines = [line(look, width, ("no event", "dim"))]
    return lines + [blank(look, width)] * (height - len(lines))


def _event(logged: LoggedEvent, width: int, look: Look) -> Line:
    role = EVENT_ROLES.get(logged.kind, "dim")
    sign = look.glyphs.signs.get(logged.kind, look.glyphs.signs["note"])
    word = "" if logged.text.startswith(logged.kind[:7]) else f"{_WORDS.get(logged.kind, logged.kind)} "
    head: list[Piece] = [(f"{units.clock(logged.at_s):>7} ", "dim"), (f"{sign} {word}", role)]
    room = width - sum(width_of(look.say(text)) for text, _ in head)
    return line(look, width, *head, (clauses(look.say(logged.text), room), "text"))
