"""One server of several, alone on the screen, is what it would be had vtop watched it alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.ui.screens import SWEEP, live, replay, said, text
from vtop.recording import AnyEvent, FileRecording, Load, Request, Scrape, Start, Target, encode, events_of
from vtop.recording.events import Event
from vtop.session.frame.frame import Frame
from vtop.session.session import Session
from vtop.ui.drilling import Drilled

URLS = ("http://gpu7:8000", "http://gpu8:8000")


def doubled() -> list[Event]:
    """The sweep, and a second server that says the same, without the load: that is the second one's."""
    recording = FileRecording(SWEEP)
    found: list[Event] = []
    for event in events_of(recording):
        assert isinstance(event, Event)
        if isinstance(event, Start):
            found.append(msgspec.structs.replace(event, servers=tuple(Target(url=url) for url in URLS)))
        elif isinstance(event, Load):
            found.append(msgspec.structs.replace(event, server=1))
        elif getattr(event, "server", None) is None or isinstance(event, Request):
            found.append(event)
        else:
            for server in (0, 1):
                found.append(msgspec.structs.replace(event, server=server))
    recording.close()
    return found


@pytest.fixture
def both(tmp_path: Path) -> Path:
    path = tmp_path / "both.jsonl"
    path.write_bytes(b"".join(encode(event) + b"\n" for event in doubled()))
    return path


def seen(session: Session) -> bytes:
    """All numbers at an instant, but the name of the server."""
    frame: Frame = session.frame(12.0)
    return msgspec.json.encode(frame).replace(URLS[1].encode(), b"URL").replace(b"http://localhost:8000", b"URL")


def test_the_session_of_one_server_is_that_of_a_recording_of_it_alone() -> None:
    alone_file = FileRecording(SWEEP)
    alone = Session(alone_file.start)
    for event in events_of(alone_file):
        alone.apply(event)
    alone_file.close()
    events: list[AnyEvent] = [*doubled()]
    whole = Session(events[0])  # type: ignore[arg-type]
    drilled = Drilled(whole, 1)
    for event in events:
        drilled.take(event)
    url = alone.servers[0].target.url.encode()
    assert seen(drilled.session) == seen(alone).replace(url, b"URL")


def test_the_load_of_another_server_is_not_its_own() -> None:
    events = doubled()
    drilled = Drilled(Session(events[0]), 0)  # type: ignore[arg-type]
    for event in events:
        drilled.take(event)
    assert drilled.session.load.phases == {}
    assert len(drilled.session.servers[0].t) == sum(isinstance(event, Scrape) and event.server == 0 for event in events)


async def test_enter_on_the_table_of_servers_shows_the_first_alone_and_escape_all(both: Path) -> None:
    async with replay(both) as shown:
        await shown.at(12.0)
        whole = text(shown.app)
        assert "gpu7" in whole
        assert "gpu8" in whole
        shown.app.chosen = "servers"
        await shown.pilot.press("enter")
        assert "server 1 of 2 · ‖ paused 0:12" in text(shown.app)
        assert shown.app.scene is not None
        assert [server.url for server in shown.app.scene.frame.servers] == [URLS[0]]
        await shown.pilot.press("escape")
        shown.app.clear_notifications()
        await shown.pilot.pause()
        assert text(shown.app) == whole


async def test_a_part_of_an_address_finds_a_server(both: Path) -> None:
    async with replay(both) as shown:
        await shown.at(12.0)
        await shown.pilot.press("slash", *"8000", "enter")
        assert "write what is in one of them" in said(shown.app)[0]
        await shown.pilot.press("slash", *"gpu8", "enter")
        assert "server 2 of 2" in text(shown.app)


async def test_a_live_session_goes_on_while_one_of_its_servers_is_alone_on_the_screen(both: Path) -> None:
    async with live(both) as session:
        await session.feed(6.0)
        await session.pilot.press("slash", *"gpu8", "enter")
        assert session.app.drilled is not None
        own = session.app.drilled.session
        assert len(own.servers[0].t) == len(session.app.session.servers[1].t)
        await session.feed(9.0)
        assert list(own.servers[0].t) == list(session.app.session.servers[1].t)


async def test_of_one_server_there_is_nothing_to_find() -> None:
    async with replay(SWEEP) as shown:
        await shown.pilot.press("slash")
        assert "there is one server" in said(shown.app)[0]
