"""Which phase of one recording is to be held against which of another.

First those that ran the same load: shape, concurrency or rate, lengths, api. Then those that ran as much of another
one, so that what differs is named rather than the phase left out. Then asked and marked spans of the same name.
Then, where a side was only watched, those that look like the same load (like_phases.py).
What is left is paired in the order of time where the load of a side is not on record, or where nothing else was found.
The k-th of several alike goes to the k-th.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from vtop.recording import Load
from vtop.report.compare.phase_blocks import RecordedPhase
from vtop.report.like_phases import like


@dataclass(frozen=True, slots=True)
class Match:
    """by: load, name, likeness, order."""

    at: int
    by: str


def match(reference: Sequence[RecordedPhase], others: Sequence[RecordedPhase]) -> tuple[Match | None, ...]:
    """For each phase of the reference the place of its counterpart; None where it has none."""
    found: dict[int, Match] = {}
    rules: tuple[tuple[str, Callable[[RecordedPhase], Hashable]], ...] = (
        ("load", _load),
        ("load", _target),
        ("name", _name),
    )
    for by, key in rules:
        here, there = _left(reference, set(found)), _left(others, {one.at for one in found.values()})
        places = {tag: at for at, tag in _tagged(there, key)}
        for at, tag in _tagged(here, key):
            if tag in places:
                found[at] = Match(places[tag], by)
    _match_seen(reference, others, found)
    nothing = not found
    here, there = _left(reference, set(found)), _left(others, {one.at for one in found.values()})
    for (at, mine), (other, its) in zip(here, there, strict=False):
        if nothing or mine.phase.load is None or its.phase.load is None:
            found[at] = Match(other, "order")
    return tuple(found.get(at) for at in range(len(reference)))


def _match_seen(reference: Sequence[RecordedPhase], others: Sequence[RecordedPhase], found: dict[int, Match]) -> None:
    """Each phase with the first that is left and looks like it, where one of the two was only watched."""
    for at, mine in _left(reference, set(found)):
        for other, its in _left(others, {one.at for one in found.values()}):
            if (mine.phase.load is None or its.phase.load is None) and _look_alike(mine, its):
                found[at] = Match(other, "likeness")
                break


def _look_alike(mine: RecordedPhase, its: RecordedPhase) -> bool:
    one, other = mine.phase.whole, its.phase.whole
    return one is not None and other is not None and like((mine.phase, one), (its.phase, other))


def begun(place: RecordedPhase) -> Load | None:
    """The load that a phase began with, where it is one of vtop's own."""
    load = place.phase.load
    return place.of.session.load.phases[load.phase].begin if load is not None else None


def _left(places: Sequence[RecordedPhase], taken: set[int]) -> list[tuple[int, RecordedPhase]]:
    return [(at, place) for at, place in enumerate(places) if at not in taken]


def _tagged(
    places: Sequence[tuple[int, RecordedPhase]], key: Callable[[RecordedPhase], Hashable]
) -> list[tuple[int, tuple[Hashable, int]]]:
    """Each with its key and which of those with this key it is; those without a key left out."""
    seen: Counter[Hashable] = Counter()
    found = []
    for at, place in places:
        word = key(place)
        if word is not None:
            found.append((at, (word, seen[word])))
            seen[word] += 1
    return found


def _load(place: RecordedPhase) -> Hashable:
    of = begun(place)
    if of is None:
        return None
    lengths = (of.input_tokens, of.output_tokens)
    return (of.shape, of.concurrency, of.rate_per_s, of.arrival, of.api, lengths)


def _target(place: RecordedPhase) -> Hashable:
    of = begun(place)
    return (of.shape, of.concurrency, of.rate_per_s) if of is not None else None


def _name(place: RecordedPhase) -> Hashable:
    return place.phase.name if place.phase.source in ("asked", "mark") else None
