"""The panel capacity: a search for the largest rate that keeps a service level, its bracket, and each rate tried."""

from __future__ import annotations

import math
from typing import Final

from vtop import units
from vtop.draw.grid import Block, fixed, stacked
from vtop.draw.panels.sizes import Rows
from vtop.draw.text import Column, Line, Phrase, Piece, kept_of, line, phrases, table
from vtop.draw.theme import Look
from vtop.session.capacity.foretold import speed_words
from vtop.session.frame.capacity import CapacityPart, CapacityRate
from vtop.session.frame.frame import Frame
from vtop.session.frame.vocabulary import RateVerdict

_TABLE = (
    Column("requests/s", 10),
    Column("verdict", 10, right=False),
    Column("mean", 7),
    Column("lowest", 7, rank=1),
    Column("±", 7, rank=2),
    Column("runs", 4, rank=1),
    Column("attained", 12, right=False, rank=3),
)
_ROLES: Final[dict[RateVerdict, str]] = {"pass": "good", "fail": "bad", "undecided": "warn", "more": "dim"}
_WORDS: Final[dict[RateVerdict, str]] = {"more": "not judged"}


def capacity(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The search that goes on, or the last one."""
    part = frame.capacity
    if part is None:
        said = ("no search of capacity: vtop capacity --screen", "dim")
        return stacked(look, width, height, [fixed(0, [line(look, width, said)])])
    blocks = [fixed(0, [_bracket(part, width, look)]), fixed(1, [_now(part, width, look)])]
    if part.simulated is not None:
        blocks.append(fixed(3, [_simulated(part, width, look)]))
    blocks += [fixed(4, [line(look, width, (said, "warn"))]) for said in _caveats(part)]
    if part.rates:
        most = len(part.rates) + 1
        blocks.append(Block(2, lambda lines: _rates(part, width, lines, look), min(3, most), most))
    return stacked(look, width, height, blocks)


def rows_wide(frame: Frame) -> Rows | None:
    """With a heading."""
    many = _lines(frame)
    return None if many is None else Rows(min(many, 6) + 1, many + 1)


def rows_narrow(frame: Frame) -> Rows | None:
    many = _lines(frame)
    return None if many is None else Rows(min(many, 5), many)


def at_stake(frame: Frame) -> list[str]:
    """The rule, and how many runs there were."""
    part = frame.capacity
    if part is None:
        return []
    made = "1 run" if part.runs == 1 else f"{units.count(part.runs)} runs"
    return [f"{part.rule} of {units.count(part.planned_runs)} × {units.count(part.requests)}", f"{made} so far"]


def _lines(frame: Frame) -> int | None:
    part = frame.capacity
    if part is None:
        return None
    table_lines = len(part.rates) + 1 if part.rates else 0
    return 2 + (part.simulated is not None) + len(_caveats(part)) + table_lines


def _bracket(part: CapacityPart, width: int, look: Look) -> Line:
    low, high = part.passes_per_s, part.fails_per_s
    if low is not None and high is not None:
        found: tuple[Piece, ...] = (
            ("between ", "dim"), (units.number(low), "number"), (" and ", "dim"), (units.number(high), "number"),
        )  # fmt: skip
    elif low is not None:
        found = (("at least ", "dim"), (units.number(low), "number"))
    elif high is not None:
        found = (("below ", "dim"), (units.number(high), "number"))
    else:
        found = (("no rate judged yet", "dim"),)
    per_s = ((" requests/s", "dim"),) if low is not None or high is not None else ()
    bounds = " ".join(f"{name} ≤ {units.seconds(bound)}" for name, bound in part.bounds)
    shown = [Phrase(0, (*found, *per_s))]
    if part.undecided_per_s:
        rates = ", ".join(units.number(rate) for rate in part.undecided_per_s)
        shown.append(Phrase(1, ((f"undecided {rates}", "warn"),)))
    shown.append(Phrase(2, ((f"{units.percent(part.target_ratio)} within {bounds}", "dim"),)))
    return phrases(look, width, shown)


def _now(part: CapacityPart, width: int, look: Look) -> Line:
    if part.end is not None:
        why = f": {part.why}" if part.why is not None else ""
        return phrases(look, width, [Phrase(0, ((f"ended: {part.end}{why}", "dim"),))])
    shown = [Phrase(0, (("between two runs", "dim"),))]
    if (run := part.running) is not None:
        word = "holding " if run.hold else "running "
        shown = [Phrase(0, ((word, "dim"), (units.number(run.rate_per_s), "number"), (" requests/s", "dim")))]
        if not run.hold:
            of = f" of {units.count(part.planned_runs)}" if run.number <= part.planned_runs else ""
            shown.append(Phrase(1, ((f"run {units.count(run.number)}{of}", "dim"),)))
    if part.left_runs is not None and part.left_s is not None:
        left = f"about {units.count(part.left_runs)} runs, {units.clock(part.left_s)} of load left"
        shown.append(Phrase(2, ((left, "dim"),)))
    return phrases(look, width, shown)


def _simulated(part: CapacityPart, width: int, look: Look) -> Line:
    found = part.simulated
    assert found is not None
    both = f"simulated {_between(found.passes_per_s, found.fails_per_s)} requests/s"
    shown = [Phrase(0, ((both, "text"),))]
    said = speed_words(found.speed_least_ratio, found.speed_most_ratio)
    if said is not None:
        shown.append(Phrase(1, ((f"measured {said} of it", "text"),)))
    if found.hosts:
        hosts = f"on {units.count(found.hosts)} other hosts {_between(found.least_per_s, found.most_per_s)}"
        shown.append(Phrase(2, ((hosts, "dim"),)))
    return phrases(look, width, shown)


def _between(low: float | None, high: float | None) -> str:
    return f"{units.number(low)} to {units.number(high)}"


def _caveats(part: CapacityPart) -> list[str]:
    said = []
    if not part.monotone:
        said.append("! a rate passed above one that failed: the bracket is widened over both")
    if part.not_counted:
        runs = "1 run" if part.not_counted == 1 else f"{units.count(part.not_counted)} runs"
        said.append(f"! {runs} not counted: {part.not_counted_why}")
    return said


def _rates(part: CapacityPart, width: int, lines: int, look: Look) -> list[Line]:
    """The lowest rate on top; where there is no room for all, those nearest to the bracket."""
    edges = [one for one in (part.passes_per_s, part.fails_per_s) if one is not None]
    middle = math.sqrt(edges[0] * edges[-1]) if edges else part.rates[0].rate_per_s
    nearest = sorted(part.rates, key=lambda one: abs(math.log(one.rate_per_s / middle)))[: max(1, lines - 1)]
    kept = kept_of(_TABLE, width)
    room = width - sum(_TABLE[at].width + 2 for at in kept[:-1])
    rows = [_row(one, part.target_ratio, room, look) for one in part.rates if one in nearest]
    return table(look, width, _TABLE, rows, lines > 1)[:lines]


def _row(one: CapacityRate, target: float, room: int, look: Look) -> list[Piece]:
    role = _ROLES[one.verdict]
    return [
        (units.number(one.rate_per_s), "number"),
        (_WORDS.get(one.verdict, one.verdict), role),
        (units.percent(one.mean_ratio), "text"),
        (units.percent(one.lowest_ratio), "text"),
        (units.percent(one.half_ratio), "dim"),
        (units.count(one.runs), "dim"),
        (_bar(one.mean_ratio, target, room, look), role),
    ]


def _bar(share: float | None, target: float, cells: int, look: Look) -> str:
    """As long as the mean attainment, 100 % at the right end, with the target in it."""
    if share is None or cells < 8:
        return ""
    full, mark = round(share * cells), min(cells - 1, round(target * cells))
    block = look.glyphs.parts["decode"]
    return "".join(look.glyphs.tick if at == mark else block if at < full else " " for at in range(cells))
