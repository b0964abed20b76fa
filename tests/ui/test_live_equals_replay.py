"""A live screen and a replay of its file show the same cells, text and style, at the same instants."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shipped_kinds import name
from tests.ui.screens import SHIPPED, SIZES, SWEEP, cells, live, replay, text
from vtop.ui.board import Board

PARTS = (0.0, 0.13, 0.71, 1.0)


QUICK = ("killed", "sweep_c64")  # the others are tried with the slow tests
SMALL = 100_000  # bytes; of a larger recording one size is tried, the next of the next
TRIED = [
    pytest.param(source, size, marks=[pytest.mark.slow] if name(source) not in QUICK else [])
    for number, source in enumerate(SHIPPED)
    for size in (SIZES if source.stat().st_size < SMALL else SIZES[number % len(SIZES) :][:1])
]


@pytest.mark.parametrize(("source", "size"), TRIED, ids=lambda one: name(one) if isinstance(one, Path) else str(one[0]))
async def test_live_equals_replay(source: Path, size: tuple[int, int], tmp_path: Path) -> None:
    recorded = tmp_path / "session.jsonl"
    seen = {}
    async with live(source, size=size, path=recorded) as session:
        end_s = session.ahead[-1].t
        for part in PARTS:
            await session.feed(end_s * part)
            await session.pilot.press("space")  # a paused screen says so in both
            seen[session.clock.now_s] = cells(session.app)[:-1]  # but for the keys, which follow the mode
            await session.pilot.press("end")
    async with replay(recorded, size=size) as again:
        for at_s in (*seen, *reversed(seen)):
            await again.at(at_s)
            assert cells(again.app)[:-1] == seen[at_s], at_s


async def test_playing_to_an_instant_shows_what_seeking_it_shows() -> None:
    async with replay(SWEEP) as played, replay(SWEEP) as sought:
        played.app.playhead.play(2.0)
        for step in range(1, 6):
            await played.passes(1.5)
            await sought.at(step * 3.0)
            assert played.app.playhead.now() == step * 3.0
            assert (
                cells(played.app)[1:] == cells(sought.app)[1:]
            )  # the first line says "2x" in one, "paused" in the other


async def test_a_screen_that_is_resized_shows_what_a_fresh_one_shows() -> None:
    async with replay(SWEEP, size=(200, 60)) as resized:
        await resized.at(12.0)
        for size in ((80, 24), (120, 36), (46, 19), (200, 60), (120, 36)):
            await resized.pilot.resize_terminal(*size)
            await resized.pilot.pause()
            async with replay(SWEEP, size=size) as fresh:
                await fresh.at(12.0)
                assert cells(resized.app) == cells(fresh.app), size
                assert text(resized.app) == text(fresh.app), size


async def test_drawing_twice_changes_nothing_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with replay(SWEEP) as shown:
        await shown.at(9.0)
        before, sent = cells(shown.app), []
        monkeypatch.setattr(Board, "refresh", lambda self, *regions, **_: sent.append(regions))
        shown.app.draw()
        shown.app.draw()
        assert cells(shown.app) == before
        assert not sent


async def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    growing = tmp_path / "growing.jsonl"
    async with live(SWEEP, path=growing) as session:
        await session.feed(5.0)
        async with replay(growing) as follower:
            await follower.pilot.press("end")
            assert "growing" in follower.app.state_words()
            for at_s in (8.0, 12.0, 18.1):
                await session.feed(at_s)
                follower.app.catch_up()
                await follower.pilot.pause()
                assert follower.app.session.end_s == session.app.session.end_s
                assert follower.app.playhead.live
            assert "■ end" in follower.app.state_words()  # the source's own end line


async def test_a_replay_stops_at_the_end_and_begins_anew_from_there() -> None:
    async with replay(SWEEP) as shown:
        shown.app.playhead.play(10.0)
        await shown.passes(100.0)
        assert shown.app.state_words().startswith("■ end")
        await shown.pilot.press("space")
        assert shown.app.playhead.now() == 0.0
        await shown.passes(0.5)
        assert shown.app.playhead.now() == pytest.approx(5.0)


async def test_a_torn_file_says_what_it_lacks(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    async with live(SWEEP, path=whole) as session:
        await session.feed(10.0)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(whole.read_bytes()[:-9])
    async with replay(torn) as shown:
        await shown.pilot.press("end")
        assert "last line incomplete" in text(shown.app)
