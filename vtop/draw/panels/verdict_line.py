"""The verdict: a sign, which limit binds and its evidence, and what to try."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.draw.text import Line, Phrase, blank, fitting, line, width_of, wrapped
from vtop.draw.theme import Look
from vtop.session.bottleneck.verdict import TITLES
from vtop.session.frame.frame import Frame
from vtop.session.frame.vocabulary import StatusKind, VerdictLimit

# Kind of status -> sign, role. Red is for what needs a hand now.
STATES: Final[dict[StatusKind, tuple[str, str]]] = {
    "waiting": ("waiting", "warn"),
    "down": ("down", "bad"),
    "unhealthy": ("unhealthy", "bad"),
    "blind": ("blind", "warn"),
    "frozen": ("frozen", "bad"),
    "idle": ("idle", "dim"),
    "busy": ("busy", "good"),
}
# Of a verdict: what needs a hand is warn, red what needs it now.
_INDENT: Final = 2  # of the second line, as of the title behind its sign
_VERDICTS: Final[dict[VerdictLimit, str]] = {
    "none": "good", "idle": "dim", "waiting": "dim", "unknown": "dim", "stuck": "bad", "stale": "bad",
}  # fmt: skip


def status(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The one thing to know: a sign, which limit binds, the evidence, and what to try against it.

    What to try has the second line, where there are two; where there is nothing to try the evidence has it, and where
    that is short what the server did over the window. In one line what to try stays longer than the evidence.
    """
    sign, role = STATES.get(frame.status.kind, ("note", "dim"))
    found = frame.verdict
    role = verdict_role(found.limit) if frame.status.fresh else role
    head = (f"{look.glyphs.signs[sign]} {TITLES[found.limit]}  ", role)
    evidence = [Phrase(at + 1, ((text, "text"),)) for at, text in enumerate(found.evidence)]
    if frame.status.absent is not None:  # the verdict is that of the others
        evidence.insert(0, Phrase(0, ((frame.status.absent, "bad"),)))
    attempt = [Phrase(0, (("try ", "dim"), (found.flag, "mark")))] if found.flag is not None else []
    room = width - width_of(head[0])
    if height == 1:
        return [line(look, width, head, *fitting(look, room, [*evidence, *attempt]))]
    if attempt:
        why = [Phrase(1, ((found.why, "dim"),))] if found.why is not None else []
        first, second = fitting(look, room, evidence), fitting(look, width - _INDENT, [*attempt, *why])
    else:
        laid = wrapped(look, room, 2, evidence) if evidence else [[]]
        first, second = laid[0], laid[1] if len(laid) > 1 else fitting(look, width - _INDENT, _served(frame))
    lines = [line(look, width, head, *first), line(look, width, (" " * _INDENT, "dim"), *second)]
    return lines + [blank(look, width)] * (height - 2)


def _served(frame: Frame) -> list[Phrase]:
    """What the server did over the window: throughput, and how long its users waited."""
    out = frame.generation_tokens
    if not frame.status.fresh or not out.in_window:
        return []
    said = [Phrase(0, (("out ", "dim"), (f"{units.number(out.per_s)} tok/s", "text")))]
    if frame.ttft.first_tokens:
        said.append(Phrase(1, (("TTFT ", "dim"), (units.seconds(frame.ttft.first_token_s), "text"))))
    itl = next((one for one in frame.latencies if one.name == "ITL" and one.n), None)
    if itl is not None:
        said.append(Phrase(2, (("ITL ", "dim"), (units.seconds(itl.mean_s), "text"))))
    if frame.requests.finished.in_window:
        said.append(Phrase(3, ((f"{units.count(frame.requests.finished.in_window)} finished", "text"),)))
    return [*said, Phrase(0, ((f"in {units.span(frame.window_s)}", "dim"),))]


def verdict_role(limit: VerdictLimit) -> str:
    return _VERDICTS.get(limit, "warn")
