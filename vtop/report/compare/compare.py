"""A comparison: two or more sides, each of one run or of repeats, phase by phase, each difference with its interval.

The first side is what the others are held against. Noise is that between runs where a phase has repeats, else that
within a run (compare_noise.py says how), so that a difference without an interval is never called one. Where the
numbers of GPUs differ, what grows with them is given per GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Final

from vtop.errors import VtopError
from vtop.report.compare import noise, pairs, unlike_runs
from vtop.report.compare.compared_phase import Group, find, judge, label
from vtop.report.compare.pairs import Match
from vtop.report.compare.parts import Comparison, SidePart
from vtop.report.compare.phase_blocks import Recorded, RecordedPhase
from vtop.report.compare.unlike_runs import Unlike
from vtop.report.model import of_session
from vtop.report.phases import TimeRange
from vtop.session.frame.gpus import counted_of
from vtop.session.session import Session

Run = tuple[Recorded, ...]  # one or several recordings one after another, whose phases are those of one run
MOST_SIDES: Final = len(ascii_uppercase)


def recorded(session: Session, file: str, asked: Sequence[TimeRange] = ()) -> Recorded:
    """A session read to its end, to be compared. Raises VtopError for a phase asked for beyond its end."""
    return Recorded(session, of_session(session, file, asked))


def of(recordings: Sequence[Recorded], *, unlike: bool = False, confidence: float = noise.TOGETHER) -> Comparison:
    """Of recordings that are a side each: the first against each other."""
    return of_sides([[(one,)] for one in recordings], unlike=unlike, confidence=confidence)


def of_sides(sides: Sequence[Sequence[Run]], *, unlike: bool = False, confidence: float = noise.TOGETHER) -> Comparison:
    """Of sides, each one run or several. Raises VtopError where there is nothing to compare, and for unlike runs unless
    `unlike`."""
    if not 2 <= len(sides) <= MOST_SIDES:
        raise VtopError(f"compare 2 to {MOST_SIDES} recordings, not {len(sides)}")
    parts = tuple(_side(letter, runs) for letter, runs in zip(ascii_uppercase, sides, strict=False))
    places = [[_places(run) for run in side] for side in sides]
    for part, runs in zip(parts, places, strict=True):
        for files, run in zip(part.runs, runs, strict=True):
            if not run:
                raise VtopError(f"{' + '.join(files)}: no request ran in it, so there is nothing to compare")
    first = places[0][0]
    matches = [[pairs.match(first, run) for run in side] for side in places]
    groups = [_group(at, places, matches) for at in range(len(first))]
    found = _unlike(groups, parts)
    if found and not unlike:
        raise VtopError(_refusal(found, parts[0].runs[0][0]))
    if not any(any(group[1:]) for group in groups):
        raise VtopError("no phase of the first recording has a counterpart in another")
    gpus = [part.gpus for part in parts]
    per_gpu = gpus if None not in gpus and len(set(gpus)) > 1 else [None] * len(gpus)
    found_phases = [
        find(group, [_by(at, matches[0][1:]), *(_by(at, side) for side in matches[1:])], per_gpu)
        for at, group in enumerate(groups)
        if any(group[1:])
    ]
    of_first, others = (sum(counts) for counts in zip(*(one.intervals for one in found_phases), strict=True))
    each = noise.each(confidence, of_first, others), noise.each(confidence, others, of_first)
    return Comparison(
        sides=parts,
        confidence=confidence,
        intervals=of_first + others,
        first_confidence=each[0],
        other_confidence=each[1],
        settings=unlike_runs.settings([[one for run in side for one in run] for side in sides]),
        unlike=tuple(found),
        left_out=_left_out(places, matches, parts),
        phases=tuple(judge(one, *each) for one in found_phases),
    )


# --- sides and phases ------------------------------------------------------------------------------------------------


def _side(letter: str, runs: Sequence[Run]) -> SidePart:
    gpus = {len(counted_of(one.report.devices)) for run in runs for one in run}
    return SidePart(
        name=letter,
        runs=tuple(tuple(one.report.file for one in run) for run in runs),
        gpus=gpus.pop() or None if len(gpus) == 1 else None,
    )


def _places(run: Run) -> list[RecordedPhase]:
    return [RecordedPhase(one, phase) for one in run for phase in one.report.phases]


def _group(at: int, places: list[list[list[RecordedPhase]]], matches: list[list[tuple[Match | None, ...]]]) -> Group:
    return [
        [run[found.at] for run, match in zip(runs, of_runs, strict=True) if (found := match[at]) is not None]
        for runs, of_runs in zip(places, matches, strict=True)
    ]


def _by(at: int, matches: list[tuple[Match | None, ...]]) -> str | None:
    return next((found.by for match in matches if (found := match[at]) is not None), None)


def _unlike(groups: Sequence[Group], parts: Sequence[SidePart]) -> list[Unlike]:
    return [
        Unlike(label(group[0][0]), part.name, place.of.report.file, *one)
        for group in groups
        for part, places in zip(parts, group, strict=True)
        for place in places
        for one in unlike_runs.unlike(group[0][0], place)
    ]


def _refusal(found: Sequence[Unlike], first: str) -> str:
    one = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"unlike runs: in {one.phase} {one.what} is {one.first} in {first} and {one.other} in {one.file}{more}; "
        "--unlike compares them all the same"
    )


def _left_out(
    places: list[list[list[RecordedPhase]]], matches: list[list[tuple[Match | None, ...]]], parts: Sequence[SidePart]
) -> tuple[tuple[str, str], ...]:
    found = []
    for part, runs, of_runs in zip(parts, places, matches, strict=True):
        for run, match in zip(runs, of_runs, strict=True):
            taken = {one.at for one in match if one is not None}
            found += [(part.name, label(place)) for at, place in enumerate(run) if at not in taken]
    others = [[match[at] for runs in matches[1:] for match in runs] for at in range(len(places[0][0]))]
    found += [(parts[0].name, label(places[0][0][at])) for at, of in enumerate(others) if not any(of)]
    return tuple(dict.fromkeys(found))
