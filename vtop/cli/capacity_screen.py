"""A measured search of capacity under the live screen: the search has a thread of its own, the screen the terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from vtop.cli.common import screen_over, signals_end, view_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.sources.attach import Attachment

LOOK = ("hide", "theme", "ascii_only", "window_s")  # as on the last screen


def on_screen(attachment: Attachment, conduct: Callable[[], None], stop: Callable[[], None]) -> None:
    """Until the screen is left; what goes on of the search is stopped then. Raises VtopError where it could not go on.

    conduct: the search, to its end; stop: makes it return soon.
    """
    from vtop.recording import Note
    from vtop.ui import run

    failed: list[VtopError] = []

    def search() -> None:
        try:
            conduct()
        except VtopError as error:
            failed.append(error)
            attachment.recording.append(Note(source="vtop", text=str(error)))

    view = view_of(dict.fromkeys(LOOK))
    thread = threading.Thread(target=search, name="search", daemon=True)

    def begin() -> None:
        attachment.start()
        thread.start()

    def over() -> None:
        stop()
        if thread.ident is not None:
            thread.join()

    signals_end()
    left = "broken off"
    try:
        left = run.live(attachment.recording, attachment.clock, begin, **view)
    finally:
        screen_over(attachment, left, over)
    if failed:
        raise failed[0]
