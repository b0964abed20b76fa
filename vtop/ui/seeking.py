"""To an instant: by its time, from event to event, by a click on the row of time; and marks on the way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vtop import units
from vtop.draw.panels.timeline import Timeline
from vtop.errors import VtopError
from vtop.recording import FileRecording, Mark
from vtop.recording.marks_beside import add_mark
from vtop.ui.prompt import Prompt

if TYPE_CHECKING:
    from vtop.ui.app import VtopApp

NEAR_S = 0.05  # of an event: one stands at it


def timeline_of(app: VtopApp) -> Timeline | None:
    """Of a recording; a live session has its end at hand."""
    if app.live is not None:
        return None
    return Timeline(app.playhead.now(), app.session.end_s, app.session.landmarks())


def seek(app: VtopApp, at_s: float) -> None:
    """Stand there, or go on moving from there; at the end follow it."""
    if app.playhead.live:
        app.playhead.pause()
    app.playhead.seek(at_s)
    if app.playhead.now() < at_s:
        app.playhead.follow()
    app.draw()


def go_to(app: VtopApp) -> None:
    """Ask for a time, and go there."""

    def answered(text: str | None) -> None:
        if text is None or not text.strip():
            return
        try:
            at_s = instant(text, app.session.end_s)
        except ValueError as error:
            app.say(str(error), bad=True)
            return
        if at_s > app.session.end_s:
            app.say(f"{text} is behind the end at {units.clock(app.session.end_s)}", bad=True)
        else:
            seek(app, at_s)

    app.push_screen(Prompt("go to which time?", "2:30, 90s, 50%, or -30s from the end"), answered)


def instant(text: str, end_s: float) -> float:
    """Seconds of a session: a time, a share of it, or before its end. Raises ValueError with what was expected."""
    text = text.strip()
    if text.endswith("%"):
        try:
            ratio = float(text[:-1]) / 100
        except ValueError:
            ratio = -1.0
        if not 0 <= ratio <= 1:
            raise ValueError(f"{text} is no share: write 0% to 100%")
        return ratio * end_s
    if text.startswith(("-", "−")):
        return max(0.0, end_s - units.duration(text[1:]))
    return units.duration(text)


def next_event(app: VtopApp, direction: int) -> None:
    """To the next event (1) or the one before (-1), and stand there; it is reported what it is."""
    now_s = app.playhead.now()
    events = app.session.event_log(math.inf if app.live is None else app.session.end_s)
    if direction > 0:
        ahead = [event for event in events if event.at_s > now_s + NEAR_S]
        found = min(ahead, key=lambda event: event.at_s, default=None)
    else:
        behind = [event for event in events if event.at_s < now_s - NEAR_S]
        found = max(behind, key=lambda event: event.at_s, default=None)
    if found is None:
        app.say("no event after this one" if direction > 0 else "no event before this one")
        return
    app.playhead.pause()
    app.playhead.seek(found.at_s)
    app.clear_notifications()  # of the event before
    app.say(f"{units.clock(found.at_s)} {found.text}")
    app.draw()


def mark(app: VtopApp, text: str = "") -> None:
    """Mark the instant that is looked at: a live session's in its recording, a recording's in the file beside it."""
    if app.live is not None:
        app.live.append(Mark(text=text))
        app.catch_up()
        app.draw()
        return
    set_mark = Mark(t=round(app.playhead.now(), 6), text=text)
    app.session.mark(set_mark)
    path = app.recording.path if isinstance(app.recording, FileRecording) else None
    if path is not None:
        try:
            app.taken += 1  # it is read again with the file
            app.say(f"marked {units.clock(set_mark.t)}, in {add_mark(path, set_mark)}")
        except VtopError as error:
            app.say(str(error), bad=True)
    app.draw()


def name_mark(app: VtopApp) -> None:
    """Ask for the name of a mark, and set it."""

    def answered(text: str | None) -> None:
        if text is not None:
            mark(app, text.strip())

    app.push_screen(Prompt("mark this moment as what?", "before the new flag"), answered)
