"""From a recording to a screen: a live one, a replayed one, a still one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

from vtop import faults, units
from vtop.draw.theme import Look
from vtop.errors import VtopError
from vtop.recording import AnyEvent, FileRecording, LiveRecording, Note, Playhead, Start
from vtop.session.session import Session
from vtop.ui import driver
from vtop.ui.app import LoadControl, PricesSource, VtopApp
from vtop.ui.keys import KEYS, Key


def live(
    recording: LiveRecording,
    clock: Callable[[], float],
    begin: Callable[[], None],
    *,
    look: Look,
    window_s: float | None,
    hidden: frozenset[str],
    load: LoadControl | None = None,
    prices: PricesSource | None = None,
    keys: Sequence[Key] = KEYS,
) -> str:
    """Show a session while it is being recorded; why the screen was left. Raises SystemExit after a fault of vtop's.

    `begin` lets the sources go; `load` is vtop's own, for the keys that change it.
    """
    playhead = Playhead(clock, clock)
    app = VtopApp(recording, playhead, look, window_s=window_s, hidden=hidden, load=load, keys=keys, prices=prices)

    def died(thread: threading.ExceptHookArgs) -> None:
        """A source is lost, the session is not; a traceback now would go across the screen."""
        name = thread.thread.name if thread.thread is not None else "a thread"
        error = thread.exc_value or thread.exc_type()
        recording.append(Note(source="vtop", text=faults.put_down(error, f"in its thread {name}")))

    threading.excepthook, before = died, threading.excepthook
    try:
        begin()
        app.run()
    except Exception:  # a terminal that goes while the screen is put up or taken down is no fault
        if not driver.is_gone():
            raise
        return driver.GONE
    finally:
        threading.excepthook = before
    if app.return_code and not driver.is_gone():
        raise SystemExit(70)
    return driver.GONE if app.return_code else app.left


def replay(
    recording: FileRecording,
    look: Look,
    *,
    speed: float,
    at_s: float | None,
    window_s: float | None,
    hidden: frozenset[str],
    keys: Sequence[Key] = KEYS,
    prices: PricesSource | None = None,
) -> None:
    """Show a recording: from its beginning and moving, or standing at an instant."""
    session = Session(recording.start)
    playhead = Playhead(time.monotonic, lambda: session.end_s)
    app = VtopApp(
        recording, playhead, look, session=session, window_s=window_s, hidden=hidden, keys=keys, prices=prices
    )
    while app.take_in() and session.end_s <= (at_s or 0.0):
        pass
    if at_s is not None and at_s > session.end_s:
        raise VtopError(f"--at {units.clock(at_s)}: {recording.path} ends at {units.clock(session.end_s)}")
    playhead.pause()
    playhead.seek(at_s or 0.0)
    playhead.speed = speed
    if at_s is None:
        playhead.play()
    app.run()
    if app.return_code:
        raise SystemExit(70)


class _Finished:
    """A recording from which all has been taken."""

    def __init__(self, start: Start) -> None:
        self.start = start

    def take(self, limit: int = 0) -> list[AnyEvent]:
        return []


def film(
    session: Session, look: Look, *, instants_s: Sequence[float], size: tuple[int, int], window_s: float,
    hidden: frozenset[str],
) -> list[str]:  # fmt: skip
    """The screen at several instants, an SVG each."""
    from vtop.ui import screenshot

    playhead = Playhead(lambda: 0.0, lambda: session.end_s)
    playhead.seek(instants_s[0])
    playhead.play()  # by a clock that stands, from frame to frame
    app = VtopApp(_Finished(session.start), playhead, look, session=session, window_s=window_s, hidden=hidden)

    async def drawn() -> list[str]:
        pictures = []
        async with app.run_test(size=size) as pilot:
            for at_s in instants_s:
                playhead.seek(at_s)
                app.draw()
                await pilot.pause()
                pictures.append(screenshot.svg(app, f"vtop {units.clock(at_s)}"))
        return pictures

    return asyncio.run(drawn())


class _Once(VtopApp):
    """Two scrapes of a server that is not looked at any longer: nothing is live, and nothing grows."""

    def state_words(self, *, fresh: bool = True) -> str:
        return "○ once"


def still(
    session: Session, look: Look, *, now_s: float, size: tuple[int, int], window_s: float | None,
    hidden: frozenset[str], once: bool = False,
) -> tuple[str, str]:  # fmt: skip
    """The screen of one instant as SVG and as text. once: not of a recording; then the text has no keys."""
    from vtop.ui import screenshot

    playhead = Playhead(lambda: 0.0, lambda: session.end_s)
    if now_s < session.end_s:
        playhead.seek(now_s)
    kind = _Once if once else VtopApp
    app = kind(_Finished(session.start), playhead, look, session=session, window_s=window_s, hidden=hidden)

    async def drawn() -> tuple[str, str]:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            text = screenshot.text(app)
            if once:
                text = "\n".join(text.splitlines()[: size[1] - 1]).rstrip("\n") + "\n"
            return screenshot.svg(app, f"vtop {units.clock(now_s)}"), text

    return asyncio.run(drawn())
