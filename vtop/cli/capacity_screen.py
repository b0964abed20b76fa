"""A measured search of capacity under the live screen: the search has a thread of its own, the screen the terminal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vtop.cli.common import echo, view_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.sources.attach import Attachment

LOOK = ("hide", "theme", "ascii_only", "window_s")  # as on the last screen


def on_screen(attachment: Attachment, conduct: Callable[[], None], stop: Callable[[], None]) -> None:
    """Until the screen is left; what goes on of the search is stopped then. Raises VtopError where it could not go on.

    conduct: the search, to its end; stop: makes it return soon.
    """
    from vtop.recording import Note
    from vtop.ui import keeping, run

    failed: list[VtopError] = []

    def search() -> None:
        try:
            conduct()
        except VtopError as error:
            failed.append(error)
            attachment.recording.append(Note(source="vtop", text=str(error)))

    def interrupted(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    view = view_of(dict.fromkeys(LOOK))
    thread = threading.Thread(target=search, name="search", daemon=True)

    def begin() -> None:
        attachment.start()
        thread.start()

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in ends:  # the screen takes them over as soon as it is up
        signal.signal(number, interrupted)
    left = "broken off"
    try:
        left = run.live(attachment.recording, attachment.clock, begin, **view)
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        stop()
        if thread.ident is not None:
            thread.join()
        attachment.stop(left)
        with contextlib.suppress(OSError):  # the terminal may be gone
            for saved in attachment.recording.saved:
                echo(keeping.said_of(saved), err=True)
    if failed:
        raise failed[0]
