"""A session that goes on for weeks in bounded memory: in time a younger one, which knows what was known, succeeds it.

What is counted since the session began is carried on from one to the next, so that a total never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from vtop.recording import AnyEvent, Start
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session

SESSION_S: Final = 900.0  # that a session goes back before another takes its place


class RollingSession:
    """Built by applying events in order, as a Session is."""

    def __init__(self, start: Start, known: Callable[[float], Iterable[AnyEvent]], window_s: float) -> None:
        """known: what the events so far say about an instant, as lines of that instant. window_s: the longest window
        that is asked for."""
        self._start, self._known, self._window_s = start, known, window_s
        self._sessions = [(0.0, Session(start))]  # the first is asked; the second is young, and takes its place

    @property
    def session(self) -> Session:
        return self._sessions[0][1]

    @property
    def began_s(self) -> float:
        """Since when the session counts."""
        return self._sessions[0][0]

    def apply(self, event: AnyEvent) -> None:
        if event.t - self.began_s >= SESSION_S and len(self._sessions) == 1:
            self._sessions.append((event.t, Session(self._start)))
            for line in self._known(event.t):
                self._sessions[1][1].apply(line)
        for _, session in self._sessions:
            session.apply(event)
        if len(self._sessions) == 2 and event.t - self._sessions[1][0] >= 2 * self._window_s:
            del self._sessions[0]


class SinceAttached(NamedTuple):
    """What was counted of one server; None: not known."""

    preemptions: float | None = None
    recomputed_tokens: float | None = None
    outages: float | None = None  # stretches without an answer
    restarts: float | None = None


class Totals:
    """The counts of one server since it was looked at first. They never go back, whatever a later look estimates."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._began_s = 0.0  # of the session that was looked at
        self._seen_s: float | None = None  # the server's latest line that the look knew
        self._before = SinceAttached()  # counted before that session
        self._told = SinceAttached()

    def look(self, rolling: RollingSession, frame: Frame, frame_at: Callable[[float], Frame]) -> SinceAttached:
        """frame: of the server now; frame_at: of the same session at another instant."""
        if self._seen_s is not None and rolling.began_s != self._began_s:
            pairs = zip(self._told, counts_of(frame_at(self._seen_s)), strict=True)
            self._before = SinceAttached(*((told or 0.0) - (since or 0.0) for told, since in pairs))
        self._began_s, self._seen_s = rolling.began_s, _latest_line_s(rolling.session, self._server, frame.now_s)
        now = (
            None if since is None else (before or 0.0) + since
            for before, since in zip(self._before, counts_of(frame), strict=True)
        )  # fmt: skip
        self._told = SinceAttached(*(_later(*one) for one in zip(self._told, now, strict=True)))
        return self._told


def _latest_line_s(session: Session, server: int, now_s: float) -> float | None:
    """When the latest scrape of a server, or that there was none, was written."""
    history = session.servers[server]
    scrapes, outages = history.visible(now_s), history.outages_by(now_s)
    lines = [history.t[scrapes - 1]] if scrapes else []
    lines += [history.outages[outages - 1].t] if outages else []
    return max(lines, default=None)


def counts_of(frame: Frame) -> SinceAttached:
    """Of a frame of one server, since its session began."""
    (server,) = frame.servers
    return SinceAttached(
        frame.preemption.count.since_start, frame.recompute.since_start, float(server.outages), float(server.restarts)
    )


def _later(told: float | None, now: float | None) -> float | None:
    return now if told is None else told if now is None else max(told, now)


def of_server(session: Session, server: int, view: View) -> Callable[[float], Frame]:
    """The frame of one of its servers at an instant; of an only one with vtop's own load."""
    alone = session if len(session.servers) == 1 else session.alone(server)
    return lambda now_s: alone.frame(now_s, view)
