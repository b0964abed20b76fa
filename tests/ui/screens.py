"""Apps for tests: a session recorded live under a clock moved by hand, and a replay of a file under such a clock."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.segment import Segment
from textual.pilot import Pilot

from tests.shipped_kinds import KINDS
from vtop.draw import theme as looks
from vtop.draw.theme import Look
from vtop.recording import AnyEvent, Event, FileRecording, LiveRecording, Playhead, Start, Target
from vtop.recording.events import FORMAT
from vtop.session.session import Session
from vtop.ui import screenshot
from vtop.ui.app import PricesSource, VtopApp
from vtop.ui.board import Board

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = KINDS
OVERLOAD = ROOT / "recordings" / "overload.jsonl.gz"
SWEEP = ROOT / "recordings" / "sweep_c64.jsonl.gz"
SIZES = ((80, 24), (120, 36), (200, 60))
NOBODY = frozenset[str]()


class Hand:
    """A clock moved by hand."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def start(**changes: object) -> Start:
    known: dict[str, object] = {
        "format": FORMAT, "vtop": "0", "unix_s": 1_760_000_000.0, "interval_s": 1.0,
        "servers": (Target(url="http://localhost:8000"),),
    }  # fmt: skip
    return Start(**{**known, **changes})  # type: ignore[arg-type]


@dataclass(slots=True)
class Live:
    """A live session: `feed` lets the world happen as it does in a file, up to an instant."""

    app: VtopApp
    pilot: Pilot[None]
    clock: Hand
    recording: LiveRecording
    ahead: deque[AnyEvent]

    async def feed(self, until_s: float) -> None:
        while self.ahead and self.ahead[0].t <= until_s:
            event = self.ahead.popleft()
            if isinstance(event, Event):
                self.clock.now_s = event.t
                self.recording.append(event)
        self.clock.now_s = until_s
        self.app.catch_up()
        await self.pilot.pause()

    def state(self) -> str:
        return self.app.state_words()


@asynccontextmanager
async def live(
    source: Path | None = SWEEP,
    *,
    size: tuple[int, int] = (120, 36),
    path: Path | None = None,
    window_s: float = 300.0,
    look: Look | None = None,
    begin: Start | None = None,
) -> AsyncIterator[Live]:
    events: deque[AnyEvent] = deque()
    if source is not None:
        file = FileRecording(source)
        begin = file.start
        while taken := file.take():
            events += taken
        file.close()
        events.popleft()  # the start
    clock = Hand()
    recording = LiveRecording(begin or start(), clock, path)
    app = VtopApp(recording, Playhead(clock, clock), look or looks.load(), window_s=window_s, hidden=NOBODY)
    try:
        async with app.run_test(size=size) as pilot:
            yield Live(app, pilot, clock, recording, events)
    finally:
        clock.now_s += 1.0
        recording.close("test")


@dataclass(slots=True)
class Replay:
    app: VtopApp
    pilot: Pilot[None]
    clock: Hand

    async def at(self, at_s: float) -> None:
        """Stand at an instant."""
        self.app.playhead.pause()
        self.app.playhead.seek(at_s)
        self.app.draw()
        await self.pilot.pause()

    async def passes(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.app.catch_up()
        await self.pilot.pause()


@asynccontextmanager
async def replay(
    path: Path,
    *,
    size: tuple[int, int] = (120, 36),
    look: Look | None = None,
    window_s: float = 300.0,
    prices: PricesSource | None = None,
) -> AsyncIterator[Replay]:
    """Stands at the beginning, with what the file held read in."""
    recording = FileRecording(path)
    session = Session(recording.start)
    clock = Hand()
    playhead = Playhead(clock, lambda: session.end_s)
    app = VtopApp(
        recording, playhead, look or looks.load(), session=session, window_s=window_s, hidden=NOBODY, prices=prices
    )
    while app.take_in():
        pass
    playhead.pause()
    playhead.seek(0.0)
    try:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield Replay(app, pilot, clock)
    finally:
        recording.close()


def cells(app: VtopApp) -> list[list[Segment]]:
    """The board, line by line: text and styles."""
    board = app.query_one(Board)
    return [list(board.render_line(y)) for y in range(board.size.height)]


def text(app: VtopApp) -> str:
    """The whole screen, what lies over the board too."""
    return screenshot.text(app)


def said(app: VtopApp) -> list[str]:
    """What the toasts say, oldest first."""
    return [notification.message for notification in app._notifications]
