"""FLOP a token stands on the line of the model's shape where nothing ran twice; how often the pool was nearly full."""

from __future__ import annotations

import pytest

from tests.session.made import recorded
from vtop.session.frame.frame import View


def test_without_preemptions_a_token_costs_what_the_shape_says() -> None:
    session = recorded("sweep")
    found = session.frame(session.end_s, View(window_s=session.end_s)).token_flops
    assert found.flops == pytest.approx(13.69e9, rel=0.002)
    assert found.apart_ratio == pytest.approx(0.0, abs=0.002)
    assert found.context_tokens == pytest.approx((1024**2 + 256 * 1152) / 1280, rel=0.005)


def test_recomputed_work_stands_above_the_line() -> None:
    session = recorded("overload_loaded")
    found = session.frame(session.end_s, View(window_s=session.end_s)).token_flops
    again = session.frame(session.end_s, View(window_s=session.end_s)).recompute
    assert found.apart_ratio == pytest.approx(again.ratio, abs=0.015)
    assert found.line_flops is not None
    assert found.context_flops is not None
    assert found.context_tokens is not None
    assert found.expected_flops == pytest.approx(found.line_flops + found.context_flops * found.context_tokens)


def test_a_server_that_counts_no_flops_has_none() -> None:
    session = recorded("killed")
    assert session.frame(session.end_s, View(window_s=3.0)).token_flops.flops is None


def test_how_often_the_pool_was_nearly_full_is_of_the_scrapes() -> None:
    session = recorded("overload_loaded")
    frame = session.frame(session.end_s, View(window_s=session.end_s))
    server = session.servers[0]
    charts = session.frame(session.end_s, View(window_s=session.end_s, columns=181)).charts
    used = [value for value in charts.kv_used if value is not None]
    assert len(server.t) == frame.crowding.scrapes
    assert frame.crowding.kv_90_share is not None
    assert frame.crowding.kv_95_share is not None
    assert frame.crowding.kv_95_share < frame.crowding.kv_90_share < 1
    assert frame.crowding.kv_90_share == pytest.approx(sum(one >= 0.9 for one in used) / len(used), abs=0.02)


def test_all_that_are_in_flight_would_need_so_many_bytes() -> None:
    session = recorded("overload_loaded")
    account = session.frame(160.0, View(window_s=150.0)).account
    assert account.asked_bytes == 64 * 8192 * 56 * 1024
    assert account.request_bytes == 8192 * 56 * 1024
