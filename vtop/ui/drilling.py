"""One server of several on the whole screen: a session of that server alone, read from the same recording."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from vtop.recording import AnyEvent, FileRecording, LiveRecording, Recording, events_of
from vtop.recording.one_server import OneServer
from vtop.session.session import Session
from vtop.ui import fleets
from vtop.ui.prompt import Prompt

if TYPE_CHECKING:
    from vtop.ui.app import VtopApp


class Drilled:
    """The session of one server; it takes what the whole session takes."""

    def __init__(self, whole: Session, server: int) -> None:
        self.server = server
        self._one = OneServer(whole.start, server)
        self.session = Session(self._one.start)

    def take(self, event: AnyEvent) -> None:
        if (own := self._one.of(event)) is not None:
            self.session.apply(own)


class Shared:
    """The session of one server, over the history that the whole session has: there at once, however long that is."""

    def __init__(self, whole: Session, server: int) -> None:
        self.server = server
        self.session = whole.alone(server)

    def take(self, event: AnyEvent) -> None:
        self.session.end_s = max(self.session.end_s, event.t)


def into(app: VtopApp, server: int | None) -> None:
    """Show one server alone; None for all of them again."""
    from_table = app.only == "servers" or len(app.session.servers) >= fleets.FROM
    app.drilled = None
    if server is not None and not app.session.load.phases:  # of vtop's own load only the part of that server is told
        app.drilled = Shared(app.session, server)
        app.say(f"{app.session.servers[server].target.url} alone; {app.face_of('shrink')} shows all servers")
    elif server is not None:
        drilled = Drilled(app.session, server)
        taken = 0
        with closing(_so_far(app.recording)) as events:
            for event in islice(events, app.taken):
                drilled.take(event)
                taken += 1
        if taken < app.taken:
            app.say("what was before is not at hand any more: the server's numbers begin here")
        app.drilled = drilled
        app.say(f"{app.session.servers[server].target.url} alone; {app.face_of('shrink')} shows all servers")
    app.only = app.chosen = "servers" if server is None and from_table else None
    app.draw()


def worst(app: VtopApp) -> int:
    """The server that is chosen in the table, or stands on top of it: in trouble, or with most waiting."""
    fleet = fleets.drawn(app)
    if fleet is not None and fleet.order:
        return app.table.chosen if app.table.chosen in fleet.order else fleet.order[0]
    from vtop.draw.panels.servers import ordered

    assert app.scene is not None
    return ordered(app.scene.frame)[0].index


def ask(app: VtopApp) -> None:
    """Ask which server, by a part of its address."""
    urls = [server.target.url for server in app.session.servers]
    if len(urls) < 2:
        app.say("there is one server; several are watched by: vtop :8000 :8001", bad=True)
        return

    def answered(text: str | None) -> None:
        if text is None or not text.strip():
            return
        found = [index for index, url in enumerate(urls) if text.strip() in url]
        if len(found) == 1:
            into(app, found[0])
        else:
            which = ", ".join(urls[index] for index in found[:5]) or f"none of {', '.join(urls[:5])}"
            app.say(f"{text} is in {which}; write what is in one of them", bad=True)

    app.push_screen(Prompt("which server alone? a part of its address", urls[0].partition("://")[2]), answered)


def _so_far(recording: Recording) -> Generator[AnyEvent, None, None]:
    if isinstance(recording, LiveRecording):
        yield from recording.so_far()
    elif isinstance(recording, FileRecording):
        again = recording.again()
        try:
            yield from events_of(again)
        finally:
            again.close()
