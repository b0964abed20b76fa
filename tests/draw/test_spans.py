"""A measured span is rounded, never cut off, so that it goes with the rates beside it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draw import frames
from tests.draw.panels import DRAW
from vtop import units
from vtop.draw import theme as looks
from vtop.draw.layout import columns_for, screen
from vtop.draw.panels.registry import PANELS, heading_notes


@pytest.mark.parametrize(
    ("value_s", "said"),
    [
        (None, "–"),
        (4.24, "4.2 s"),
        (9.96, "10 s"),
        (55.03, "55 s"),
        (59.6, "1:00"),
        (97.1, "1:37"),
        (194.7, "3:15"),
        (3751, "1:02:31"),
    ],
)
def test_spans_are_said_to_the_second(value_s: float | None, said: str) -> None:
    assert units.span(value_s) == said


def test_ages_and_long_times_are_spans_too() -> None:
    assert units.ago(97.1) == "1:37 ago"
    assert units.ago(0.44) == "0.4 s ago"
    assert units.seconds(194.7) == "3:15"


@given(st.floats(60, 86_000))
def test_what_is_said_of_a_span_is_half_a_second_off_at_most(value_s: float) -> None:
    assert abs(units.duration(units.span(value_s)) - value_s) <= 0.5001


@pytest.mark.parametrize(("value", "said"), [(64, "64"), (64.0, "64"), (2.5, "2.50"), (0.0, "0"), (None, "–")])
def test_what_was_asked_for_has_no_digits_that_say_nothing(value: float | None, said: str) -> None:
    assert units.plain(value) == said


def test_finished_and_their_rate_add_up_in_the_time_that_is_said() -> None:
    frame = frames.overload()
    (said,) = heading_notes(PANELS["ttft"], frame)
    assert said == "23 finished in 2:31"
    assert frame.requests.finished.per_s == pytest.approx(23 / units.duration("2:31"), rel=0.005)


@pytest.mark.parametrize("size", [(120, 36), (160, 48)])
def test_every_panel_about_a_window_says_which(size: tuple[int, int]) -> None:
    lines = screen(frames.overload(columns_for(size[0])), *size, looks.load())
    shown = "\n".join("".join(segment.text for segment in line) for line in lines)
    assert "─ 23 finished in 2:31 ─" in shown
    windows = len(re.findall(" last 2:31 [─━]", shown))
    assert windows == (5 if size[1] < 46 else 6)  # requests, KV, GPU, tokens, latencies; why
    young = replace(frames.overload(), window_s=4.2, now_s=128.0)
    assert heading_notes(PANELS["gpus"], young) == ["last 2:08"], "GPUs are read from the session's beginning on"


def test_a_rate_over_less_than_the_window_says_over_how_much() -> None:
    def requests(per_s: float) -> str:
        frame = frames.overload()
        finished = replace(frame.requests.finished, in_window=499.0, per_s=per_s)
        frame = replace(frame, window_s=191.0, requests=replace(frame.requests, finished=finished))
        return "".join(segment.text for line in DRAW["requests"](frame, 78, 12, looks.load()) for segment in line)

    assert "finished 499 · 5.04 /s over 1:39 ·" in requests(5.04)  # a server was down for 91 s of it
    assert "finished 499 · 2.61 /s · " in requests(2.61)
    assert "finished 499 · 0 /s · " in requests(0.0)
