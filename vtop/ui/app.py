"""The screen: a session looked at through a playhead, live and replayed alike.

Nothing here computes a number. A tick takes what is new in the recording, folds it into the session, and hands the
frame at the playhead to the board.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Protocol

from textual.actions import ActionParseResult
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.dom import DOMNode
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
from vtop.recording import AnyEvent, LiveRecording, Note, Outage, Playhead, Recording, Scrape
from vtop.server_kinds import registry
from vtop.session.bottleneck.priced import with_prices
from vtop.session.frame.fleet import FleetView
from vtop.session.frame.frame import View
from vtop.session.frame.prices import Prices
from vtop.session.session import Session
from vtop.ui import drilling, driver, fleets, keeping, remembered, rows, seeking, textual_private
from vtop.ui.board import Board, Scene
from vtop.ui.help import HelpScreen
from vtop.ui.keys import BY_DIGIT, KEYS, Key, footers, short

TICK_S = 0.25
AGE_S = 1.25  # the age of the data moves on at least so often; a scrape a second comes before
CHARTS_MOVE_S = 2.0  # a chart that moves on is a chart drawn anew: most of what a terminal is sent
APART_S = 0.5  # two drawings of a live session, at least: several servers answer at different moments
FOLD_FOR_S = 0.08  # a long file is taken in slices, so that keys answer meanwhile
SLICE = 500
UNTIL_CLICKED_S = 86400.0  # what a toast stands that must not be missed
THEME_LOOK_S = 1.0
GROWING_S = (30, 60, 120, 300)
WINDOWS_S = (30, 60, 120, 300, 600, 1800, 3600, 14400, 43200, 86400)
SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)


class Appended(Message, bubble=False):
    """There is something new in the recording."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Appended)


class LoadControl(Protocol):
    """vtop's own load, as far as the keys are concerned."""

    failed: str | None  # why it could not be, or not go on
    finished: threading.Event  # nothing more will be sent

    def change(self, direction: int) -> bool:
        """Raise (1) or lower (-1) what it aims at; False where nothing is sent now."""

    def abort(self) -> None:
        """Break it off at once."""


class PricesSource(Protocol):
    """The prices of a recording's loads, as they are made beside the screen."""

    @property
    def made(self) -> int:
        """Of how many loads there are prices."""

    def of(self, phase: int | None) -> Prices | None:
        """phase: of vtop's own load; None: of a load that was watched."""

    def asked(self, now_s: float) -> None:
        """Somebody looks at them."""


class VtopApp(textual_private.OneLineApp):
    """One session on the screen. `recording` may be live or a file; the app does not ask which."""

    CSS_PATH = "vtop.tcss"
    ENABLE_COMMAND_PALETTE = True
    TITLE = "vtop"

    BINDINGS: ClassVar[list[BindingType]] = [key.binding() for key in KEYS]

    scene: var[Scene | None] = var(None, init=False)
    look: var[Look | None] = var(None, init=False)
    chosen: var[str | None] = var(None, init=False)
    only: var[str | None] = var(None, init=False)
    hidden: var[frozenset[str]] = var(frozenset[str](), init=False)

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
        keys: Sequence[Key] = KEYS,
        prices: PricesSource | None = None,
    ) -> None:
        super().__init__(driver_class=textual_private.Terminal)
        self.recording = recording
        self.playhead = playhead
        self.session = session if session is not None else Session(recording.start)
        self.live = recording if isinstance(recording, LiveRecording) else None
        self._load = load
        self._board = Board()
        self._keys = keys
        self._footers = footers(keys)
        self._theme_file: tuple[str, int] | None = None  # the theme's name and when its file was written
        self._prices, self._priced = prices, 0  # of how many loads they were drawn
        self.set_reactive(VtopApp.hidden, hidden)
        self._window_s = window_s
        self._drawn_at_s = -1.0
        self._drawn_clock = 0.0
        self._held = False  # a frame was not drawn, because the line to the terminal was behind
        self._news = False  # a scrape, or that there was none, has not been drawn
        self._faults_said: set[str] = set()
        self.taken = 0  # events of the recording
        self.drilled: drilling.Drilled | drilling.Shared | None = None  # one server of several, alone on the screen
        self.kept_from_s = 0.0  # from when on a live session of many servers still has their numbers
        self.settled = False  # what stays for good has been put out of the garbage collector's way
        self.holds = ""  # what the rows of the list that has the body are to hold
        self.table = FleetView()  # of servers, with the whole body: what of it is looked at
        self._load_failed = False  # and it has been said
        self._troubles: list[str] = []  # of the recording, still to be said
        self.left = "quit"  # why the screen was left
        for name in looks.names():
            with contextlib.suppress(VtopError):  # one's own that is not whole: --theme says what is wrong with it
                self.register_theme(chrome(looks.load(name)))
        self.set_reactive(VtopApp.look, look)
        if len(self.session.servers) >= fleets.FROM:
            self.set_reactive(VtopApp.only, "servers")
            self.set_reactive(VtopApp.chosen, "servers")
        self.theme = f"vtop-{look.name}"

    # --- the parts of the screen -----------------------------------------------------------------------------------

    def watch_only(self) -> None:
        self.holds = ""

    def validate_only(self, only: str | None) -> str | None:
        """What cannot be shown of so many servers leaves their table where it is."""
        return only if fleets.may_show(self, only) else "servers"

    def get_default_screen(self) -> textual_private.ExactScreen:
        return textual_private.ExactScreen()

    def get_line_filters(self) -> Sequence[LineFilter]:
        if self.look is not None and not self.look.colour:
            return [NoColor()]  # Textual's own answer to NO_COLOR is grey, which is colour codes again
        return super().get_line_filters()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what the keys do, by name, and every theme."""
        for key in self._keys:
            if key.id not in ("interrupt", "palette"):
                yield SystemCommand(key.does, f"key {key.face}", partial(self.run_action, key.action))
        for panel in layout.body():
            title = layout.title(panel)
            if panel not in BY_DIGIT:
                yield SystemCommand(f"hide or show {title}", "panel", partial(self.action_hide_or_show, panel))
            yield SystemCommand(f"enlarge {title}", "panel", partial(self.show_only, panel))
        for name in looks.names():
            yield SystemCommand(f"theme {name}", "colours", partial(self.take_theme, name))

    def compose(self) -> ComposeResult:
        yield self._board.data_bind(VtopApp.scene, VtopApp.look, VtopApp.chosen, VtopApp.only, VtopApp.hidden)

    def on_load(self) -> None:  # before the terminal is touched, so that it is always put back
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.leave, number.name)

    def on_mount(self) -> None:
        self.set_keymap({key.id: key.keys for key in self._keys if key not in KEYS})
        self.set_interval(THEME_LOOK_S, self.look_at_theme)
        self.catch_up()
        self.set_interval(TICK_S, self.catch_up)
        self.app_resume_signal.subscribe(self, self._come_back)
        if self.live is not None and len(self.session.servers) < fleets.FROM:  # else one by one is too often
            self.live.listen(self._hear)

    def _come_back(self, _: object) -> None:
        """After ctrl-z and fg: the terminal holds nothing of the screen any more."""
        self.refresh(layout=True)
        self.screen.refresh(layout=True, repaint=True)
        self._board.refresh()

    def on_unmount(self) -> None:
        if self.live is not None:
            self.live.listen(None)

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
        if self.live is not None:
            self.session.bound()
        if self._load is not None and self._load.failed is not None and not self._load_failed:
            self._load_failed = True
            self.say(f"the load does not run: {self._load.failed}", bad=True, for_s=UNTIL_CLICKED_S)
        now_s = self.playhead.now()
        if self._prices is not None and self.only == "why":
            self._prices.asked(now_s)
        moved = now_s != self._drawn_at_s or (self._prices is not None and self._prices.made != self._priced)
        since_s, apart_s = began - self._drawn_clock, fleets.APART_S if fleets.shown(self) else APART_S
        if fleets.shown(self) and since_s * self.playhead.speed < apart_s:
            moved = False  # on its way: a frame of so many takes long
        if self.playhead.live and self.live is not None:  # time passes: the age of the data is news
            moved = since_s >= AGE_S or (self._news and (since_s >= apart_s or not self._scrapes_seen()))
        due = moved or self._held or self.scene is None
        if due:
            self.draw()
        if fleets.shown(self) and (self._held or not due):  # else a key would wait for both
            fleets.prepare(self)

    def take_in(self) -> int:
        """Fold the next slice of the recording; how many events it had."""
        events = self.recording.take(SLICE)
        self.taken += len(events)
        for event in events:
            self.session.apply(event)
            if self.drilled is not None:
                self.drilled.take(event)
            self._news = self._news or isinstance(event, Scrape | Outage)
            if isinstance(event, Note) and event.source in ("recording", "vtop"):
                self._troubles.append(event.text)
        return len(events)

    def _scrapes_seen(self) -> bool:
        return self.scene is not None and any(server.age_s is not None for server in self.scene.frame.servers)

    def draw(self, *, again: bool = False) -> None:
        """Make the frame at the playhead and hand it to the board; where that fails, the one before stays. again: the
        instant that was drawn last, looked at otherwise."""
        try:
            self._draw(self._drawn_at_s if again and self._drawn_at_s >= 0 else self.playhead.now())
        except Exception as error:
            self._say_fault(error)

    def _say_fault(self, error: Exception) -> None:
        said = faults.put_down(error, "at the screen")
        if said not in self._faults_said:
            self._faults_said.add(said)
            self.say(said, bad=True)

    def _draw(self, now_s: float) -> None:
        if not self._board.size:
            return
        if isinstance(terminal := self._driver, textual_private.Terminal):
            self._held = self.scene is not None and terminal.behind()
            if self._held:
                return  # a later frame takes its place
            self.call_after_refresh(terminal.frame_is_written)
        columns = layout.columns_for(self._board.size.width, self.only)
        step = layout.step_for(self.window_s(), columns, CHARTS_MOVE_S)
        holds = self.holds if self.only in rows.LISTS else ""
        view = View(self.window_s(), columns, buckets=self.only == "latencies", stacked=False, step=step, holds=holds)
        if fleets.shown(self):
            view = fleets.view_of(self, view, self._board.size)
        self._drawn_at_s, self._drawn_clock, self._news = now_s, time.monotonic(), False
        frame = (self.session if self.drilled is None else self.drilled.session).frame(now_s, view)
        if self._prices is not None:
            self._priced = self._prices.made
            if self.drilled is None:
                frame = with_prices(frame, self._prices.of(frame.load.phase if frame.load is not None else None))
        if frame.fleet is not None:
            self.table = fleets.as_drawn(self.table, frame.fleet)
        mode = "replay" if self.live is None else "live"
        if self._load is not None and not self._load.finished.is_set():
            mode = "load"
        if frame.fleet is not None:
            mode = "fleet"
        elif self.only is not None:
            mode = "list" if self.only in rows.LISTS else "enlarged"
        keys = self._footers[mode]
        if self.hidden and self.only is None:  # a digit pressed by mistake, or last week
            keys = (*keys[:3], (self.face_of("show-all"), f"show {len(self.hidden)} hidden"), *keys[3:])
        self.scene = Scene(frame, self.state_words(fresh=frame.status.fresh), keys, seeking.timeline_of(self), holds)

    def window_s(self) -> float:
        """The window asked for; else one that grows with the history, so that the charts are full from early on."""
        if self._window_s is not None:
            return self._window_s
        return max(window_s for window_s in GROWING_S if window_s <= max(GROWING_S[0], self.playhead.now()))

    def state_words(self, *, fresh: bool = True) -> str:
        """What the playhead does, in a word or two; the data being old, nothing is called live.

        On a slow line also how much older than it says the screen is by the time that it is seen.
        """
        terminal, words = self._driver, self._playhead_words(fresh)
        if self.drilled is not None:
            words = f"server {self.drilled.server + 1} of {len(self.session.servers)} · {words}"
        if isinstance(terminal, textual_private.Terminal) and terminal.line.slow:
            words = f"slow line +{units.seconds(terminal.line.late_s)} · {words}"
        return words

    def _playhead_words(self, fresh: bool) -> str:
        at = units.clock(self.playhead.now())
        if self.playhead.live:
            if self.live is None:
                return f"■ end {at}" if self.session.finished else f"▶ growing {at}"
            if self.live.waits_for is not None:
                return f"○ not saved {at}"
            return f"● rec {at}" if self.live.saving_to else f"○ live {at}" if fresh else f"○ asking {at}"
        if self.playhead.paused:
            return f"‖ paused {at}"
        return f"▶ {self.playhead.speed:g}× {at}"

    # --- keys ------------------------------------------------------------------------------------------------------

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """A key whose action fails says so; the watching goes on."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            self._say_fault(error)
            return True

    def action_pause(self) -> None:
        if self.playhead.live and self.live is None and self.session.finished:
            self.playhead.seek(0.0)
            self.playhead.play()
        else:
            self.playhead.toggle()
        self.draw(again=fleets.shown(self))  # of many servers the instant itself comes with the next drawing

    def action_scrub(self, steps: int) -> None:
        """Move the playhead by a thirtieth of the window; at the end it is live."""
        seeking.seek(self, self.playhead.now() + steps * self.window_s() / 30)

    def action_go_to(self) -> None:
        seeking.go_to(self)

    def action_event(self, direction: int) -> None:
        seeking.next_event(self, direction)

    async def on_board_pressed(self, message: Board.Pressed) -> None:
        for key in self._keys:
            if short(key.face) == message.face:
                await self.run_action(key.action)
                return

    def on_board_sought(self, message: Board.Sought) -> None:
        seeking.seek(self, message.at_s)

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
        remembered.keep(window_s=float(self._window_s))
        self.draw()

    def action_zoom_auto(self) -> None:
        self._window_s = None
        remembered.keep(window_s=None)
        self.draw()

    def action_speed(self, steps: int) -> None:
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.playhead.speed))
        self.playhead.play(SPEEDS[max(0, min(len(SPEEDS) - 1, nearest + steps))])
        self.draw()

    def action_mark(self) -> None:
        seeking.mark(self)

    def action_name_mark(self) -> None:
        seeking.name_mark(self)

    def action_record(self) -> None:
        keeping.record(self)

    def action_load(self, direction: int) -> None:
        """Raise, lower (1, -1) or break off (0) vtop's own load."""
        if self._load is None:
            self.say("there is no load to change: vtop --load c=64", bad=True)
        elif direction:
            if not self._load.change(direction):
                over = self._load.finished.is_set()
                self.say("the load is over; begin again with vtop --load" if over else "no load is sent now", bad=True)
        else:
            self._load.abort()

    def action_picture(self) -> None:
        keeping.picture(self)

    def action_png(self) -> None:
        keeping.png(self)

    def action_copy_card(self) -> None:
        keeping.copy_card(self)

    def action_copy_text(self) -> None:
        keeping.copy_text(self)

    def on_board_picked(self, message: Board.Picked) -> None:
        self.copy_to_clipboard(message.number)
        self.say(f"copied {message.number}")

    def action_next_theme(self) -> None:
        assert self.look is not None
        known = [name for name in looks.names() if f"vtop-{name}" in self.available_themes]
        self.take_theme(known[(known.index(self.look.name) + 1) % len(known)])

    def take_theme(self, name: str) -> None:
        self.theme = f"vtop-{name}"
        remembered.keep(theme=name)

    def watch_theme(self, theme: str) -> None:
        """The palette's theme picker and the key t lead here."""
        name = theme.removeprefix("vtop-")
        if self.look is not None and name in looks.names() and name != self.look.name:
            self.look = looks.load(name, ascii=self.look.ascii, colour=self.look.colour)

    def look_at_theme(self) -> None:
        """A theme's file that is written anew is seen at once; one that is wrong is reported and changes nothing."""
        if self.look is None:
            return
        name = self.look.name
        with contextlib.suppress(OSError):
            at = (name, looks.path_of(name).stat().st_mtime_ns)
            before, self._theme_file = self._theme_file, at
            if before is None or before[0] != name or before == at:
                return
            try:
                self.look = looks.load(name, ascii=self.look.ascii, colour=self.look.colour)
            except VtopError as error:
                self.say(str(error), bad=True)
                return
            self.register_theme(chrome(self.look))
            self.refresh_css(animate=False)

    def action_choose(self, step: int) -> None:
        """Go to the next panel; behind the last one there is none, unless one has the whole body."""
        if fleets.shown(self) and len(self.session.servers) > fleets.MOST_ADDED_UP:
            return  # there is no other
        if self.only is not None:
            shown = [name for name in layout.body() if name not in self.hidden]
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
        if fleets.shown(self) or (self.chosen == "servers" and self.drilled is None and self.only is None):
            drilling.into(self, drilling.worst(self))
            return
        if self.chosen is None and self.only is None:
            self.say("choose a panel first: tab, or a click")
        self.only = self.chosen if self.only is None else None
        self.draw()

    def action_why(self) -> None:
        """Give the reasons the whole body; again to give it back."""
        self.only = self.chosen = None if self.only == "why" else "why"
        self.draw()

    def board_text(self, panel: str | None) -> list[str]:
        """The lines of a panel, or of the whole screen, without colours and trailing blanks."""
        return self._board.text(panel)

    def show_only(self, panel: str) -> None:
        self.only = self.chosen = panel
        self.draw()

    def action_hide_or_show(self, panel: str) -> None:
        """Hide a panel, or show it again; the next screen begins with those that are shown now."""
        if hiding := panel not in self.hidden:
            self.hidden |= {panel}
        else:
            self.hidden -= {panel}
        if self.chosen == panel and hiding:
            self.only = self.chosen = None
        remembered.keep(hidden=tuple(sorted(self.hidden)))
        face = next((key.face for key in self._keys if key.action == f"hide_or_show('{panel}')"), None)
        if hiding:
            self.say(f"{layout.title(panel)}: hidden{f'; {face} shows it again' if face else ''}")
        self.draw()

    def action_hide(self) -> None:
        if self.chosen is None:
            self.say("choose a panel first: tab, or a click; or press its digit")
        else:
            self.action_hide_or_show(self.chosen)

    def action_show_all(self) -> None:
        self.hidden = frozenset()
        remembered.keep(hidden=())
        self.draw()

    def action_shrink(self) -> None:
        if self.only is None and self.chosen is None and self.drilled is not None:
            drilling.into(self, None)
            return
        if (fleets.shown(self) and not fleets.given_up(self)) or rows.given_up(self):
            return
        self.only = self.chosen = None
        self.draw()

    def action_one_server(self) -> None:
        if fleets.shown(self):
            fleets.find(self)
        elif self.only in rows.LISTS:
            rows.find(self)
        else:
            drilling.ask(self)

    def action_row(self, step: int) -> None:
        """Choose another row of the table of servers."""
        fleets.choose(self, step)

    def action_page(self, step: int) -> None:
        fleet = fleets.drawn(self)
        fleets.choose(self, step * max(1, len(fleet.rows) - 1) if fleet is not None else 0)

    def action_order(self) -> None:
        fleets.order(self)

    def action_group(self) -> None:
        fleets.group(self)

    def action_fleet(self) -> None:
        fleets.show(self)

    def face_of(self, key_id: str) -> str:
        """What is pressed for a key of the table."""
        return next(key.face for key in self._keys if key.id == key_id)

    def action_help(self) -> None:
        kind = next((server.kind for server in self.session.servers), registry.DEFAULT)
        self.push_screen(HelpScreen(self.chosen, kind, self._keys))

    def leave(self, why: str) -> None:
        self.left = why
        self.exit()

    def _say_troubles(self) -> None:
        if self._troubles:
            first, more = self._troubles[0], len(self._troubles) - 1
            self.say(first + (f" (and {more} more)" if more else ""), bad=True)
            self._troubles.clear()

    def say(self, text: str, *, bad: bool = False, for_s: float | None = None) -> None:
        self.notify(clean(text), severity="error" if bad else "information", markup=False, timeout=for_s)


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
