"""Which phase goes with which: the same load first, then the same name, then the order, and what is left is said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.report.loops import Loop, run, session
from vtop.report.compare import compare
from vtop.report.compare.pairs import Match, match
from vtop.report.compare.phase_blocks import Recorded, RecordedPhase
from vtop.report.phases import asked_phases


def places(of: Recorded) -> list[RecordedPhase]:
    return [RecordedPhase(of, phase) for phase in of.report.phases]


def loads(*words: int, own: bool = True, input: int = 100) -> list[RecordedPhase]:
    return places(run(*(Loop(c=c, n=2 * c, own=own, input=input) for c in words)))


def matched(reference: Sequence[RecordedPhase], others: Sequence[RecordedPhase]) -> list[tuple[int, str] | None]:
    return [(one.at, one.by) if one is not None else None for one in match(reference, others)]


def test_the_same_load_is_found_wherever_it_stands() -> None:
    assert matched(loads(1, 2, 4), loads(4, 1, 2)) == [(1, "load"), (2, "load"), (0, "load")]


def test_a_load_that_the_other_did_not_run_has_no_counterpart() -> None:
    assert matched(loads(1, 2, 4), loads(2, 8)) == [None, (0, "load"), None]
    found = compare.of([run(Loop(c=1, n=8), Loop(c=2, n=8)), run(Loop(c=2, n=8), Loop(c=4, n=8))])
    assert found.left_out == (("B", "c=4"), ("A", "c=1"))


def test_of_several_alike_the_first_goes_to_the_first() -> None:
    assert matched(loads(2, 4, 2), loads(2, 2)) == [(0, "load"), None, (1, "load")]


def test_as_much_of_another_load_is_a_counterpart_too() -> None:
    assert matched(loads(1, 2), loads(2, 1, input=200)) == [(1, "load"), (0, "load")]


def test_a_load_that_is_not_on_record_is_paired_by_order() -> None:
    unknown = [*loads(3, own=False), *loads(5, own=False)]
    assert matched(loads(1, 2, 4), unknown) == [(0, "order"), (1, "order"), None]
    assert matched(unknown, loads(1, 2, 4)) == [(0, "order"), (1, "order")]


def test_a_watched_load_goes_to_the_one_it_looks_like() -> None:
    assert matched(loads(4, own=False), loads(1, 2, 4)) == [(2, "likeness")]
    assert matched(loads(1, 2, 4), loads(4, own=False)) == [None, None, (0, "likeness")]


def test_where_no_load_is_the_same_the_order_decides() -> None:
    assert matched(loads(1, 2), loads(3, 4)) == [(0, "order"), (1, "order")]


@pytest.mark.parametrize(("text", "expected"), [("b=4-6,a=2-4", [1, 0]), ("a=3-5,x=5-7", [0, None])])
def test_stretches_go_by_their_names(text: str, expected: list[int | None]) -> None:
    of = session()
    reference = places(compare.recorded(of, "a", asked_phases("b=2-4,a=4-6")))
    others = places(compare.recorded(of, "b", asked_phases(text)))
    names = [one.phase.name for one in others]
    for place, found in zip(reference, match(reference, others), strict=True):
        if place.phase.name in names:
            assert found == Match(names.index(place.phase.name), "name")
    assert sum(one is not None and one.by == "name" for one in match(reference, others)) == len(set(names) & {"a", "b"})
