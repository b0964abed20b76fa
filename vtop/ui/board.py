"""The board: the widget that shows the screen's drawing and repaints only the cells that changed.

It holds no history. What stands where is decided by draw/layout.py; here lines become strips, and the difference
between two drawings becomes the regions that the terminal is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.geometry import Region
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip
from textual.widget import Widget

from vtop.draw import layout
from vtop.draw.layout import Key, Place
from vtop.draw.panels.timeline import Timeline, instant_at
from vtop.draw.text import Line
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

_NUMBER: Final = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What there is to draw: the frame at the playhead, the playhead's state in words, and the keys to name."""

    frame: Frame
    state: str
    keys: Sequence[Key] = layout.KEYS
    time: Timeline | None = None  # of a recording
    holds: str = ""  # what rows were looked for


class Board(Widget):
    """Draws the scene for its own size. `chosen` is the panel picked by tab or mouse, `only` the enlarged one."""

    scene: var[Scene | None] = var(None, init=False)
    look: var[Look | None] = var(None, init=False)
    chosen: var[str | None] = var(None, init=False)
    only: var[str | None] = var(None, init=False)
    hidden: var[frozenset[str]] = var(frozenset[str](), init=False)

    class Chosen(Message):
        """A panel was clicked."""

        def __init__(self, panel: str) -> None:
            super().__init__()
            self.panel = panel

    class Picked(Message):
        """A number was clicked with ctrl held: its digits."""

        def __init__(self, number: str) -> None:
            super().__init__()
            self.number = number

    class Sought(Message):
        """An instant was clicked in the row of time."""

        def __init__(self, at_s: float) -> None:
            super().__init__()
            self.at_s = at_s

    class Pressed(Message):
        """A key was clicked in the last line: as it is written there."""

        def __init__(self, face: str) -> None:
            super().__init__()
            self.face = face

    class Resized(Message):
        """The scene was made for another size."""

    def __init__(self) -> None:
        super().__init__(id="board")
        self._drawn: list[tuple[Place, list[Line]]] = []
        self._rows: list[Line] = []

    def watch_scene(self) -> None:
        self.redraw()

    def watch_chosen(self) -> None:
        self.redraw()

    def watch_only(self) -> None:
        self.redraw()

    def watch_hidden(self) -> None:
        self.redraw()

    def watch_look(self) -> None:
        self._drawn = []
        self.redraw()

    def on_resize(self) -> None:
        self._drawn, self._rows = [], []
        self.post_message(self.Resized())

    def on_click(self, event: Click) -> None:
        for place, _ in self._drawn:
            if place.x <= event.x < place.x + place.width and place.y <= event.y < place.y + place.height:
                self.post_message(self.Chosen(place.panel))
                self._seek(place, event.x)
                if place.panel == "keys" and (face := self._face_at(event.x, event.y)) is not None:
                    self.post_message(self.Pressed(face))
        if event.ctrl and (number := number_at("".join(part.text for part in self._rows[event.y]), event.x)):
            self.post_message(self.Picked(number))

    def _face_at(self, x: int, y: int) -> str | None:
        """The key of the last line that is under the pointer: its face, or its word; of two the nearer one."""
        row = "".join(part.text for part in self._rows[y])
        for faces, does in self.scene.keys if self.scene is not None else ():
            begin = row.find(f"{self.look.say(faces) if self.look else faces} {does}")
            if begin >= 0 and begin <= x < begin + len(faces) + 1 + len(does):
                both = faces.split()
                return both[min(len(both) - 1, max(0, x - begin) // 2)] if x < begin + len(faces) else both[0]
        return None

    def _seek(self, place: Place, x: int) -> None:
        time = self.scene.time if self.scene is not None else None
        if place.panel == "timeline" and time is not None:
            at_s = instant_at(time.end_s, place.width, x - place.x)
            if at_s is not None:
                self.post_message(self.Sought(at_s))

    async def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        await self.run_action("app.zoom(-1)")

    async def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        await self.run_action("app.zoom(1)")

    def panels(self) -> list[str]:
        """The panels on the screen, in the order of reading."""
        return [place.panel for place, _ in self._drawn if place.heading or place.panel in layout.body()]

    def text(self, panel: str | None = None) -> list[str]:
        """The lines of a panel as it stands here, or of all, without trailing blanks."""
        found = [lines for place, lines in self._drawn if place.panel == panel] or [self._rows]
        return ["".join(part.text for part in row).rstrip() for lines in found for row in lines]

    def redraw(self) -> None:
        """Draw anew, and ask for those cells that are not as they were."""
        width, height = self.size
        if self.scene is None or self.look is None or width < 1 or height < 1:
            return
        before = self._drawn
        self._drawn = layout.drawn(
            self.scene.frame,
            width,
            height,
            self.look,
            state=self.scene.state,
            keys=self.scene.keys,
            hidden=self.hidden,
            only=self.only,
            chosen=self.chosen,
            time=self.scene.time,
            holds=self.scene.holds,
        )
        self._rows = layout.assembled(self._drawn, width, height, self.look)
        if [place for place, _ in before] != [place for place, _ in self._drawn]:
            self.refresh()
            return
        regions = [
            Region(place.x + span[0], place.y + y, span[1] - span[0], 1)
            for (place, new_lines), (_, old_lines) in zip(self._drawn, before, strict=True)
            for y, (new, old) in enumerate(zip(new_lines, old_lines, strict=True))
            if (span := changed_span(old, new, place.width)) is not None
        ]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        assert self.look is not None or y >= len(self._rows)
        if self.look is None or y >= len(self._rows):
            return Strip.blank(self.size.width, Style.null())
        styled = Segment.apply_style(self._rows[y], self.look.page)
        whole = [Segment(text, style or Style.null()) for text, style, _ in styled]  # Textual's filters need a style
        joined = Segment.simplify(whole)
        return Strip(joined, self.size.width)


def number_at(row: str, x: int) -> str | None:
    """The number that stands at a cell of a row, without the commas between its digits; None where none does."""
    cells = 0
    for at, character in enumerate(row):
        cells += cell_len(character)
        if cells > x:
            found = next((one for one in _NUMBER.finditer(row) if one.start() <= at < one.end()), None)
            return found[0].replace(",", "").replace("−", "-") if found is not None else None
    return None


def changed_span(old: Sequence[Segment], new: Sequence[Segment], width: int) -> tuple[int, int] | None:
    """The first cell in which two lines differ and the one behind the last; None when they do not."""
    if old == new:
        return None
    begin = _same_cells(old, new, backwards=False)
    end = width - _same_cells(old, new, backwards=True)
    return (begin, max(end, begin + 1)) if begin < width else None


def _same_cells(one: Sequence[Segment], other: Sequence[Segment], *, backwards: bool) -> int:
    """How many cells the lines share at one end: whole segments, then single-cell characters of one style."""
    step = -1 if backwards else 1
    cells = 0
    for a, b in zip(one[::step], other[::step], strict=False):
        if a == b:
            cells += a.cell_length
            continue
        if a.style == b.style and a.text.isascii() and b.text.isascii():
            for x, y in zip(a.text[::step], b.text[::step], strict=False):
                if x != y:
                    break
                cells += 1
        break
    return cells
