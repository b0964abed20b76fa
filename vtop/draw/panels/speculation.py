"""The panel speculative decoding: how much of the drafts was accepted, a bar a position, and tokens a step."""

from __future__ import annotations

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import Block, chart_cells, fixed, left, right, seen, stacked
from vtop.draw.panels.sizes import Rows
from vtop.draw.text import Line, Phrase, line, phrases
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame
from vtop.session.frame.tokens import AcceptedAt, Speculation


def speculation(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Accepted of drafted tokens, tokens a step, and the share of drafts accepted at each position."""
    look, of = seen(frame, look), frame.speculation
    if of is None:
        return stacked(look, width, height, [fixed(0, [line(look, width, ("no drafts", "dim"))])])
    blocks = [Block(0, lambda _: [_accepted(of, width, look)]), Block(1, lambda _: [_drafts(of, width, look)])]
    blocks += [fixed(2 + at, [_position(one, width, look)]) for at, one in enumerate(of.by_position)]
    return stacked(look, width, height, blocks)


def rows_wide(frame: Frame) -> Rows | None:
    of = frame.speculation
    return None if of is None else Rows(3, 3 + len(of.by_position))


def rows_narrow(frame: Frame) -> Rows | None:
    return None if frame.speculation is None else Rows(1, 2)


def _accepted(of: Speculation, width: int, look: Look) -> Line:
    shown = [
        Phrase(0, ((units.number(of.tokens_per_step), "number"), (" tokens a step", "dim"))),
        Phrase(1, (("accepted ", "dim"), (units.percent(of.accepted_ratio), "number"))),
        Phrase(2, ((f"of {units.count(of.draft_tokens)} drafted tok", "dim"),)),
    ]
    return phrases(look, width, shown)


def _drafts(of: Speculation, width: int, look: Look) -> Line:
    shown = [
        Phrase(
            0, (("drafts ", "dim"), (units.count(of.drafts), "text"), (f" · {units.number(of.drafts_per_s)} /s", "dim"))
        ),
        Phrase(
            1,
            (
                ("a draft ", "dim"),
                (f"{units.number(of.accepted_per_draft)}", "text"),
                (f" of {units.number(of.drafted_per_draft)} tok", "dim"),
            ),
        ),
    ]
    return phrases(look, width, shown)


def _position(of: AcceptedAt, width: int, look: Look) -> Line:
    filled, rest = chart.meter(of.ratio, chart_cells(width), look.glyphs)
    head = left(f"at {of.position}", units.percent(of.ratio), "text")
    return line(look, width, *head, (filled, "generation"), (rest, "border"), right(width, ""))
