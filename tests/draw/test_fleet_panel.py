"""The table of servers with the whole body: whole lines at every size, the chosen row marked, who differs below."""

from __future__ import annotations

import pytest

from tests.draw.panels import text
from tests.session.fleets import Replica, session
from vtop.draw import layout
from vtop.draw import theme as looks
from vtop.session.frame.fleet import FleetView
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session

LOOK = looks.load("dark")


@pytest.fixture(scope="module")
def fleet() -> Session:
    """Thirty like servers, one slow, one full, one down, a router, one whose name would harm a terminal."""
    like = [Replica(labels=(("rack", f"j{at % 2}"),)) for at in range(30)]
    odd = [Replica(itl_s=0.03), Replica(waiting=80.0), Replica(), Replica(kind="vllm-router"), Replica(model="\x1b[2J")]
    return session([*like, *odd], down=lambda at, second: at == 32 and second > 60)


def frame(made: Session, width: int = 120, height: int = 40, **view: object) -> Frame:
    lines, strip = layout.fleet_room(width, height)
    shown = FleetView(lines=lines, strip=strip, **view)  # type: ignore[arg-type]
    return made.frame(made.end_s, View(window_s=60.0, fleet=shown, fleet_alone=True))


def screen(made: Session, width: int = 120, height: int = 40, **view: object) -> list[str]:
    drawn = layout.drawn(frame(made, width, height, **view), width, height, LOOK, only="servers")
    return text(layout.assembled(drawn, width, height, LOOK)).splitlines()


@pytest.mark.parametrize("size", [(30, 6), (80, 24), (110, 30), (120, 40), (200, 60), (400, 100)])
@pytest.mark.parametrize("group", [None, "rack"])
def test_every_line_is_whole_at_every_size(fleet: Session, size: tuple[int, int], group: str | None) -> None:
    lines = screen(fleet, *size, group=group, chosen=31)
    assert [len(line) for line in lines] == [size[0]] * size[1]
    assert not any("\x1b" in line for line in lines)


def test_the_screen_says_how_many_are_in_trouble_and_what_all_do(fleet: Session) -> None:
    lines = screen(fleet)
    assert "2 OF 35 IN TROUBLE" in lines[1]
    assert "1 unlike its peers" in lines[1]
    assert "1 not read" in lines[1]
    assert "33 of 34 answer" in lines[2]
    assert "r32:8000" in lines[5]
    assert "down" in lines[5]
    assert "r31:8000" in lines[6]
    assert "kv" in lines[6]
    assert "slower" in lines[7]


def test_below_the_table_stands_who_differs_and_the_chosen_row(fleet: Session) -> None:
    assert any("r30:8000 slower: ITL" in line for line in screen(fleet)[-6:])
    chosen = screen(fleet, chosen=31)
    assert "› r31:8000" in chosen[6]
    assert any("80 waiting" in line for line in chosen[-6:])


def test_a_router_is_named_as_one(fleet: Session) -> None:
    (row,) = [line for line in screen(fleet, find="router", width=200) if "r33:8000" in line][:1]
    assert "not read" in row
    assert "router" in row


def test_a_search_without_a_row_is_said(fleet: Session) -> None:
    assert any("no server has 'nowhere' in its row" in line for line in screen(fleet, find="nowhere"))


def test_a_group_has_a_heading_with_what_it_adds_up_to(fleet: Session) -> None:
    headings = [line for line in screen(fleet, group="rack") if " answer · run " in line]
    assert headings[0].split()[:2] != headings[-1].split()[:2]
    assert any(line.strip().startswith("j0") and "15 of 15 answer" in line for line in headings)
