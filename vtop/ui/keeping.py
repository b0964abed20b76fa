"""What is kept of a screen: recordings and pictures, in the folder that vtop was started in; and the words for it."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vtop import units
from vtop.errors import VtopError
from vtop.free_name import free_name
from vtop.recording.recording_file import Saved

if TYPE_CHECKING:
    from vtop.ui.app import VtopApp


def record(app: VtopApp) -> None:
    """Begin a file that has the session from its beginning; again to end it."""
    live = app.live
    if live is None:
        app.say("this is a recording already", bad=True)
        return
    if live.path is not None and live.saving_to is not None:
        app.say(f"recording to {named(live.path)} until the end (--record)")
        return
    if live.saving_to is not None:
        if (saved := live.stop_saving()) is not None:
            app.say(said_of(saved))
    else:
        path = unused("jsonl")
        try:
            begins = live.save_to(path)
        except (VtopError, OSError) as error:
            app.say(str(error), bad=True)
            return
        app.say(f"recording to {named(path)}, {begins}; r again ends it")
    app.draw()


def picture(app: VtopApp) -> None:
    """The screen as an SVG."""
    from vtop.ui import screenshot

    path = unused("svg")
    try:
        path.write_text(screenshot.svg(app, f"vtop {units.clock(app.playhead.now())}"), encoding="utf-8")
    except OSError as error:
        path.unlink(missing_ok=True)  # half a picture would only be in the way
        app.say(f"{path}: {error.strerror}", bad=True)
        return
    app.say(f"saved {named(path)}")


def png(app: VtopApp) -> None:
    """The screen as a PNG; drawing it takes a second, so that is done beside the screen."""
    from vtop.ui import screenshot

    path, drawn = unused("png"), screenshot.svg(app, f"vtop {units.clock(app.playhead.now())}")

    def draw() -> None:
        try:
            path.write_bytes(screenshot.png(drawn))
        except OSError as error:
            path.unlink(missing_ok=True)
            app.call_from_thread(app.say, f"{path}: {error.strerror}", bad=True)
            return
        app.call_from_thread(app.say, f"saved {named(path)}")

    app.run_worker(draw, thread=True)


def copy_card(app: VtopApp) -> None:
    """Ten lines on how it stands, to the clipboard of the terminal (OSC 52), which may not take it."""
    from vtop.draw.card import card

    if app.scene is None:
        return
    recording = getattr(app.recording, "path", None)
    lines = card(app.scene.frame, recording.name if recording is not None else None)
    app.copy_to_clipboard("\n".join(lines) + "\n")
    app.say(f"copied {len(lines)} lines: {lines[1]}")


def copy_text(app: VtopApp) -> None:
    """The chosen panel as it stands on the screen, or all of the screen."""
    rows = app.board_text(app.chosen)
    app.copy_to_clipboard("\n".join(rows) + "\n")
    app.say(f"copied {app.chosen or 'the screen'}: {len(rows)} lines")


def said_of(saved: Saved) -> str:
    """What was saved, how long and how large it is, and how it is seen again."""
    return f"recorded {named(saved.path)}: {saved.words}; vtop replay {shlex.quote(str(saved.path))}"


def named(path: Path) -> str:
    """A file with its folder, as a person finds it again: run.jsonl in ~/runs."""
    try:
        folder = path.absolute().parent
    except OSError:  # the folder is gone
        return str(path)
    home = Path.home()
    shown = Path("~") / folder.relative_to(home) if folder.is_relative_to(home) else folder
    return f"{path.name} in {shown}"


def unused(ending: str) -> Path:
    """A name in this folder that tells when; a second one in the same second gets a number."""
    return free_name(Path(), time.strftime("vtop-%Y%m%d-%H%M%S"), f".{ending}")
