"""The table of many servers on the screen: where it begins, rows, search, one server and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.fleets import Replica, events, start
from tests.ui.screens import replay, said, text
from vtop.recording import encode
from vtop.ui import fleets


def written(path: Path, servers: int, seconds: int = 12) -> Path:
    replicas = [Replica(waiting=float(at), model=f"m{at % 2}") for at in range(servers)]
    lines = [start(replicas), *events(replicas, seconds)]
    path.write_bytes(b"".join(encode(event) + b"\n" for event in lines))
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("fleet") / "many.jsonl", fleets.MOST_ADDED_UP + 1)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("fleet") / "several.jsonl", fleets.FROM)


async def test_from_so_many_servers_on_the_screen_begins_with_their_table(several: Path, tmp_path: Path) -> None:
    async with replay(several) as shown:
        await shown.at(11.0)
        assert "9 servers" in text(shown.app)
        assert "by trouble" in text(shown.app)
        await shown.pilot.press("f")
        assert "by trouble" not in text(shown.app)
        assert "KV cache" in text(shown.app)
    async with replay(written(tmp_path / "few.jsonl", fleets.FROM - 1)) as shown:
        await shown.at(11.0)
        assert "by trouble" not in text(shown.app)
        await shown.pilot.press("f")
        assert "by trouble" in text(shown.app)


async def test_enter_shows_the_chosen_server_alone_and_escape_the_table_as_it_was(many: Path) -> None:
    async with replay(many) as shown:
        await shown.at(11.0)
        await shown.pilot.press("down", "down")
        table = text(shown.app)
        assert (found := fleets.drawn(shown.app)) is not None
        assert shown.app.table.chosen == found.order[1]
        await shown.pilot.press("enter")
        assert f"server {found.order[1] + 1} of {fleets.MOST_ADDED_UP + 1}" in text(shown.app)
        assert "KV cache" in text(shown.app)
        await shown.pilot.press("escape")
        shown.app.clear_notifications()
        await shown.pilot.pause()
        assert text(shown.app) == table


async def test_a_search_leaves_the_rows_that_hold_a_text_and_escape_takes_it_back(many: Path) -> None:
    async with replay(many) as shown:
        await shown.at(11.0)
        await shown.pilot.press("slash", *"r17", "enter")
        assert "1–1 of 1" in text(shown.app)
        await shown.pilot.press("escape")
        assert f"of {fleets.MOST_ADDED_UP + 1}" in text(shown.app)


async def test_order_and_group_go_on_key_by_key(many: Path) -> None:
    async with replay(many) as shown:
        await shown.at(11.0)
        await shown.pilot.press("o")
        assert "by waiting" in text(shown.app)
        await shown.pilot.press("b")
        assert "grouped by model" in text(shown.app)
        await shown.pilot.press("b")
        assert "grouped by" not in text(shown.app)


async def test_so_many_servers_are_not_added_up_in_panels(many: Path) -> None:
    async with replay(many) as shown:
        await shown.at(11.0)
        for key in ("w", "escape", "f"):
            await shown.pilot.press(key)
            assert shown.app.only == "servers"
        assert "are not added up in panels" in said(shown.app)[0]
