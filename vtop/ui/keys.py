"""Every key: what it is bound to, how it is written, what it does: of bindings, help, palette and the last line.

A key's id is its name in the [keys] table of the settings: `mark = "k"`, `zoom-in = ["+", "z"]`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from textual.binding import Binding
from textual.keys import KEY_NAME_REPLACEMENTS

from vtop.draw.panels.registry import PANELS
from vtop.errors import VtopError


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


# The panels that a digit hides and shows, from 1 on; 0 is the last one.
BY_DIGIT: Final = ("requests", "kv", "gpus", "ttft", "tokens", "load", "latencies", "servers", "engines", "events")

KEYS: Final = (
    Key("quit", "q", "q", "quit", "quit"),
    Key("interrupt", "ctrl+c", "ctrl+c", "quit", "quit, from anywhere", priority=True),
    Key("suspend", "ctrl+z", "ctrl+z", "suspend_process", "suspend: to the shell; fg comes back", priority=True),
    Key("pause", "space", "space", "pause", "pause; go on"),
    Key("back", "left", "←", "scrub(-1)", "scroll back by a thirtieth of the window"),
    Key("forward", "right", "→", "scrub(1)", "scroll forward by a thirtieth of the window"),
    Key("far-back", "shift+left", "shift+←", "scrub(-10)", "scroll far back"),
    Key("far-forward", "shift+right", "shift+→", "scrub(10)", "scroll far forward"),
    Key("beginning", "home", "home", "beginning", "to the beginning"),
    Key("live", "end", "end", "follow", "to the end, and follow it: live"),
    Key("zoom-in", "plus,equals_sign", "+", "zoom(-1)", "zoom in: a shorter time window (also the mouse wheel)"),
    Key("zoom-out", "minus", "-", "zoom(1)", "zoom out: a longer time window"),
    Key("zoom-auto", "a", "a", "zoom_auto", "zoom by itself: the window grows with the session"),
    Key("slower", "left_square_bracket", "[", "speed(-1)", "replay slower"),
    Key("faster", "right_square_bracket", "]", "speed(1)", "replay faster"),
    Key("load-up", "full_stop,greater_than_sign", ">", "load(1)", "raise vtop's own load by a quarter"),
    Key("load-down", "comma,less_than_sign", "<", "load(-1)", "lower vtop's own load by a quarter"),
    Key("load-off", "x", "x", "load(0)", "stop vtop's own load: break it off"),
    Key("go-to", "g", "g", "go_to", "go to a time: 2:30, 90s, 50%"),
    Key("next-event", "n", "n", "event(1)", "go to the next event"),
    Key("event-before", "N", "N", "event(-1)", "go to the event before"),
    Key("mark", "m", "m", "mark", "mark this moment; of a recording in a file beside it"),
    Key("name-mark", "M", "M", "name_mark", "mark this moment with a name"),
    Key("record", "r", "r", "record", "record to a file, from the session's beginning; again to stop"),
    Key("picture", "s", "s", "picture", "screenshot: a picture of the screen, as SVG"),
    Key("png", "S", "S", "png", "screenshot: a picture of the screen, as PNG"),
    Key("copy-card", "c", "c", "copy_card", "copy ten lines that say how it stands, to the clipboard"),
    Key("copy-text", "y", "y", "copy_text", "copy the chosen panel as text, or the screen; ctrl+click copies a number"),
    Key("theme", "t", "t", "next_theme", "next theme"),
    Key("why", "w", "w", "why", "why it is as it is: what binds, and every analysis; again for all panels"),
    Key("next-panel", "tab", "tab", "choose(1)", "choose the next panel; a click chooses one"),
    Key("panel-before", "shift+tab", "shift+tab", "choose(-1)", "choose the panel before"),
    Key(
        "enlarge",
        "enter",
        "enter",
        "enlarge",
        "enlarge the chosen panel; of the servers the first alone; again for all",
    ),
    Key("shrink", "escape", "esc", "shrink", "all panels, none chosen; of one server alone back to all"),
    Key(
        "one-server",
        "slash",
        "/",
        "one_server",
        "find one of several servers; in a list with the whole body: rows that hold a text",
    ),
    Key("fleet", "f", "f", "fleet", "the table of all servers; again for all panels"),
    Key("row-up", "up", "↑", "row(-1)", "in the table of servers: the row above"),
    Key("row-down", "down", "↓", "row(1)", "in the table of servers: the row below; enter shows it alone"),
    Key("page-up", "pageup", "pgup", "page(-1)", "in the table of servers: a page up"),
    Key("page-down", "pagedown", "pgdn", "page(1)", "in the table of servers: a page down"),
    Key("order", "o", "o", "order", "in the table of servers: order by trouble, waiting, KV, TTFT, tok/s, age, name"),
    Key("group", "b", "b", "group", "in the table of servers: group by model, by a label, not at all"),
    Key("hide", "h", "h", "hide", "hide the chosen panel"),
    Key("show-all", "H", "H", "show_all", "show every panel that was hidden"),
    *(
        Key(
            f"panel-{at % 10}",
            f"{at % 10}",
            f"{at % 10}",
            f"hide_or_show('{name}')",
            f"hide or show {PANELS[name].title}",
        )
        for at, name in enumerate(BY_DIGIT, 1)
    ),
    Key("help", "question_mark", "?", "help", "what the chosen panel's numbers are; all numbers when none is chosen"),
    Key("palette", "ctrl+p", "ctrl+p", "command_palette", "find all of this by name", priority=True),
)

# The last line of the screen, by mode: ids of keys and what they do in a word; the first stay longest.
_ALWAYS: Final = (("quit", "quit"), ("help", "numbers"), ("why", "why"))
_FOOTERS: Final = {
    "live": (
        *_ALWAYS, ("pause", "pause"), ("zoom-in zoom-out", "zoom"), ("record", "record"), ("mark", "mark"),
        ("next-panel", "choose"), ("back forward", "scroll"), ("copy-card", "copy"), ("picture", "picture"),
        ("theme", "theme"), ("palette", "all"),
    ),
    "load": (
        *_ALWAYS, ("load-down load-up", "load"), ("load-off", "stop load"), ("pause", "pause"),
        ("zoom-in zoom-out", "zoom"), ("record", "record"), ("mark", "mark"), ("next-panel", "choose"),
        ("copy-card", "copy"), ("picture", "picture"), ("palette", "all"),
    ),
    "replay": (
        *_ALWAYS, ("pause", "pause"), ("back forward", "scroll"), ("slower faster", "speed"), ("go-to", "go to"),
        ("next-event event-before", "event"), ("zoom-in zoom-out", "zoom"), ("mark", "mark"), ("next-panel", "choose"),
        ("beginning", "begin"), ("live", "last"), ("copy-card", "copy"), ("picture", "picture"), ("theme", "theme"),
        ("palette", "all"),
    ),
    "fleet": (
        ("quit", "quit"), ("help", "numbers"), ("row-up row-down", "row"), ("enlarge", "one server"),
        ("one-server", "find"), ("order", "order"), ("group", "group"), ("pause", "pause"),
        ("back forward", "scroll"), ("zoom-in zoom-out", "zoom"), ("record", "record"), ("picture", "picture"),
        ("palette", "all"),
    ),
    "enlarged": (
        ("quit", "quit"), ("help", "numbers"), ("shrink", "all panels"), ("next-panel", "next panel"),
        ("pause", "pause"), ("back forward", "scroll"), ("zoom-in zoom-out", "zoom"), ("copy-text", "copy"),
        ("picture", "picture"), ("palette", "all"),
    ),
    "list": (
        ("quit", "quit"), ("help", "numbers"), ("one-server", "find"), ("shrink", "all panels"),
        ("next-panel", "next panel"), ("pause", "pause"), ("back forward", "scroll"), ("zoom-in zoom-out", "zoom"),
        ("copy-text", "copy"), ("picture", "picture"), ("palette", "all"),
    ),
}  # fmt: skip
_SHORT: Final = {"space": "␣", "ctrl+p": "^p", "-": "−"}


def short(face: str) -> str:
    """A key as the last line writes it."""
    return _SHORT.get(face, face)


def footers(keys: Collection[Key] = KEYS) -> dict[str, Sequence[tuple[str, str]]]:
    """The last line of each mode, as the keys are called."""
    faces = {key.id: short(key.face) for key in keys}
    return {
        mode: tuple((" ".join(faces[one] for one in ids.split()), does) for ids, does in named)
        for mode, named in _FOOTERS.items()
    }


FOOTERS: Final = footers()


def mapped(own: Mapping[str, object]) -> tuple[Key, ...]:
    """The keys, those of `own` as a person has them: id → a key or several. Raises VtopError."""
    known = {key.id for key in KEYS}
    for name in own.keys() - known:
        near = get_close_matches(name, known, 1)
        raise VtopError(f"[keys] {name}: there is no such key{f'; did you mean {near[0]!r}?' if near else ''}")
    found = []
    for key in KEYS:
        if (asked := own.get(key.id)) is not None:
            faces = asked if isinstance(asked, list) else [asked]
            if not faces or not all(isinstance(face, str) and face.strip() for face in faces):
                raise VtopError(f'[keys] {key.id}: write a key, such as "k", "f5" or "ctrl+k", or a list of them')
            key = replace(key, keys=",".join(map(spelled, map(str, faces))), face=str(faces[0]))  # noqa: PLW2901
        found.append(key)
    taken: dict[str, str] = {}
    for key in found:
        for one in key.keys.split(","):
            if (other := taken.setdefault(one, key.id)) != key.id:
                raise VtopError(f"[keys] {key.face} is bound to {other} and to {key.id}; give one of them another key")
    return tuple(found)


def spelled(face: str) -> str:
    """A key as Textual spells it: + is plus, ctrl+[ is ctrl+left_square_bracket."""
    head, _, last = face.strip().rpartition("+") if len(face.strip()) > 1 else ("", "", face.strip())
    if not last:  # ctrl++
        head, last = face.strip()[:-2], "+"
    if len(last) == 1 and not last.isalnum():
        name = unicodedata.name(last, last).lower().replace("-", "_").replace(" ", "_")
        last = KEY_NAME_REPLACEMENTS.get(name, name)
    return f"{head}+{last}" if head else last
