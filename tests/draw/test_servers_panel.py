"""Several servers are a table, those in trouble on top, and only the row of one that is down is dim."""

from __future__ import annotations

from dataclasses import replace

from tests.draw import frames
from tests.draw.panels import DRAW, text
from vtop.draw import theme as looks
from vtop.draw.layout import columns_for, screen
from vtop.session.frame.frame import Frame
from vtop.session.frame.servers import ServerLoad, Status

LOOK = looks.load("dark")
DOWN = Status("down", "no answer for 18.3 s", 1, fresh=False)


def fleet(columns: int = 60) -> Frame:
    """Three servers: one calm, one down, one with a queue."""
    frame = frames.overload(columns)
    servers = (
        frames.server(0, url="http://localhost:8301", load=ServerLoad(4, 0, 0.21, 400.0, 0.3)),
        frames.server(1, url="http://localhost:8302", status=DOWN, age_s=18.3),
        frames.server(2, url="http://localhost:8303", load=ServerLoad(11, 51, 0.949, 1592.0, 44.9)),
    )
    absent = "1 of 3 down: :8302"
    return replace(frame, servers=servers, status=replace(frame.status, absent=absent))


def test_those_in_trouble_stand_on_top() -> None:
    rows = text(DRAW["servers"](fleet(), 140, 4, LOOK)).splitlines()
    assert [row[3:17] for row in rows[1:]] == ["localhost:8302", "localhost:8303", "localhost:8301"]
    assert rows[2].split()[2:] == [
        "11",
        "51",
        "███▊",
        "95",
        "%",
        "0.4",
        "s",
        "1,592",
        "44.9",
        "s",
        "qwen2.5-7b",
        "1",
        "0",
    ] or (rows[2].split()[2:9] == ["11", "51", "███▊", "95", "%", "0.4", "s"])


def test_only_the_row_of_the_dead_one_is_dim() -> None:
    lines = DRAW["servers"](fleet(), 140, 4, LOOK)
    number = LOOK.styles["number"]
    assert [any(segment.style == number for segment in line) for line in lines] == [False, False, True, True]
    others = [segment for line in screen(fleet(), 160, 48, LOOK) for segment in line]
    assert sum(segment.style == number for segment in others) > 20, "the panels are about those that answer"


def test_the_verdict_is_that_of_the_living_and_says_who_is_missing() -> None:
    for width, height in ((80, 24), (120, 36), (200, 60)):
        shown = text(screen(fleet(columns_for(width)), width, height, LOOK)).splitlines()
        assert "KV POOL BINDS  1 of 3 down: :8302 · 11 of" in shown[1]


def test_a_state_that_has_no_room_behind_the_address_is_left_to_its_sign() -> None:
    waits = frames.server(0, url="http://localhost:8302", status=replace(DOWN, kind="waiting"))
    row = text(DRAW["servers"](replace(fleet(), servers=(waits,)), 58, 2, LOOK)).splitlines()[1]
    assert row.split()[1] == "localhost:8302"
