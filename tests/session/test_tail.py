"""Which percentile of the inter-token latency could show the preemptions."""

from __future__ import annotations

import pytest

from tests.session.made import Log, Server, recorded
from vtop.session.latency.itl_tail import first_above


@pytest.mark.parametrize(
    ("touched", "samples", "percentile"),
    [
        (37, 262_016, 99.99),
        (1, 2, 50.0),
        (1, 10, 90.0),
        (1, 11, 99.0),
        (1, 100, 99.0),
        (1, 101, 99.9),
        (1, 100_000, 99.999),
        (1, 200_000, None),
        (0, 100, None),
        (3, 0, None),
    ],
)
def test_a_percentile_shows_them_where_no_more_lies_above_it_than_they_are(
    touched: float, samples: float, percentile: float | None
) -> None:
    assert first_above(touched, samples) == percentile


def test_overload_s_p99_is_no_alarm() -> None:
    session = recorded("overload_loaded")
    tail = session.frame(session.end_s).tail
    assert (tail.samples, tail.touched, tail.percentile) == (262_016, 37, 99.99)
    assert tail.sentence == ("p99 ITL cannot show the 37 preemptions: they touch 37 of 262,016 gaps (p99.99 could)")


def of(gaps: int, preemptions: int) -> str | None:
    log, server = Log(), Server()
    log.scrape(0, server)
    server.engine.count(num_preemptions=preemptions)
    for _ in range(gaps):
        server.engine.observe(inter_token=0.02)
    log.scrape(1, server)
    return log.frame().tail.sentence


def test_the_sentence_says_what_can_be_seen() -> None:
    assert of(100, 0) is None
    assert of(0, 2) is None
    assert of(100, 1) == "p99 ITL can show the preemption: it touches 1 of 100 gaps"
    assert of(100, 50) == "p50 ITL can show the 50 preemptions: they touch 50 of 100 gaps"
    assert of(500, 1) == "p99 ITL cannot show the preemption: it touches 1 of 500 gaps (p99.9 could)"
