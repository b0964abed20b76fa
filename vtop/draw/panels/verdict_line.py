"""The verdict: a sign, which limit binds and its evidence, and what to try."""

from __future__ import annotations

from typing import Final

from vtop.draw.text import Line, Phrase, blank, fitting, line, width_of
from vtop.draw.theme import Look
from vtop.session.bottleneck.verdict import TITLES
from vtop.session.frame.frame import Frame

# Kind of status -> sign, role. Red is for what needs a hand now.
STATES: Final = {
    "waiting": ("waiting", "warn"),
    "down": ("down", "bad"),
    "unhealthy": ("unhealthy", "bad"),
    "blind": ("blind", "warn"),
    "frozen": ("frozen", "bad"),
    "idle": ("idle", "dim"),
    "busy": ("busy", "good"),
}
# Of a verdict: what needs a hand is warn, red what needs it now.
_VERDICTS: Final = {"none": "good", "idle": "dim", "waiting": "dim", "unknown": "dim", "stuck": "bad", "stale": "bad"}


def status(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The one thing to know: a sign, which limit binds, and its evidence; and a flag to try where there is room."""
    sign, role = STATES.get(frame.status.kind, ("note", "dim"))
    found = frame.verdict
    role = verdict_role(found.limit) if frame.status.fresh else role
    head = (f"{look.glyphs.signs[sign]} {TITLES[found.limit]}  ", role)
    shown = [Phrase(at, ((text, "text"),)) for at, text in enumerate(found.evidence)]
    if found.flag is not None:
        shown.append(Phrase(len(shown), (("try ", "dim"), (found.flag, "mark"))))
    first = line(look, width, head, *fitting(look, width - width_of(head[0]), shown))
    return [first] + [blank(look, width)] * (height - 1)


def verdict_role(limit: str) -> str:
    return _VERDICTS.get(limit, "warn")
