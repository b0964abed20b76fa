"""What a server, a file or a file's name says is shown letter by letter, and steers nothing."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from tests.ui.screens import live, said, start, text
from vtop.recording import Identity, Mark, Note, Outage, Scrape, Target
from vtop.ui import screenshot

BRACKETS = "m[awq] [/] [link=http://x]y[/link] [bold"
CONTROLS = "a\x1b[31mb\x1b]0;title\x07c\x00d\x9be\u202ef\u200bg"


def scrape(**changes: object) -> Scrape:
    known: dict[str, object] = {
        "server": 0, "at_s": 1.0, "took_s": 0.01, "bytes": 100, "full": True, "health": 200,
        "values": {"vllm:num_requests_running": 1.0, "vllm:num_requests_waiting": 0.0},
    }  # fmt: skip
    return Scrape(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(200, 60), (120, 36), (80, 24)])
async def test_brackets_are_shown_as_they_are(size: tuple[int, int]) -> None:
    async with live(None, size=size) as session:
        session.recording.append(Identity(server=0, models=(BRACKETS,), version="[0.26.0]"))
        session.recording.append(scrape(bad_lines=1, first_bad="[/bad"))
        session.recording.append(Mark(text="[/mark]"))
        await session.feed(2.0)
        shown = text(session.app)
        assert BRACKETS in shown
        assert "[/mark]" in shown
        session.app.say(BRACKETS)
        session.app.say("[/", bad=True)
        await session.pilot.pause()
        assert said(session.app) == [BRACKETS, "[/"]
        assert "[link=http://x]y[/link]" in text(session.app)
        session.app.action_help()
        await session.pilot.pause()


async def test_controls_become_signs_on_the_screen_and_in_the_picture() -> None:
    begin = start(servers=(Target(url=f"http://h/{CONTROLS}"),))
    async with live(None, size=(200, 60), begin=begin) as session:
        session.recording.append(Outage(server=0, at_s=0.5, took_s=0.1, reason="status", detail=CONTROLS))
        await session.feed(1.0)
        waiting = text(session.app)
        session.recording.append(Identity(server=0, models=(CONTROLS,), version=CONTROLS))
        session.recording.append(scrape(bad_lines=1, first_bad=CONTROLS))
        session.recording.append(Note(source="gpu", text=CONTROLS))
        session.recording.append(Note(source="recording", text=CONTROLS))
        await session.feed(2.0)
        for shown in (waiting, text(session.app), "\n".join(said(session.app))):
            assert "a\N{REPLACEMENT CHARACTER}[31mb" in shown
            assert all(letter.isprintable() or letter == "\n" for letter in shown)
        drawn = screenshot.svg(session.app, CONTROLS)
        assert "a\N{REPLACEMENT CHARACTER}[31mb" in "".join(xml.fromstring(drawn).itertext())


async def test_a_picture_of_markup_and_surrogates_is_well_formed() -> None:
    async with live(None, size=(120, 36)) as session:
        session.recording.append(Identity(server=0, models=('<&>"]]>--><script>',)))
        session.recording.append(scrape())
        await session.feed(2.0)
        session.app.say("file \udcff\ud800")
        await session.pilot.pause()
        drawn = screenshot.svg(session.app, "\udcff <&>")
        assert '<&>"]]>--><script>' in "".join(xml.fromstring(drawn.encode()).itertext())


async def test_wide_and_combining_letters_keep_the_columns(tmp_path: Path) -> None:
    async with live(None, size=(80, 24)) as session:
        session.recording.append(Identity(server=0, models=("模型-大きい-é-👩‍🔬",), version="0.26.0"))
        session.recording.append(scrape())
        await session.feed(2.0)
        xml.fromstring(screenshot.svg(session.app, "wide"))
        rows = text(session.app).splitlines()
        assert rows[0].endswith("1.0 s ago")


async def test_a_newcomer_without_a_server_is_told_what_is_waited_for_and_offered_the_demo() -> None:
    for size in ((46, 19), (80, 24), (120, 36), (200, 60)):
        async with live(None, size=size) as session:
            await session.feed(0.1)
            assert "http://localhost:8000" in text(session.app)
            refused = Outage(server=0, at_s=0.5, took_s=0.1, reason="refused", detail="/metrics: Connection refused")
            session.recording.append(refused)
            await session.feed(1.0)
            shown = text(session.app)
            assert "WAITING  for http://localhost:8000: try" in shown
            assert "vtop demo" in shown
            session.recording.append(scrape())
            await session.feed(2.0)
            assert "vtop demo" not in text(session.app)
