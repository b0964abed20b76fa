"""A closed loop's throughput is taken over whole rounds: where in a wave it begins and ends does not move it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtop.recording import Request
from vtop.session.load.closed_loop import requests_per_s, rounds, tokens_per_s

OUT = 256


def ended(end_s: list[float]) -> list[Request]:
    return [Request(t=at_s, id=number, phase=0, end_s=at_s, output_tokens=OUT) for number, at_s in enumerate(end_s)]


def waves(count: int, concurrency: int, period_s: float, width_s: float) -> list[float]:
    """Requests that end together, wave after wave."""
    return [
        (wave + 1) * period_s + width_s * place / concurrency for wave in range(count) for place in range(concurrency)
    ]


@pytest.mark.parametrize("width_s", [0.0, 0.3, 2.9])
def test_waves_give_what_they_are(width_s: float) -> None:
    found = rounds(ended(waves(7, 64, 2.92, width_s)), 64)
    assert len(found) == 5
    assert requests_per_s(found) == pytest.approx(64 / 2.92)
    assert tokens_per_s(found) == pytest.approx(64 * OUT / 2.92)


def test_a_straggler_moves_it_by_nothing() -> None:
    """As on a real H200: one request of the last full wave ended 0.9 s late, and so the last one was sent late."""
    at_s = waves(7, 64, 2.92, 0.3)
    at_s[6 * 64 - 1] += 0.9
    assert tokens_per_s(rounds(ended(at_s), 64)) == pytest.approx(64 * OUT / 2.92)


def test_what_came_after_no_more_were_sent_is_left_out() -> None:
    at_s = waves(7, 64, 2.92, 0.3)
    slow = [at + (5.0 if place >= 6 * 64 else 0.0) for place, at in enumerate(at_s)]
    assert rounds(ended(slow), 64) == rounds(ended(at_s), 64)


def test_of_fewer_than_three_rounds_there_is_no_rate() -> None:
    assert not rounds(ended(waves(4, 64, 2.92, 0.3)), 64)
    assert len(rounds(ended(waves(5, 64, 2.92, 0.3)), 64)) == 3
    assert not rounds(ended([]), 64)


def test_requests_that_all_ended_in_one_instant_have_no_rate() -> None:
    assert not rounds(ended([1.0] * 64), 8)


@given(st.lists(st.floats(0.001, 10.0), min_size=45, max_size=80), st.integers(1, 9))  # five waves at least
def test_every_request_between_the_first_and_last_edge_counts_once(pauses: list[float], concurrency: int) -> None:
    at_s = [sum(pauses[: place + 1]) for place in range(len(pauses))]
    found = rounds(ended(at_s), concurrency)
    assert found
    inside = [at for at in at_s if found[0].begin_s < at <= found[-1].end_s]
    assert sum(one.output_tokens for one in found) == OUT * len(inside) == OUT * concurrency * len(found)
    assert found[-1].end_s <= at_s[-1 - concurrency]
