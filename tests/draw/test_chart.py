"""Charts are honest: zero-based, gaps blank, sums exact, nothing above zero unseen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draw.frames import overload_charts
from vtop.draw import chart
from vtop.draw.theme import ASCII, UNICODE, Glyphs
from vtop.session.frame.charts import Points

POINT = st.none() | st.floats(min_value=0, max_value=1e12)
POINTS = st.lists(POINT, min_size=2, max_size=80).map(lambda points: tuple(points[: len(points) // 2 * 2]))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("height", [1, 3])
def test_a_gap_is_blank_and_a_zero_is_not(glyphs: Glyphs, height: int) -> None:
    pairs = (None, None, 0.0, 0.0, 1e-9, 1e-9, 10.0, 10.0)
    rows = chart.spark(pairs, 10.0, height, glyphs)
    gap, zero, little, full = ("".join(row[at] for row in rows) for at in range(4))
    assert gap == " " * height
    assert zero.strip() == glyphs.zero
    assert little.strip() == glyphs.blocks[1]
    assert full == glyphs.blocks[8] * height


@given(POINTS, st.integers(1, 6), st.sampled_from((UNICODE, ASCII)))
def test_a_chart_has_a_cell_for_two_points_and_shows_all_above_zero(
    points: Points, height: int, glyphs: Glyphs
) -> None:
    rows = chart.spark(points, chart.nice_maximum(points, 1.0), height, glyphs)
    assert [len(row) for row in rows] == [len(points) // 2] * height
    for at in range(len(points) // 2):
        seen, pair = "".join(row[at] for row in rows).strip(), points[2 * at : 2 * at + 2]
        assert bool(seen) == any(point is not None for point in pair)
        assert (seen == glyphs.zero) == (any(point == 0 for point in pair) and not any(pair))


@pytest.mark.parametrize("left", range(9))
@pytest.mark.parametrize("right", range(9))
def test_each_half_of_a_cell_is_filled_as_its_point_is(left: int, right: int) -> None:
    sign = UNICODE.halves[left * 9 + right]
    filled = {" ": (0, 0), "▗": (0, 4), "▐": (0, 8), "▖": (4, 0), "▟": (4, 8), "▌": (8, 0), "▙": (8, 4)}
    shown = filled.get(sign, (UNICODE.blocks.find(sign),) * 2)
    assert all(abs(of - drawn) <= 3 for of, drawn in zip((left, right), shown, strict=True)), "at most 3 eighths off"
    assert (sign == " ") == (left == right == 0)


def test_a_chart_may_begin_above_zero_and_shows_what_lies_below_as_its_floor() -> None:
    (row,) = chart.spark((0.5, 0.5, 0.9, 0.9, 1.0, 1.0, None, None), 1.0, 1, floor=0.8)
    assert row == "_▄█ "


def test_the_rows_of_a_chart_have_the_same_shades_in_every_column() -> None:
    runs = chart.shaded(chart.spark((1.0, 1.0, 8.0, 8.0), 8.0, 4), "running")
    assert [row[0][1] for row in runs] == ["running", "running 1", "running 2", "running 3"]
    assert all(len(row) == 1 for row in runs)
    assert chart.shaded(["█"], "running") == [[("█", "running")]]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@given(ratio=st.none() | st.floats(-1, 2), cells=st.integers(0, 90))
def test_a_meter_has_its_width(glyphs: Glyphs, ratio: float | None, cells: int) -> None:
    filled, rest = chart.meter(ratio, cells, glyphs)
    assert len(filled) + len(rest) == cells


def test_a_meter_tells_an_eighth_of_a_cell() -> None:
    assert chart.meter(0.95, 20) == ("█" * 19, "─")
    assert chart.meter(0.97, 20) == ("█" * 19 + "▍", "")


def test_the_smallest_number_there_is_has_a_scale() -> None:
    assert chart.nice_maximum((5e-324,), 0.0) == 5e-324


@given(POINTS, st.floats(0, 1e6))
def test_a_scale_holds_every_point_and_has_round_steps(points: Points, floor: float) -> None:
    maximum = chart.nice_maximum(points, floor)
    assert maximum >= floor
    highest = max((point for point in points if point), default=0.0)
    assert maximum >= highest * 0.999
    assert maximum == floor or float(f"{maximum:.1e}".split("e")[0]) in {1, 1.5, 2, 3, 4, 5, 6, 8}


def test_a_scale_rarely_changes() -> None:
    assert {chart.nice_maximum((float(n),), 10) for n in range(11, 21)} == {15.0, 20.0}
    assert chart.nice_maximum((0.95, None), 1.0) == 1.0


@given(st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=4), st.integers(1, 200))
def test_a_bar_adds_up_to_its_width(values: list[float | None], width: int) -> None:
    parts = list(zip(values, ("queue", "prefill", "decode", "frontend"), strict=False))
    assert sum(len(text) for text, _ in chart.bar(parts, width)) == width


def test_a_bar_shows_a_small_part_and_each_with_its_own_glyph() -> None:
    assert chart.bar(((48.1, "queue"), (0.473, "prefill"), (0.122, "frontend")), 10) == [
        ("█" * 8, "queue"),
        ("▓", "prefill"),
        ("░", "frontend"),
    ]
    assert len(set(UNICODE.parts.values())) == len(set(ASCII.parts.values())) == 5


def test_stairs_begin_at_the_left_edge_and_tick_where_they_rise() -> None:
    counted = (None, None, 33.0, 33.0, 33.0, 33.0, 35.0, 35.0, 35.0, 37.0)
    risen = (None, None, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 2.0)
    steps = chart.stairs(counted, risen, 1)
    assert steps.rows == [" __▄█"]
    assert steps.ticks == "   ╵╵"
    assert (steps.total, steps.risen) == ("37", "+4")


def test_stairs_never_seem_to_fall() -> None:
    counted = tuple(float(n) for n in range(40))
    rows = chart.stairs(counted, (1.0,) * 40, 2).rows
    heights = [sum(" ▁▂▃▄▅▆▇█".index(sign) for sign in cell if sign != "_") for cell in zip(*rows, strict=True)]
    assert heights == sorted(heights)


def test_stairs_count_a_rise_in_their_first_column() -> None:
    assert chart.stairs((34.0, 37.0), (1.0, 3.0), 1).risen == "+4"


@given(st.lists(st.tuples(POINT, POINT), min_size=1, max_size=40), st.integers(1, 6))
def test_a_stack_has_its_size_and_blank_gaps(columns: list[tuple[float | None, float | None]], height: int) -> None:
    first, second = (tuple(column[at] for column in columns for _ in range(2)) for at in (0, 1))
    rows = chart.stack(((first, "queue"), (second, "prefill")), 1e6, height)
    texts = ["".join(text for text, _ in row) for row in rows]
    assert [len(text) for text in texts] == [len(columns)] * height
    for at, column in enumerate(columns):
        assert any(text[at] != " " for text in texts) == (column != (None, None))


def test_a_stack_divides_a_column_as_its_parts_do() -> None:
    rows = chart.stack((((3.0, 3.0), "queue"), ((1.0, 1.0), "prefill")), 4.0, 4)
    assert [row[0][1] for row in rows] == ["prefill", "queue", "queue", "queue"]


def test_half_a_cell_of_a_stack_is_blank_where_its_column_is_a_gap() -> None:
    assert chart.stack((((None, 4.0), "queue"),), 4.0, 2, solid=True) == [[("▐", "queue")], [("▐", "queue")]]


def test_axis_labels_stand_in_their_columns() -> None:
    charts = replace(overload_charts(120), column_s=2.5, marks=())
    text = "".join(piece for piece, _ in chart.axis(charts, 60))
    assert len(text) == 60
    assert text.endswith("now")
    assert text[59 - 12] == text[59 - 24] == "−"  # 60 and 120 s ago
    assert text[59 - 12 : 59 - 7] == "−1:00"


@given(st.integers(1, 120), st.floats(0.1, 1e5), st.lists(st.integers(-5, 130), max_size=6))
def test_axis_labels_never_meet_and_marks_are_seen(width: int, column_s: float, at: list[int]) -> None:
    charts = replace(overload_charts(120), column_s=column_s, marks=tuple((column, "mark") for column in at))
    text = "".join(piece for piece, _ in chart.axis(charts, width))
    assert len(text) == width
    seen = {(column + 2 * width - 120) // 2 for column in at} & set(range(width))
    assert {index for index, sign in enumerate(text) if sign == UNICODE.signs["mark"]} == seen
    for label in text.replace("─", " ").replace("◆", " ").split():
        assert label == "now" or (label[0] == "−" and label[1:].replace(":", "").isdigit() and label[-3] == ":")


def test_other_numbers_of_columns_end_at_now() -> None:
    assert chart.in_cells((1.0, 2.0), 2) == (None, None, 1.0, 2.0)
    assert chart.in_cells((1.0, 2.0, 3.0), 1) == (2.0, 3.0)
    assert chart.in_cells((1.0,), 0) == ()
