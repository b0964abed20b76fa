"""Every panel fills exactly its cells from any frame, cuts no number, and needs no colour and no Unicode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.draw import frames, loads
from tests.draw.panels import DRAW
from vtop.draw import layout
from vtop.draw import theme as looks
from vtop.draw.grid import LEFT, chart_cells, chart_columns, left
from vtop.draw.layout import arrange, assembled, columns_for, drawn, screen
from vtop.draw.text import Line
from vtop.session.frame.charts import LoggedEvent, Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.servers import StartedWith
from vtop.session.frame.values import Count
from vtop.session.glossary.numbers import NUMBERS
from vtop.ui.keys import FOOTERS

LOOKS = (looks.load("dark"), looks.load("light", ascii=True, colour=False), looks.load("ansi16"))
SIZES = ((80, 24), (120, 36), (200, 60), (46, 19), (60, 15), (110, 30), (30, 5))
POINT = st.none() | st.floats(0, 1e9) | st.just(0.0)


def text(lines: Iterable[Line]) -> str:
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def draw(name: str, frame: Frame, width: int, height: int, look: looks.Look = LOOKS[0]) -> str:
    return text(DRAW[name](frame, width, height, look))


@pytest.mark.parametrize("frame", frames.ALL)
@pytest.mark.parametrize("panel", DRAW)
@settings(max_examples=40, deadline=None)
@given(
    size=st.tuples(st.integers(30, 210), st.integers(1, 24)), columns=st.integers(1, 150), look=st.sampled_from(LOOKS)
)
def test_every_line_has_exactly_the_width(
    panel: str, frame: str, size: tuple[int, int], columns: int, look: looks.Look
) -> None:
    width, height = size
    lines = DRAW[panel](frames.ALL[frame](columns), width, height, look)
    assert [sum(cell_len(segment.text) for segment in line) for line in lines] == [width] * height


@settings(max_examples=60, deadline=None)
@given(data=st.data(), width=st.integers(30, 120), height=st.integers(1, 14))
def test_any_points_can_be_drawn(data: st.DataObject, width: int, height: int) -> None:
    def points() -> Points:
        return tuple(data.draw(st.lists(POINT, min_size=20, max_size=20)))

    charts = replace(
        frames.overload_charts(20), running=points(), waiting=points(), kv_used=points(), preemptions=points(),
        preempted=points(), queue_s=points(), prefill_s=points(), decode_per_step=points(), power_w=points(),
    )  # fmt: skip
    frame = replace(frames.overload(20), charts=charts)
    for panel in ("requests", "kv", "gpus", "ttft", "tokens"):
        lines = DRAW[panel](frame, width, height, LOOKS[0])
        assert [sum(cell_len(segment.text) for segment in line) for line in lines] == [width] * height


@pytest.mark.parametrize("frame", frames.ALL)
@pytest.mark.parametrize("size", SIZES)
def test_ascii_mode_emits_ascii_only(frame: str, size: tuple[int, int]) -> None:
    keys = (("␣", "pause"), ("← →", "scrub"))
    shown = text(screen(frames.ALL[frame](columns_for(size[0])), *size, LOOKS[1], state="● rec 2:31", keys=keys))
    assert all(" " <= character <= "~" for line in shown.splitlines() for character in line)


@pytest.mark.parametrize("frame", frames.ALL)
@pytest.mark.parametrize("size", SIZES)
def test_a_screen_is_filled_and_no_panel_meets_another(frame: str, size: tuple[int, int]) -> None:
    width, height = size
    shown = frames.ALL[frame](columns_for(width))
    cells = set()
    for place in arrange(width, height, shown):
        for y in range(place.y, place.y + place.height):
            for x in range(place.x, place.x + place.width):
                assert (x, y) not in cells
                assert x < width
                assert y < height
                cells.add((x, y))
    assert [cell_len(line) for line in text(screen(shown, width, height, LOOKS[0])).splitlines()] == [width] * height


def test_below_the_charts_a_very_wide_screen_has_four_columns_and_no_more_rows_than_they_use() -> None:
    frame = frames.overload(columns_for(400))
    places = arrange(400, 120, frame)
    axis = next(place for place in places if place.panel == "axis")
    assert len({place.x for place in places if place.y > axis.y}) == 4
    assert axis.y > 80


def test_a_chart_of_nothing_but_zeros_has_one_row() -> None:
    frame = frames.overload(40)
    calm = replace(frame, charts=replace(frame.charts, waiting=(0.0,) * 40, preempted=(0.0,) * 40))
    lines = draw("requests", calm, 78, 10).splitlines()
    at = {name: row for row, line in enumerate(lines) for name in ("running", "waiting", "preempt") if name in line[:8]}
    assert at == {"running": 0, "waiting": 7, "preempt": 8}


def test_of_an_event_that_is_too_long_whole_clauses_go() -> None:
    frame = replace(frames.overload(), event_log=(LoggedEvent(1.0, "note", "one of two, three of four, five"),))
    assert draw("events", frame, 40, 1).rstrip().endswith("one of two, three of four")


@pytest.mark.parametrize("size", SIZES)
def test_drawing_twice_gives_the_same(size: tuple[int, int]) -> None:
    frame = frames.fleet(40)
    assert screen(frame, *size, LOOKS[0]) == screen(frame, *size, LOOKS[0])


@pytest.mark.parametrize("width", range(30, 130, 3))
def test_no_number_is_cut(width: int) -> None:
    frame = frames.overload(chart_columns(width))
    wide = "\n".join(draw(panel, frame, 400, 30) for panel in DRAW if panel != "axis")
    known = set(re.findall(r"[\d.,]*\d", wide + frames.overload().status.sentence)) | {"20k", "100", "200", "10", "0"}
    for panel in DRAW:
        if panel in ("axis",):
            continue
        for height in (1, 2, 3, 4, 8):
            found = re.findall(r"[\d.,]*\d", draw(panel, frame, width, height))
            assert {number for number in found if "," in number or "." in number} <= known, (panel, height)


def test_brackets_are_shown_literally() -> None:
    frame = frames.fleet()
    assert "org/model[awq], [/] and 2 more" in draw("header", frame, 120, 1)
    assert "[Errno 111] connection [/refused] �[2J�" in draw("events", frame, 80, 3)


def test_the_overload_reads_as_it_was() -> None:
    frame = frames.overload(chart_columns(78))
    requests = draw("requests", frame, 78, 4)
    assert re.search(r"running +11 .*↑ 15", requests)
    assert re.search(r"preempt +37 ", requests)
    assert "≤ 82,470 of 86,896 tok · free ≥ 4,426" in draw("kv", frame, 78, 2)
    ttft = draw("ttft", frame, 78, 6)
    assert re.search(r"queue +48\.1 s .*98\.7 %", ttft)
    assert "≈ 52.3 s (estimate)" in ttft
    assert re.search(r"power +527 W .*of 700 W", draw("gpus", frame, 78, 2))
    assert re.search(r"queue +48\.1 s +40–50 s +> 60 s +> 60 s +23", draw("latencies", frame, 78, 8))


def test_max_num_seqs_and_token_budget_stand_in_the_header_where_all_servers_have_the_same() -> None:
    def header(*limits: tuple[int | None, int | None] | None) -> str:
        known = [StartedWith("vllm serve", {}, *of, ()) if of is not None else None for of in limits]
        servers = tuple(frames.server(at, started=of) for at, of in enumerate(known))
        return draw("header", replace(frames.overload(), servers=servers), 200, 1)

    assert "· max-num-seqs 128 · 8,192 tok per step ·" in header((128, 8192))
    assert "· max-num-seqs 128 · 8,192 tok per step ·" in header((128, 8192), (128, 8192))
    assert "· 8,192 tok per step ·" in header((None, 8192))
    for unknown in (header(None), header((None, None)), header((128, 8192), None), header((128, 8192), (10, 8192))):
        assert not re.search("max-num-seqs|tok per step", unknown)


def test_the_parts_of_ttft_follow_each_other() -> None:
    lines = draw("ttft", frames.overload(), 78, 5).splitlines()
    ends = 0
    for line, glyph in zip(lines, "█▓░·", strict=False):
        begin = line.index(glyph)
        assert begin == (ends or 18)
        ends = line.rindex(glyph) + 1
    assert ends == 18 + chart_cells(78)


def test_unknown_is_a_dash_and_never_zero() -> None:
    frame = frames.nothing_known()
    for panel in ("requests", "kv", "tokens"):
        assert not re.search(r"(running|waiting|used|out|in) +0", draw(panel, frame, 78, 5))
    assert "no request finished yet" in draw("ttft", frame, 78, 4)
    assert "no GPU: libnvidia-ml.so.1 is not there" in draw("gpus", frame, 78, 3)


def test_every_panel_of_one_width_has_the_same_chart_columns() -> None:
    frame = frames.overload(chart_columns(78))
    columns = chart_columns(78)
    full = replace(frame, charts=replace(frame.charts, running=(20.0,) * columns, power_w=(700.0,) * columns))
    for panel, height in (("requests", 2), ("gpus", 2)):
        first = draw(panel, full, 78, height).splitlines()[0]
        assert (first.index("█"), first.count("█")) == (18, 51)


@pytest.mark.parametrize("label", ["preempt", "frontend", "  median"])
@pytest.mark.parametrize("number", ["–", "0", "81,936 W", "1.23M", "12:31:02", "−0.042 s"])
def test_numbers_end_in_one_column(label: str, number: str) -> None:
    pieces = left(label, number)
    assert sum(cell_len(piece) for piece, _ in pieces[:2]) == 14
    assert sum(cell_len(piece) for piece, _ in pieces) == LEFT


def test_a_reading_a_little_over_its_limit_does_not_rescale_the_chart() -> None:
    frame = frames.overload(51)
    over = replace(frame, charts=replace(frame.charts, power_w=(701.3,) * 51))
    assert "of 700 W" in draw("gpus", over, 78, 1)
    assert "of 700 W" not in draw("gpus", replace(over, charts=replace(over.charts, power_w=(780.0,) * 51)), 78, 1)


def test_what_is_old_is_faded_and_says_its_age() -> None:
    look, frame = LOOKS[0], frames.down()
    used = {segment.style for line in DRAW["requests"](frame, 78, 4, look) for segment in line}
    assert look.faded is not None
    assert used <= set(look.faded.styles.values())
    assert "stale 41 s ago" in draw("header", frame, 120, 1)
    assert draw("status", frame, 120, 1).startswith("× STALE  no answer for 41.0 s")


def test_devices_of_another_host_are_not_taken_for_the_servers() -> None:
    for height in (1, 2, 5, 12):
        assert "GPUs of this host, not the server's" in draw("gpus", frames.fleet(), 58, height)


def test_devices_in_trouble_are_never_the_ones_left_out() -> None:
    shown = draw("gpus", frames.fleet(), 78, 6)
    assert "GPU 3" in shown
    assert "lost: fell off the bus" in shown
    assert "more GPUs" in shown


def test_an_uneven_engine_has_a_sign() -> None:
    assert re.search(r"0·0 +11 +51 +94\.9 % +1,592 +▲ 2\.79 × mean", draw("engines", frames.fleet(), 78, 6))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("panel", layout.body())
def test_a_panel_can_be_hidden_chosen_or_have_the_body(size: tuple[int, int], panel: str) -> None:
    frame = frames.fleet(columns_for(size[0]))
    for hidden, only in ((frozenset({panel}), None), (frozenset[str](), panel), (frozenset(layout.body()), None)):
        parts = drawn(frame, *size, LOOKS[0], hidden=hidden, only=only, chosen=panel)
        shown = {place.panel for place, _ in parts} & set(layout.body())
        assert not (shown & hidden)
        assert only is None or shown == {only}
        lines = text(assembled(parts, *size, LOOKS[0])).splitlines()
        assert [cell_len(line) for line in lines] == [size[0]] * size[1]
        assert lines[-1].strip().startswith("q quit")


def test_a_chosen_panel_differs_without_colour() -> None:
    for size in ((80, 24), (120, 36)):
        parts = dict(drawn(frames.overload(), *size, LOOKS[1], chosen="kv"))
        marked = {place.panel for place, lines in parts.items() if any(s.style and s.style.reverse for s in lines[0])}
        assert marked == {"kv"}


@pytest.mark.parametrize("mode", FOOTERS)
@pytest.mark.parametrize("look", LOOKS)
def test_keys_drop_out_whole_and_the_way_out_stays(mode: str, look: looks.Look) -> None:
    keys = FOOTERS[mode]
    whole = [look.say(f"{face} {does}") for face, does in keys]
    for width in range(20, 130, 2):
        last = text(screen(frames.overload(), width, 24, look, keys=keys)).splitlines()[-1].strip()
        shown = last.split("  ")
        assert shown == whole[: len(shown)], "from the first on"
        assert {"q", "?"} <= {key.split()[0] for key in shown}
        if width >= 80:
            assert len(shown) >= 6


def test_the_two_means_of_ttft_say_whose_they_are() -> None:
    shown = text(screen(frames.overload(columns_for(80)), 80, 24, LOOKS[0]))
    assert re.search(r"TTFT +48\.8 s .* n 23 finished", shown)
    assert re.search(r"TTFT +44\.9 s .* 31  first token", shown)


def test_times_of_the_breakdown_end_in_one_column() -> None:
    for panel in (draw("ttft", frames.overload(), 78, 8), draw("ttft", frames.overload(), 58, 8)):
        found = [re.match(r"\D+[\d.]+ (s|ms) ", line) for line in panel.splitlines()[:5]]
        assert [one.end() for one in found if one is not None] == [LEFT] * 5


def test_the_mark_of_a_device_that_serves_is_explained_where_there_is_room() -> None:
    assert "NVIDIA H200  ● serving" in draw("gpus", frames.overload(), 78, 6)
    other = replace(frames.overload(), gpus=replace(frames.overload().gpus, devices=(frames.device(serving=False),)))
    assert "○ not serving" in draw("gpus", other, 110, 6)
    unknown = replace(other, gpus=replace(other.gpus, devices=(frames.device(serving=None),)))
    assert "serving" not in draw("gpus", unknown, 110, 6)
    assert any(number.name == "● ○" for number in NUMBERS if number.panel == "gpus")


def test_recomputed_tokens_name_their_unit_where_there_is_room() -> None:
    for width in (78, 58):
        said = draw("tokens", frames.overload(), width, 12)
        assert "recomputed 258,309 tok (+24.5 %) · 6,981 per preemption" in said


def test_a_first_scrape_is_an_attachment() -> None:
    assert re.search(r"0:00 ▶ attached · first scrape: 43\.9 KiB", draw("events", frames.overload(), 78, 6))


def test_the_trial_request_alone_is_no_time_to_first_token_and_is_named() -> None:
    frame = frames.overload()
    one = replace(frame.requests, finished=Count(1.0, 0.2, 1.0))
    assert "none finished yet but vtop's trial request" in draw(
        "ttft", replace(frame, load=loads.load(), ttft=replace(frame.ttft, finished=0), requests=one), 78, 4
    )
