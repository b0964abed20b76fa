"""A panel is one file and one row of the table: it is then drawn, hidden, chosen and enlarged like any other."""

from __future__ import annotations

import pytest

from tests.draw import frames
from tests.draw.panels import text
from tests.ui.screens import SWEEP, replay
from tests.ui.screens import text as screen_text
from vtop.draw import theme as looks
from vtop.draw.layout import arrange, assembled, body, drawn
from vtop.draw.panels.registry import PANELS, Panel
from vtop.draw.panels.sizes import Rows
from vtop.draw.text import Line, line
from vtop.draw.theme import Look
from vtop.session.bottleneck.verdict import TITLES
from vtop.session.frame.frame import Frame

LOOK = looks.load("dark")


def adapters(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    return [line(look, width, (f"adapters of {len(frame.servers)}", "text"))] * height


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> str:
    rows = Rows(3, 4)
    row = Panel("adapters", "LoRA adapters", adapters, "left", lambda _: rows, lambda _: rows)
    monkeypatch.setitem(PANELS, row.name, row)
    return row.name


def shown(size: tuple[int, int], hidden: frozenset[str] = frozenset(), only: str | None = None) -> str:
    parts = drawn(frames.overload(), *size, LOOK, hidden=hidden, only=only)
    return text(assembled(parts, *size, LOOK))


@pytest.mark.parametrize("size", [(80, 30), (120, 40), (200, 60)])
def test_a_row_of_the_table_is_a_panel_on_the_screen(size: tuple[int, int], added: str) -> None:
    assert "adapters of 1" in shown(size)
    assert ("LoRA adapters" in shown(size)) == (size[0] > 80), "panels of one column have no heading"
    assert "adapters of 1" not in shown(size, hidden=frozenset({added}))
    assert shown(size, only=added).count("adapters of 1") > 15


async def test_it_is_chosen_by_tab_and_enlarged_by_enter(added: str) -> None:
    async with replay(SWEEP) as session:
        await session.at(12.0)
        await session.pilot.press("tab")
        while session.app.chosen not in (added, None):
            await session.pilot.press("tab")
        assert session.app.chosen == added
        await session.pilot.press("enter")
        assert screen_text(session.app).count("adapters of 1") > 20


def test_no_panel_is_named_in_the_layout() -> None:
    import inspect

    from vtop.draw import layout

    source = inspect.getsource(layout).replace('("w", "why")', "")  # a key
    assert not [name for name in body() if f'"{name}"' in source]


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
def test_every_panel_that_a_screen_has_room_for_has_its_least_rows(size: tuple[int, int]) -> None:
    frame = frames.overload()
    narrow = size[0] < 110
    for place in arrange(*size, frame):
        if place.panel in PANELS:
            rows = (PANELS[place.panel].narrow if narrow else PANELS[place.panel].wide)(frame)
            assert rows is not None
            assert place.height <= rows.most


def test_every_limit_that_binds_is_marked_on_one_panel() -> None:
    marked = [limit for panel in PANELS.values() for limit in panel.limits]
    assert len(marked) == len(set(marked))
    assert {limit for limit, title in TITLES.items() if title.endswith("BINDS")} - {"none"} <= set(marked)
