"""What is old says so in words and predicts nothing of now; what is not old stands beside it as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.draw import frames
from tests.draw.panels import DRAW
from vtop.draw import theme as looks
from vtop.draw.layout import columns_for, screen
from vtop.draw.text import Line
from vtop.session.frame.frame import Frame

LOOK = looks.load("dark")
PLAIN = looks.load("dark", ascii=True, colour=False)


def text(lines: Iterable[Line]) -> str:
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def shown(frame: Frame, width: int, height: int, look: looks.Look = LOOK) -> str:
    return text(screen(frame, width, height, look))


def styles(panel: str, frame: Frame) -> set[object]:
    return {segment.style for line in DRAW[panel](frame, 78, 8, LOOK) for segment in line}


PREDICTED = r"full in|queue now|queue is (growing|steady|draining)"


@pytest.mark.parametrize("panel", ["kv", "ttft", "why"])
def test_nothing_is_predicted_from_old_numbers(panel: str) -> None:
    frame = frames.overload(60)
    assert re.search(PREDICTED, text(DRAW[panel](frame, 110, 20, LOOK)))
    old = replace(frame, status=frames.broken().status)
    assert not re.search(PREDICTED, text(DRAW[panel](old, 110, 20, LOOK)))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 48), (200, 60)])
@pytest.mark.parametrize("look", [LOOK, PLAIN])
def test_the_axis_ends_now_only_while_there_is_news(size: tuple[int, int], look: looks.Look) -> None:
    columns = columns_for(size[0])
    assert re.search(r"[─-] now", shown(frames.overload(columns), *size, look))
    old = shown(frames.broken(columns), *size, look)
    assert not re.search(r"\bnow\b", old)
    assert re.search(r"[−-]\d:\d\d [─ -]*2:31 ", old)  # the instant at which the charts end


@pytest.mark.parametrize("size", [(120, 36), (160, 48), (200, 60)])
@pytest.mark.parametrize("look", [LOOK, PLAIN])
def test_the_panels_of_a_silent_server_say_since_when_they_stand(size: tuple[int, int], look: looks.Look) -> None:
    old = shown(frames.broken(columns_for(size[0])), *size, look)
    for title in ("requests", "KV cache", "time to first token", "tokens", "latencies"):
        assert re.search(rf"[─-] {title} [─-]+ stands since 2:27 ", old), title
    for title in ("GPU", "load", "events"):
        assert re.search(rf"[─-] {title} [─-]{{3}}", old), title
        assert not re.search(rf"[─-] {title} [─-]+ stands", old), title
    assert "stands" not in shown(frames.overload(columns_for(size[0])), *size, look)


def test_on_a_small_screen_the_axis_says_it_for_the_server() -> None:
    columns = columns_for(80)
    (axis,) = (line for line in shown(frames.broken(columns), 80, 24).splitlines() if "−1:00" in line)
    assert axis.startswith(" server as of 2:27 ─")
    later = replace(frames.broken(columns), now_s=3847.4)
    assert " as of 1:04:03   " in shown(later, 80, 24)


def test_of_several_servers_the_silent_one_is_named() -> None:
    frame = frames.fleet(60)
    down = replace(frames.broken().status, server=1)
    servers = (frame.servers[0], replace(frame.servers[1], status=down, age_s=4.0))
    assert "server 2 stands since 2:27" in shown(replace(frame, status=down, servers=servers), 160, 48)


def test_scrapes_whose_numbers_do_not_move_are_not_called_old() -> None:
    frame = frames.overload(60)
    frozen = replace(frame, status=replace(frame.status, kind="frozen", fresh=False))
    drawn = shown(frozen, 160, 48)
    assert "scrape 0.4 s ago" in drawn.splitlines()[0]
    assert "stale" not in drawn.splitlines()[0]
    assert "stands still" in drawn


def test_devices_and_load_go_on_when_the_server_is_silent() -> None:
    frame = frames.broken(60)
    assert LOOK.faded is not None
    number = LOOK.styles["number"]
    for panel in ("gpus", "load"):
        assert number in styles(panel, frame), panel
    for panel in ("requests", "kv", "tokens", "ttft", "latencies"):
        assert number not in styles(panel, frame), panel
    lost = replace(frame, gpus=replace(frame.gpus, age_s=9.0))
    assert number not in styles("gpus", lost)


@pytest.mark.parametrize("theme", looks.names())
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("panel", ["tokens", "ttft", "requests", "kv"])
def test_fading_changes_no_sign(theme: str, colour: bool, panel: str) -> None:
    look = looks.load(theme, colour=colour)
    assert look.faded is not None
    frame = frames.overload(60)
    assert text(DRAW[panel](frame, 78, 16, look)) == text(DRAW[panel](frame, 78, 16, look.faded))


@pytest.mark.parametrize("theme", ["dark", "light", "contrast"])
def test_faded_parts_are_still_told_apart_and_not_as_bright(theme: str) -> None:
    look = looks.load(theme)
    assert look.faded is not None
    parts = ("queue", "prefill", "decode", "frontend", "network")
    assert len({look.faded.styles[role].color for role in parts}) == len(parts)
    assert all(look.faded.styles[role] != look.styles[role] for role in parts)
