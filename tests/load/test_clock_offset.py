"""The offset of another clock is never further off than half of the round trip that says so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vtop.load.workers.clock_offset import best, measured

WAYS_S = st.floats(1e-5, 0.5)


@given(st.lists(st.tuples(WAYS_S, WAYS_S), min_size=1, max_size=30), st.floats(-1e6, 1e6))
def test_however_unlike_the_two_ways_are(ways: list[tuple[float, float]], ahead_s: float) -> None:
    now_s, trips = 100.0, []
    for there_s, back_s in ways:
        trips.append((now_s, now_s + there_s + ahead_s, now_s + there_s + back_s))
        now_s += there_s + back_s
    found = best(trips)
    assert abs(found.offset_s - ahead_s) <= found.rtt_s / 2 + 1e-6
    assert found.rtt_s <= min(there_s + back_s for there_s, back_s in ways) + 1e-6


def test_the_shortest_round_trip_is_taken_of_as_many_as_are_asked_for() -> None:
    here = iter([0.0, 0.010, 1.0, 1.002, 2.0, 2.030])
    there = iter([50.001, 51.001, 52.029])
    found = measured(lambda: next(there), lambda: next(here), rounds=3)
    assert (round(found.offset_s, 6), round(found.rtt_s, 6)) == (50.0, 0.002)
