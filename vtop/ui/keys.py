"""Every key: what it is bound to, how it is written, what it does. Bindings, help and palette read this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Key:
    """`keys` as Textual spells them, `face` as a person does; `priority`: also while something else has the focus."""

    id: str
    keys: str
    face: str
    action: str
    does: str
    priority: bool = False

    def binding(self) -> Binding:
        return Binding(
            self.keys, self.action, self.does, key_display=self.face, show=False, priority=self.priority, id=self.id
        )


KEYS: Final = (
    Key("quit", "q", "q", "quit", "quit"),
    Key("interrupt", "ctrl+c", "ctrl+c", "quit", "quit, from anywhere", priority=True),
    Key("suspend", "ctrl+z", "ctrl+z", "suspend_process", "to the shell; fg comes back", priority=True),
    Key("pause", "space", "space", "pause", "pause; go on"),
    Key("back", "left", "←", "scrub(-1)", "back by a thirtieth of the window"),
    Key("forward", "right", "→", "scrub(1)", "forward by a thirtieth of the window"),
    Key("far-back", "shift+left", "shift+←", "scrub(-10)", "far back"),
    Key("far-forward", "shift+right", "shift+→", "scrub(10)", "far forward"),
    Key("beginning", "home", "home", "beginning", "to the beginning"),
    Key("live", "end", "end", "follow", "to the end, and follow it: live"),
    Key("zoom-in", "plus,equals_sign", "+", "zoom(-1)", "a shorter time window; the mouse wheel does it too"),
    Key("zoom-out", "minus", "-", "zoom(1)", "a longer time window"),
    Key("slower", "left_square_bracket", "[", "speed(-1)", "replay slower"),
    Key("faster", "right_square_bracket", "]", "speed(1)", "replay faster"),
    Key("load-up", "full_stop,greater_than_sign", ">", "load(1)", "raise vtop's own load by a quarter"),
    Key("load-down", "comma,less_than_sign", "<", "load(-1)", "lower vtop's own load by a quarter"),
    Key("load-off", "x", "x", "load(0)", "break vtop's own load off"),
    Key("mark", "m", "m", "mark", "mark this moment in the recording"),
    Key("record", "r", "r", "record", "record to a file, from the session's beginning; again to stop"),
    Key("picture", "s", "s", "picture", "picture of the screen, as SVG"),
    Key("theme", "t", "t", "next_theme", "next theme"),
    Key("why", "w", "w", "why", "why it is as it is: what binds, and every analysis; again for all panels"),
    Key("next-panel", "tab", "tab", "choose(1)", "choose the next panel; a click chooses one"),
    Key("panel-before", "shift+tab", "shift+tab", "choose(-1)", "choose the panel before"),
    Key("enlarge", "enter", "enter", "enlarge", "the chosen panel alone; again for all"),
    Key("shrink", "escape", "esc", "shrink", "all panels, none chosen"),
    Key("help", "question_mark", "?", "help", "what the chosen panel's numbers are; all numbers when none is chosen"),
    Key("palette", "ctrl+p", "ctrl+p", "command_palette", "find all of this by name", priority=True),
)

# The last line of the screen, by mode: the first keys stay longest.
_ALWAYS: Final = (("q", "quit"), ("?", "numbers"), ("w", "why"))
FOOTERS: Final = {
    "live": (
        *_ALWAYS, ("␣", "pause"), ("+ −", "zoom"), ("r", "record"), ("m", "mark"), ("tab", "choose"), ("← →", "scrub"),
        ("s", "picture"), ("t", "theme"), ("^p", "all"),
    ),
    "load": (
        *_ALWAYS, ("< >", "load"), ("x", "stop load"), ("␣", "pause"), ("+ −", "zoom"), ("r", "record"), ("m", "mark"),
        ("tab", "choose"), ("s", "picture"), ("^p", "all"),
    ),
    "replay": (
        *_ALWAYS, ("␣", "pause"), ("← →", "scrub"), ("[ ]", "speed"), ("+ −", "zoom"), ("tab", "choose"),
        ("home", "begin"), ("end", "last"), ("s", "picture"), ("t", "theme"), ("^p", "all"),
    ),
    "enlarged": (
        ("q", "quit"), ("?", "numbers"), ("esc", "all panels"), ("tab", "next panel"), ("␣", "pause"),
        ("← →", "scrub"), ("+ −", "zoom"), ("s", "picture"), ("^p", "all"),
    ),
}  # fmt: skip
