"""Spans of a session: between two instants, without their gaps, and scrape by scrape."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.session.made import Log, Server
from vtop.metrics.quantity import Quantity
from vtop.session.history.tracks import Track
from vtop.session.history.window import Window, between, window
from vtop.session.session import Session


def ran(scrapes: int = 21, *, without: range = range(0), restart: int | None = None, servers: int = 1) -> Session:
    """A scrape a second; 10 tokens come in each, and as many requests run as it is late."""
    log = Log(servers)
    made = [Server() for _ in range(servers)]
    for second in range(scrapes):
        for number, server in enumerate(made):
            if second == restart:
                server.restart()
            server.engine.running = float(second)
            server.engine.count(generation_tokens=10.0 if second else 0.0)
            if second not in without:
                log.scrape(float(second), server, server=number)
    return log.session()


def tokens(found: Window) -> float | None:
    return found.delta(Quantity.GENERATION_TOKENS)


def test_between_two_instants_are_the_scrapes_from_the_first_after_each() -> None:
    session = ran()
    found = between(session.servers, 4.5, 9.5, 100.0)
    assert [(one.first, one.last, one.silent) for one in found.ranges] == [(5, 10, False)]
    assert tokens(found) == 50
    assert tokens(between(session.servers, 5.0, 9.0, 100.0)) == 40  # scrapes at the very instants


def test_between_knows_nothing_later_than_now() -> None:
    session = ran()
    assert tokens(between(session.servers, 4.5, 18.0, 10.5)) == 50
    assert between(session.servers, 4.5, 18.0, 4.9).ranges == ()
    assert between(session.servers, 30.0, 40.0, 100.0).ranges == ()


def test_between_does_not_reach_over_a_gap() -> None:
    session = ran(without=range(8, 16))
    (one,) = between(session.servers, 4.5, 9.5, 100.0).ranges
    assert (one.first, one.last) == (5, 7)
    assert between(session.servers, 9.0, 12.0, 100.0).ranges == ()


def test_between_says_who_fell_silent() -> None:
    session = ran(without=range(8, 21))
    (one,) = between(session.servers, 4.5, 15.0, 20.0).ranges
    assert one.silent


def test_pieces_are_what_lies_between_outages_and_restarts() -> None:
    session = ran(without=range(8, 13), restart=17)
    (one,) = window(session.servers, 100.0, 100.0).ranges
    assert [(session.servers[0].at_s[piece.first], session.servers[0].at_s[piece.last]) for piece in one.pieces] == [
        (0.0, 7.0),
        (13.0, 16.0),
        (17.0, 20.0),
    ]
    (whole,) = window(ran().servers, 100.0, 100.0).ranges
    assert whole.pieces == (whole,)
    assert whole.latest(0.0).pieces == (whole.latest(0.0),)


def test_a_gauge_is_added_up_instant_by_instant() -> None:
    one = window(ran(4).servers, 100.0, 100.0)
    two = window(ran(4, servers=2).servers, 100.0, 100.0)
    assert one.each_together(Quantity.RUNNING) == [0, 1, 2, 3]
    assert two.each_together(Quantity.RUNNING) == [0, 2, 4, 6]
    assert list(two.instants) == [0, 1, 2, 3]
    assert all(math.isnan(value) for value in two.each_together(Quantity.LORA))
    assert Window(()).each_together(Quantity.RUNNING) == []


@given(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=12), st.data())
def test_every_scrape_has_its_value(values: list[int | None], data: st.DataObject) -> None:
    track = Track()
    start = data.draw(st.integers(0, 3))
    for scrape, value in enumerate(values):
        track.put(start + scrape, math.nan if value is None else float(value))
    last = data.draw(st.integers(0, start + len(values) + 2))
    first = data.draw(st.integers(0, last))
    held = [track.at(scrape) for scrape in range(first, last + 1)]
    assert [None if value != value else value for value in track.every(first, last)] == held
    assert track.each(first, last) == pytest.approx([value for value in held if value is not None])
