"""A chart's scale has room for the number beside it, which is newer than its latest column: that one is complete."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.draw import frames
from tests.draw.test_panels import draw
from tests.session.made import recorded
from vtop.draw import chart
from vtop.draw.grid import Spread, scale
from vtop.draw.layout import columns_for, step_for
from vtop.session.frame.frame import View


def test_stairs_have_room_for_what_came_since_their_last_column() -> None:
    steps = chart.stairs((0.0, 20.0, 20.0, 55.0), (0.0, 20.0, 0.0, 35.0), 1, now=57.0)
    assert steps.risen == "+57"
    assert chart.stairs((0.0, 20.0, 20.0, 55.0), (0.0, 20.0, 0.0, 35.0), 1).risen == "+55"
    assert chart.stairs((None, None), (None, None), 1, now=3.0).risen == ""


@pytest.mark.parametrize("columns", [28, 60])
@pytest.mark.parametrize("at_s", [12.0, 26.0, 63.0])
def test_no_scale_ends_below_the_number_beside_it(at_s: float, columns: int) -> None:
    frame = recorded("killed").frame(at_s, View(columns=columns))
    lines = (draw("requests", frame, 78, 20) + "\n" + draw("tokens", frame, 78, 20)).splitlines()
    seen = 0
    for row in lines:
        found = re.match(r" ?(running|waiting|preempt|out|in) +([\d,.]+)( /s)? .*?[↑+] ?([\d,.]+)$", row.rstrip())
        if found is not None:
            seen += 1
            number, top = (float(found[k].replace(",", "")) for k in (2, 4))
            assert top >= number, row
    assert seen == 5


def test_a_load_that_began_in_the_unfinished_column_scales_its_chart() -> None:
    frame = frames.overload(44)
    running = replace(frame.requests.running, now=640.0)
    drawn = draw("requests", replace(frame, requests=replace(frame.requests, running=running)), 76, 20)
    assert re.search(r"running +640 .*↑ 800", drawn)


def test_a_rate_that_no_complete_column_has_reached_scales_its_chart() -> None:
    frame = frames.overload(44)
    asked = replace(frame.prompt_tokens, per_s=210_000.0)
    assert re.search(r"\bin +210k /s .*↑ 300k", draw("tokens", replace(frame, prompt_tokens=asked), 76, 20))


def test_charts_move_on_by_whole_cells_about_every_two_seconds() -> None:
    columns = columns_for(120)  # 62: a cell is 2
    assert [step_for(window_s, columns, 2.0) for window_s in (30, 60, 300, 86400)] == [4, 2, 2, 2]


@pytest.mark.parametrize("rows", [2, 3, 4, 9])
def test_what_was_within_a_scale_is_written_one_way(rows: int) -> None:
    watts = scale(60, rows, "of 700 W", Spread("78 W", "120 W", "693 W"))
    assert [text.rstrip() for text in watts[1:4] if text] == {
        2: ["78–693 W"], 3: ["med 120", "78–693"], 4: (three := ["max 693", "med 120", "min 78"]), 9: three,
    }[rows]  # fmt: skip
    assert scale(60, 5, "↑ 15", Spread("0", "11", "13"))[1:4] == ["max 13", "med 11", "min 0"]
    assert scale(60, 4, "↑ 100 %", Spread("0 %", "96 %", "98 %"), "↓ 80 %")[1:] == ["med 96 %", "0–98 %", "↓ 80 %"]


@pytest.mark.parametrize("height", [1, 2, 5, 6, 9])
def test_a_kv_chart_that_does_not_begin_at_zero_says_so(height: int) -> None:
    frame = frames.overload(44)
    used = replace(frame.kv.used, low=0.66, median=0.95, high=0.99)
    drawn = draw("kv", replace(frame, kv=replace(frame.kv, used=used)), 78, height)
    assert "80–100 %" in drawn or "↓ 80 %" in drawn
