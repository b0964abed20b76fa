"""The reasons lose nothing that there is room for, and say when there are more."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.draw import frames
from tests.draw.panels import DRAW
from vtop.draw import theme as looks
from vtop.draw.layout import columns_for, drawn, screen
from vtop.draw.panels.why import left_out
from vtop.draw.text import width_of
from vtop.session.frame.frame import Frame
from vtop.session.frame.prices import Price, Prices, Worth
from vtop.session.frame.verdict import Verdict

LOOK = looks.load("dark")
FLAG = "a larger pool: --gpu-memory-utilization, --kv-cache-dtype fp8"
WHY = "more requests would reside"


def why(frame: Frame, width: int, height: int) -> list[str]:
    return ["".join(segment.text for segment in line).rstrip() for line in DRAW["why"](frame, width, height, LOOK)]


def advised() -> Frame:
    frame = frames.overload()
    return replace(frame, verdict=Verdict(frame.verdict.limit, "kv", frame.verdict.evidence, FLAG, WHY, None))


def test_a_flag_to_try_is_whole_in_a_narrow_panel() -> None:
    lines = why(advised(), 78, 8)
    at = next(at for at, line in enumerate(lines) if line.startswith("try"))
    assert " ".join(f"{lines[at]} {lines[at + 1]}".split()).startswith(f"try {FLAG}")
    wide = " ".join(" ".join(why(advised(), 110, 30)).split())
    assert f"try {FLAG} · {WHY}" in wide or f"try {FLAG} {WHY}" in wide


def test_a_row_goes_on_where_there_is_room_and_is_one_line_where_there_is_none() -> None:
    roomy, tight = why(frames.overload(), 78, 40), why(frames.overload(), 78, 10)
    labels = [line[:18].strip() for line in tight]
    assert all(labels[1:]) or labels[2] == "", "only the flag to try takes more in little room"
    said = " ".join(" ".join(line.split()) for line in roomy)
    assert "lost in blocks 88 tok" in said
    assert "lost in blocks" not in " ".join(tight)


@pytest.mark.parametrize("height", range(1, 24))
def test_rows_that_are_not_shown_are_counted(height: int) -> None:
    frame = frames.overload()
    shown = sum(bool(line[:18].strip()) for line in why(frame, 78, height))
    every = sum(bool(line[:18].strip()) for line in why(frame, 78, 60))
    assert left_out(frame, 78, height, LOOK) == every - shown


def test_the_heading_says_that_there_are_more_and_how_to_see_them() -> None:
    frame = frames.overload(columns_for(160))
    shown = "\n".join("".join(segment.text for segment in line) for line in screen(frame, 160, 48, LOOK))
    assert re.search(r" why ─+ w \d+ more · last 2:31 ─", shown)
    for height, more in ((12, True), (60, False)):
        place, lines = drawn(frame, 80, height, LOOK, only="why")[2]
        title = "".join(segment.text for segment in lines[0])
        assert (re.search(r"─ \d+ more · last", title) is not None) == more, place


def test_littles_law_says_when_it_does_not_hold() -> None:
    said = " ".join(" ".join(why(frames.overload(), 110, 40)).split())
    assert "no steady state" not in said
    frame = frames.overload()
    little = frame.queueing.waiting
    assert little is not None
    for residual, expected in ((6.02, 1), (-0.26, 1), (0.25, 0), (-0.25, 0)):
        off = replace(frame.queueing, waiting=replace(little, residual_ratio=residual))
        said = " ".join(" ".join(why(replace(frame, queueing=off), 110, 40)).split())
        assert said.count(f"({residual * 100:+.0f} %) no steady state") == expected


def test_a_load_at_which_queue_overtook_is_a_whole_number_of_requests() -> None:
    assert "at 64 in flight" in " ".join(" ".join(why(frames.overload(), 110, 40)).split())


@pytest.mark.parametrize("width", range(30, 130))
@pytest.mark.parametrize("look", [LOOK, looks.load("dark", ascii=True, colour=False)])
def test_every_sign_in_the_wall_clock_has_its_name_beside_it(width: int, look: looks.Look) -> None:
    lines = DRAW["why"](frames.overload(), width, 30, look)
    rows = ["".join(segment.text for segment in line) for line in lines]
    (row,) = (row for row in rows if row.startswith("wall clock"))
    assert width_of(row) == width
    bar, _, legend = row[18:].partition("  ")
    words = {"queue": "recomp", "prefill": "prefill", "decode": "decode"}
    for role, word in words.items():
        sign = look.glyphs.parts[role]
        if sign in bar:
            assert re.search(rf"{re.escape(sign)} ({word})", legend), (row, sign)
    if look.glyphs.rule in bar:
        assert f"{look.glyphs.rule} idle" in legend
    if width >= 60:
        assert len(set(bar)) == 4


def test_the_price_of_each_limit_stands_with_its_doubt() -> None:
    worth = Worth(0.0738, 0.0733, 0.0743)
    nothing = Worth(0.0, 0.0, 0.0)
    found = Prices(
        "c=64",
        0,
        (
            Price("kv", 86_896, 95_600, worth, Worth(-0.08, -0.081, -0.079), 5),
            Price("max-num-seqs", 128, 144, nothing, nothing, 1),
        ),
        None,
        (),
        1.0,
    )
    lines = "\n".join(why(replace(frames.overload(), prices=found), 120, 30))
    assert "10 % more of each, simulated" in lines
    assert "KV pool +7.38 ± 0.05 % tok/s, −8.00 ± 0.10 % TTFT" in lines
    assert "max-num-seqs 0" in lines


@pytest.mark.parametrize("height", [3, 4, 6, 12])
@pytest.mark.parametrize("width", [54, 58, 78])
def test_no_reason_is_cut_in_the_middle(width: int, height: int) -> None:
    lines = why(frames.overload(), width, height)
    assert not [line for line in lines if line.endswith("…")]
