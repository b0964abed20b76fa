"""The screen: a session looked at through a playhead, live and replayed alike.

Nothing here computes a number. A tick takes what is new in the recording, folds it into the session, and hands the
frame at the playhead to the board.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Protocol

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.filter import LineFilter, NoColor
from textual.message import Message
from textual.reactive import var
from textual.screen import Screen
from textual.theme import Theme

from vtop import faults, units
from vtop.draw import layout
from vtop.draw import theme as looks
from vtop.draw.theme import Look, clean
from vtop.errors import VtopError
from vtop.recording import AnyEvent, LiveRecording, Mark, Note, Outage, Playhead, Recording, Scrape
from vtop.session.frame.frame import View
from vtop.session.session import Session
from vtop.ui import driver, screenshot, textual_private
from vtop.ui.board import Board, Scene
from vtop.ui.help import HelpScreen
from vtop.ui.keys import FOOTERS, KEYS

TICK_S = 0.25
APART_S = 0.5  # two drawings of a live session, at least: several servers answer at different moments
FOLD_FOR_S = 0.08  # a long file is taken in slices, so that keys answer meanwhile
SLICE = 500
GROWING_S = (30, 60, 120, 300)
WINDOWS_S = (30, 60, 120, 300, 600, 1800, 3600, 14400, 43200, 86400)
SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)


class Appended(Message, bubble=False):
    """There is something new in the recording."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Appended)


class LoadControl(Protocol):
    """vtop's own load, as far as the keys are concerned."""

    def change(self, direction: int) -> None:
        """Raise (1) or lower (-1) what it aims at."""

    def abort(self) -> None:
        """Break it off at once."""


class VtopApp(App[None]):
    """One session on the screen. `recording` may be live or a file; the app does not ask which."""

    CSS_PATH = "vtop.tcss"
    ENABLE_COMMAND_PALETTE = True
    TITLE = "vtop"

    BINDINGS: ClassVar[list[BindingType]] = [key.binding() for key in KEYS]

    scene: var[Scene | None] = var(None, init=False)
    look: var[Look | None] = var(None, init=False)
    chosen: var[str | None] = var(None, init=False)
    only: var[str | None] = var(None, init=False)

    def __init__(
        self,
        recording: Recording,
        playhead: Playhead,
        look: Look,
        *,
        session: Session | None = None,
        window_s: float | None = None,
        hidden: frozenset[str] = frozenset(),
        load: LoadControl | None = None,
    ) -> None:
        super().__init__(driver_class=textual_private.Terminal)
        self.recording = recording
        self.playhead = playhead
        self.session = session if session is not None else Session(recording.start)
        self._live = recording if isinstance(recording, LiveRecording) else None
        self._hidden = hidden
        self._load = load
        self._board = Board(hidden)
        self._window_s = window_s
        self._drawn_at_s = -1.0
        self._drawn_clock = 0.0
        self._news = False  # a scrape, or that there was none, has not been drawn
        self._faults_said: set[str] = set()
        self._troubles: list[str] = []  # of the recording, still to be said
        self.left = "quit"  # why the screen was left
        for name in looks.names():
            self.register_theme(chrome(looks.load(name)))
        self.set_reactive(VtopApp.look, look)
        self.theme = f"vtop-{look.name}"

    # --- the parts of the screen -----------------------------------------------------------------------------------

    def get_default_screen(self) -> textual_private.ExactScreen:
        return textual_private.ExactScreen()

    def get_line_filters(self) -> Sequence[LineFilter]:
        if self.look is not None and not self.look.colour:
            return [NoColor()]  # Textual's own answer to NO_COLOR is grey, which is colour codes again
        return super().get_line_filters()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what the keys do, by name, and every theme."""
        for key in KEYS:
            if key.id not in ("interrupt", "palette"):
                yield SystemCommand(key.does, f"key {key.face}", partial(self.run_action, key.action))
        for name in looks.names():
            yield SystemCommand(f"theme {name}", "colours", partial(setattr, self, "theme", f"vtop-{name}"))

    def compose(self) -> ComposeResult:
        yield self._board.data_bind(VtopApp.scene, VtopApp.look, VtopApp.chosen, VtopApp.only)

    def on_load(self) -> None:  # before the terminal is touched, so that it is always put back
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.leave, number.name)

    def on_mount(self) -> None:
        self.catch_up()
        self.set_interval(TICK_S, self.catch_up)
        self.app_resume_signal.subscribe(self, self._come_back)
        if self._live is not None:
            self._live.listen(self._hear)

    def _come_back(self, _: object) -> None:
        """After ctrl-z and fg: the terminal holds nothing of the screen any more."""
        self.refresh(layout=True)
        self.screen.refresh(layout=True, repaint=True)
        self._board.refresh()

    def on_unmount(self) -> None:
        if self._live is not None:
            self._live.listen(None)

    def _hear(self, event: AnyEvent) -> None:
        if isinstance(event, Scrape | Outage):
            self.post_message(Appended())

    def on_appended(self) -> None:
        """A scrape is seen when it is written, not a tick later."""
        self.catch_up()

    def on_board_resized(self) -> None:
        self.draw()

    # --- time ------------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Take what is new, four times a second, live and in replay alike. A fault is said; the next tick goes on."""
        try:
            self._catch_up()
        except Exception as error:
            self._say_fault(error)

    def _catch_up(self) -> None:
        if not self.is_headless and driver.is_gone():
            self.leave(driver.GONE)
            return
        began = time.monotonic()
        while self.take_in():
            if time.monotonic() - began > FOLD_FOR_S and self.session.end_s >= self.playhead.now():
                break
        self._say_troubles()
        now_s = self.playhead.now()
        moved = now_s != self._drawn_at_s
        if self.playhead.live and self._live is not None:
            since_s = began - self._drawn_clock  # time passes: the age of the data is news once a second
            moved = since_s >= 1.0 or (self._news and (since_s >= APART_S or not self._scrapes_seen()))
        if moved or self.scene is None:
            self.draw()

    def take_in(self) -> int:
        """Fold the next slice of the recording; how many events it had."""
        events = self.recording.take(SLICE)
        for event in events:
            self.session.apply(event)
            self._news = self._news or isinstance(event, Scrape | Outage)
            if isinstance(event, Note) and event.source in ("recording", "vtop"):
                self._troubles.append(event.text)
        return len(events)

    def _scrapes_seen(self) -> bool:
        return self.scene is not None and any(server.age_s is not None for server in self.scene.frame.servers)

    def draw(self) -> None:
        """Make the frame at the playhead and hand it to the board; where that fails, the one before stays."""
        try:
            self._draw()
        except Exception as error:
            self._say_fault(error)

    def _say_fault(self, error: Exception) -> None:
        said = faults.put_down(error, "at the screen")
        if said not in self._faults_said:
            self._faults_said.add(said)
            self.say(said, bad=True)

    def _draw(self) -> None:
        if not self._board.size:
            return
        now_s = self.playhead.now()
        view = View(window_s=self.window_s(), columns=layout.columns_for(self._board.size.width, self.only))
        self._drawn_at_s, self._drawn_clock, self._news = now_s, time.monotonic(), False
        frame = self.session.frame(now_s, view)
        mode = "replay" if self._live is None else "load" if self._load is not None else "live"
        self.scene = Scene(frame, self.state_words(fresh=frame.status.fresh), FOOTERS[mode])

    def window_s(self) -> float:
        """The window asked for; else one that grows with the history, so that the charts are full from early on."""
        if self._window_s is not None:
            return self._window_s
        return max(window_s for window_s in GROWING_S if window_s <= max(GROWING_S[0], self.playhead.now()))

    def state_words(self, *, fresh: bool = True) -> str:
        """What the playhead does, in a word or two; the data being old, nothing is called live."""
        at = units.clock(self.playhead.now())
        if self.playhead.live:
            if self._live is None:
                return f"■ end {at}" if self.session.finished else f"▶ growing {at}"
            if self._live.waits_for is not None:
                return f"○ not saved {at}"
            return f"● rec {at}" if self._live.saving_to else f"○ live {at}" if fresh else f"○ asking {at}"
        if self.playhead.paused:
            return f"‖ paused {at}"
        return f"▶ {self.playhead.speed:g}× {at}"

    # --- keys ------------------------------------------------------------------------------------------------------

    def action_pause(self) -> None:
        if self.playhead.live and self._live is None and self.session.finished:
            self.playhead.seek(0.0)
            self.playhead.play()
        else:
            self.playhead.toggle()
        self.draw()

    def action_scrub(self, steps: int) -> None:
        """Move the playhead by a thirtieth of the window; at the end it is live."""
        at_s = self.playhead.now() + steps * self.window_s() / 30
        if self.playhead.live:
            self.playhead.pause()
        self.playhead.seek(at_s)
        if self.playhead.now() < at_s:
            self.playhead.follow()
        self.draw()

    def action_beginning(self) -> None:
        if self.playhead.live:
            self.playhead.pause()
        self.playhead.seek(0.0)
        self.draw()

    def action_follow(self) -> None:
        self.playhead.follow()
        self.draw()

    def action_zoom(self, steps: int) -> None:
        nearest = min(range(len(WINDOWS_S)), key=lambda i: abs(WINDOWS_S[i] - self.window_s()))
        self._window_s = WINDOWS_S[max(0, min(len(WINDOWS_S) - 1, nearest + steps))]
        self.draw()

    def action_speed(self, steps: int) -> None:
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.playhead.speed))
        self.playhead.play(SPEEDS[max(0, min(len(SPEEDS) - 1, nearest + steps))])
        self.draw()

    def action_mark(self) -> None:
        if self._live is None:
            self.say("marks are made in a live session; this is a recording", bad=True)
            return
        self._live.append(Mark())
        self.catch_up()
        self.draw()

    def action_record(self) -> None:
        if self._live is None:
            self.say("this is a recording already", bad=True)
            return
        if self._live.path is not None and self._live.saving_to is not None:
            self.say(f"recording to {self._live.path} until the end (--record)")
            return
        if (path := self._live.saving_to) is not None:
            self._live.stop_saving()
            self.say(f"saved {path}")
        else:
            path = self._file_name("jsonl")
            try:
                begins = self._live.save_to(path)
            except (VtopError, OSError) as error:
                self.say(str(error), bad=True)
                return
            self.say(f"recording to {path}, {begins}")
        self.draw()

    def action_load(self, direction: int) -> None:
        """Raise, lower (1, -1) or break off (0) vtop's own load."""
        if self._load is None:
            self.say("there is no load to change: vtop --load c=64", bad=True)
        elif direction:
            self._load.change(direction)
        else:
            self._load.abort()

    def action_picture(self) -> None:
        path = self._file_name("svg")
        try:
            path.write_text(screenshot.svg(self, f"vtop {units.clock(self.playhead.now())}"), encoding="utf-8")
        except OSError as error:
            path.unlink(missing_ok=True)  # half a picture would only be in the way
            self.say(f"{path}: {error.strerror}", bad=True)
            return
        self.say(f"saved {path}")

    def action_next_theme(self) -> None:
        assert self.look is not None
        known = looks.names()
        after = known[(known.index(self.look.name) + 1) % len(known)]
        self.theme = f"vtop-{after}"

    def watch_theme(self, theme: str) -> None:
        """The palette's theme picker and the key t lead here."""
        name = theme.removeprefix("vtop-")
        if self.look is not None and name in looks.names() and name != self.look.name:
            self.look = looks.load(name, ascii=self.look.ascii, colour=self.look.colour)

    def action_choose(self, step: int) -> None:
        """Go to the next panel; behind the last one there is none, unless one has the whole body."""
        if self.only is not None:
            shown = [name for name in layout.body() if name not in self._hidden]
            self.only = self.chosen = shown[(shown.index(self.only) + step) % len(shown)]
            self.draw()
            return
        names: list[str | None] = [None, *self._board.panels()]
        at = names.index(self.chosen) if self.chosen in names else 0
        self.chosen = names[(at + step) % len(names)]

    def on_board_chosen(self, message: Board.Chosen) -> None:
        self.chosen = message.panel if message.panel in layout.body() else None

    def action_enlarge(self) -> None:
        """Give the chosen panel the whole body; again to give it back."""
        if self.chosen is None and self.only is None:
            self.say("choose a panel first: tab, or a click")
        self.only = self.chosen if self.only is None else None
        self.draw()

    def action_why(self) -> None:
        """Give the reasons the whole body; again to give it back."""
        self.only = self.chosen = None if self.only == "why" else "why"
        self.draw()

    def action_shrink(self) -> None:
        self.only = self.chosen = None
        self.draw()

    def action_help(self) -> None:
        self.push_screen(HelpScreen(self.chosen, *(server.kind for server in self.session.servers[:1])))

    def leave(self, why: str) -> None:
        self.left = why
        self.exit()

    def _say_troubles(self) -> None:
        if self._troubles:
            first, more = self._troubles[0], len(self._troubles) - 1
            self.say(first + (f" (and {more} more)" if more else ""), bad=True)
            self._troubles.clear()

    def say(self, text: str, *, bad: bool = False) -> None:
        self.notify(clean(text), severity="error" if bad else "information", markup=False)

    def _file_name(self, ending: str) -> Path:
        """A name that tells when; a second one in the same second gets a number."""
        stem = time.strftime("vtop-%Y%m%d-%H%M%S")
        path, number = Path(f"{stem}.{ending}"), 2
        while path.exists():
            path, number = Path(f"{stem}-{number}.{ending}"), number + 1
        return path


def chrome(look: Look) -> Theme:
    """Textual's own parts (toasts, help, palette) in the colours of a look."""
    colours = look.colours
    ansi = colours["background"] == "default"

    def shown(role: str) -> str:
        return f"ansi_{colours[role]}" if ansi else colours[role]

    return Theme(
        name=f"vtop-{look.name}",
        primary=shown("prefill"),
        secondary=shown("kv"),
        warning=shown("warn"),
        error=shown("bad"),
        success=shown("good"),
        accent=shown("decode"),
        foreground=shown("text"),
        background=shown("background"),
        surface=shown("panel"),
        panel=shown("panel"),
        dark=look.dark,
        ansi=ansi,
        variables={"ansi-background": "ansi_default", "ansi-foreground": "ansi_default"} if ansi else {},
    )
