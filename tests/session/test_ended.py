"""Requests kept small are given back as they were; sampling and distributions of small sessions."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import msgspec
import pytest

from tests.session.made import Log, Server
from vtop.recording import Request
from vtop.session.history.sampling import sampling
from vtop.session.history.window import window
from vtop.session.load.compact_requests import Ended
from vtop.session.load.distribution import of_window
from vtop.session.load.exact_histogram import EXACT_UP_TO, ExactHistogram


def test_a_request_comes_back_as_it_was() -> None:
    kept = Ended()
    requests = [
        Request(id=0, phase=0, gaps_us=(1, 2, 3), output_tokens=4),
        Request(id=1, phase=0, gaps_us=None),
        Request(id=2, phase=0, gaps_us=(), error="http_status"),
        Request(id=3, phase=0, gaps_us=(4_000_000_000,), gap_tokens=(2,)),
    ]
    for request in requests:
        kept.append(request)
    assert list(kept) == requests
    assert kept[1:3] == requests[1:3]
    assert kept[-1] == requests[-1]
    assert len(kept) == 4


def test_a_gap_that_no_clock_gives_does_not_stop_the_rest() -> None:
    kept = Ended()
    kept.append(Request(id=0, phase=0, gaps_us=(5, -1, 1 << 40)))
    kept.append(Request(id=1, phase=0, gaps_us=(7,)))
    assert [one.gaps_us for one in kept] == [(5, 0, (1 << 32) - 1), (7,)]


def test_many_gaps_at_once_are_counted_like_one_after_another() -> None:
    once, each = ExactHistogram(), ExactHistogram()
    values = (5, 3, 5, 9, 3, 3)
    once.add_all_us(values)
    for value in values:
        each.add_us(value)
    assert (once.n, once.mean_s, once.quantiles((0.5,))) == (each.n, each.mean_s, each.quantiles((0.5,)))


def test_a_curve_begins_at_the_least_ends_at_the_greatest_and_counts_the_failed() -> None:
    spread = ExactHistogram()
    spread.add_all_us(range(1, 1001))
    spread.failed = 1000
    curve = spread.curve(11)
    assert curve[0] == (1e-6, 1 / 2000)
    assert curve[-1] == (1e-3, 0.5)
    assert len(curve) <= 12
    assert curve == sorted(curve)


def test_sampling_counts_intervals_and_leaves_gaps_out() -> None:
    log, server = Log(), Server()
    for at_s in (0.0, 1.0, 2.01, 3.0, 9.0, 10.0):
        log.scrape(at_s, server)
    (found,) = sampling(log.session().servers, 0.0, 10.0)
    assert (found.scrapes, found.seconds) == (6, 10.0)
    assert found.apart_p50_s == pytest.approx(1.0)
    assert found.error_p99_s == pytest.approx(0.01)
    assert (found.gaps, found.gap_s) == (((3.0, 9.0),), 6.0)


def test_the_share_in_buckets_is_known_at_their_bounds() -> None:
    log, server = Log(), Server()
    log.scrape(0.0, server)
    server.engine.observe(time_to_first=0.05, inter_token=0.5)
    server.engine.observe(time_to_first=0.05)
    server.engine.observe(time_to_first=20.0)
    log.scrape(1.0, server)
    found = {one.name: one for one in of_window(window(log.session().servers, 1.1, 10.0))}
    assert (found["TTFT"].n, found["TTFT"].whose) == (3, "buckets")
    assert found["TTFT"].points == ((0.01, 0.0), (0.1, 2 / 3), (1.0, 2 / 3), (10.0, 2 / 3))


def test_a_curve_of_few_values_has_each_of_them_once() -> None:
    spread = ExactHistogram()
    spread.add_all_us((30, 10, 10, 20))
    assert spread.curve(1 << 60) == [(1e-5, 0.5), (2e-5, 0.75), (3e-5, 1.0)]
    assert ExactHistogram().curve(200) == []


def test_whatever_stands_in_a_request_comes_back() -> None:
    """Each field set, each alone, and with numbers that no array of machine numbers takes."""
    floats = ("t", "due_s", "admitted_s", "sent_s", "connect_s", "headers_s", "first_s", "answer_s", "last_s", "end_s")
    counts = ("asked_prompt_tokens", "asked_output_tokens", "prompt_tokens", "cached_tokens", "output_tokens", "chunks")
    made: dict[str, Any] = {name: place + 0.1 for place, name in enumerate(floats)}
    made |= {name: place for place, name in enumerate((*counts, "id", "phase", "first_tokens", "status", "host"))}
    made |= {"warmup": True, "tokens_from": "ids", "error": "timeout", "detail": "late", "finish": "stop"}
    made |= {"gaps_us": (1, 70_000), "gap_tokens": (3, 1), "timings": {"queue_time_ms": 0.1, "more": [1, None]}}
    assert set(made) == set(Request.__struct_fields__)
    requests = [Request(**made)]
    requests += [Request(**({"id": 1, "phase": 0} | {name: value})) for name, value in made.items()]
    requests += [Request(**{**made, "output_tokens": number}) for number in (0, -5, (1 << 31) - 1, -(1 << 31), 1 << 70)]
    requests.append(Request(**{**made, "timings": {"a": 1 << 70}}))
    kept = Ended()
    for request in requests:
        kept.append(request)
    assert list(kept) == requests
    assert [one.output_tokens for one in kept.outputs(len(kept))] == [one.output_tokens for one in requests]
    assert kept.bare_one(0) == msgspec.structs.replace(requests[0], gaps_us=())


def test_a_request_of_twenty_tokens_takes_160_bytes_or_less() -> None:
    kept = Ended()
    gaps = tuple(range(20_000, 20_019))
    tracemalloc.start()
    try:
        for number in range(10_000):
            at_s = number / 7
            kept.append(Request(id=number, phase=0, due_s=at_s, sent_s=at_s, end_s=at_s + 1, gaps_us=gaps))
        assert tracemalloc.get_traced_memory()[0] < 1_600_000
    finally:
        tracemalloc.stop()


def test_a_pile_of_a_day_of_different_durations_stays_small_and_right_to_1_in_8192() -> None:
    """40,000 different ones, one by one and at once, keep to a bound in memory; the small ones stay exact."""
    values = [5, 8191, *(20_000 + 977 * k for k in range(40_000))]
    one_by_one, at_once = ExactHistogram(), ExactHistogram()
    for us in values:
        one_by_one.add_us(us)
    at_once.add_all_us(values)
    for spread in (one_by_one, at_once):
        assert (spread.n, spread.mean_s) == (len(values), sum(values) / len(values) / 1e6)
        for q, found in zip((0.5, 0.99, 0.999), spread.quantiles((0.5, 0.99, 0.999)), strict=True):
            assert found == pytest.approx(values[math.ceil(q * len(values)) - 1] / 1e6, rel=1 / 8_192)
        assert spread.curve(200)[0][0] == 5e-6
        assert len(spread._counts) < EXACT_UP_TO


def test_the_first_may_be_given_up_and_the_rest_stays_as_it_was() -> None:
    """Among narrow and wide gaps, fields that few have, and a number that no array takes."""
    kept = Ended()
    requests = [
        Request(id=0, phase=0, gaps_us=(1, 2, 3)),
        Request(id=1, phase=0, gaps_us=(100_000, 5), detail="slow"),
        Request(id=1 << 40, phase=0, gaps_us=(4,), t=2.0),
        Request(id=3, phase=0, gaps_us=(200_000,), detail="slower"),
        Request(id=4, phase=0, gaps_us=None),
        Request(id=5, phase=0, gaps_us=(7, 8)),
    ]
    for request in requests[:5]:
        kept.append(request)
    kept.forget(2)
    assert list(kept) == requests[2:5]
    kept.append(requests[5])
    kept.forget(1)
    assert list(kept) == requests[3:]
    assert [one.id for one in kept.bare(3)] == [3, 4, 5]
    assert [one.output_tokens for one in kept.outputs(3)] == [None] * 3
