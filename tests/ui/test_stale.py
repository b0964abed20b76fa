"""A server is killed under a live session: nothing on the screen is called live until it is back."""

from __future__ import annotations

import re
from pathlib import Path

from tests.ui.screens import ROOT, Live, live, text

KILLED = ROOT / "recordings" / "killed.jsonl.gz"  # its engine dies at 1:37 and is up again at 3:09


async def shown(session: Live, at_s: float) -> list[str]:
    await session.feed(at_s)
    session.app.draw()
    await session.pilot.pause()
    return text(session.app).splitlines()


async def test_a_killed_server_is_not_called_live_until_it_is_back() -> None:
    async with live(KILLED, size=(80, 24)) as session:
        first, *_ = await shown(session, 90.0)
        assert "○ live 1:30" in first
        first, *rest = await shown(session, 101.0)
        assert re.search(r"○ asking 1:41 +stale \d\.\d s ago$", first)
        assert any(line.startswith(" server as of 1:3") for line in rest)
        assert not any(line.endswith(" now") for line in rest)
        first, *rest = await shown(session, 195.0)
        assert "○ live 3:15" in first
        assert not any(" as of " in line for line in rest)


async def test_a_recording_goes_on_while_the_server_is_silent(tmp_path: Path) -> None:
    async with live(KILLED, path=tmp_path / "kept.jsonl") as session:
        first, *_ = await shown(session, 101.0)
        assert "● rec 1:41" in first
