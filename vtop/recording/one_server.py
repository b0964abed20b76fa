"""One server of several: the events that are about it, and about no server, as a session of that server alone."""

from __future__ import annotations

import msgspec

from vtop.recording.events import AnyEvent, Event, Load, Request, Start


class OneServer:
    """Takes the events of a session in order; `of` is None for those that are about other servers.

    Requests say no server: they are that of their phase; a trial before the phases is the first server's.
    """

    def __init__(self, start: Start, server: int) -> None:
        self._server = server
        self._phases: dict[int, bool] = {-1: server == 0}
        self.start = msgspec.structs.replace(start, servers=(start.servers[server],))

    def of(self, event: AnyEvent) -> AnyEvent | None:
        if isinstance(event, Start):
            return self.start
        if isinstance(event, Load):
            self._phases[event.phase] = event.server == self._server
        if isinstance(event, Request):
            return event if self._phases.get(event.phase, False) else None
        about = getattr(event, "server", None)
        if not isinstance(about, int) or not isinstance(event, Event):
            return event
        return msgspec.structs.replace(event, server=0) if about == self._server else None
