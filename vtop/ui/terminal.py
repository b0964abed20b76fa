"""Sends the terminal only the cells that changed.

Textual crops an update at the right edge of a changed region and sends the line from the widget's left edge on; over
SSH that is most of what vtop would send. This screen crops on both sides.
"""

from __future__ import annotations

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor
from textual.screen import Screen


class ExactUpdate(ChopsUpdate):
    """An update whose spans are sent from their first cell to their last."""

    def render_segments(self, console: Console) -> str:
        sequences: list[str] = []
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                begin = max(x, x1)
                sequences.append(Control.move_to(begin, y).segment.text)
                sequences.append(strip.crop(begin - x, min(end, x2) - x).render(console))
        return "".join(sequences)


class ExactCompositor(Compositor):
    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return ExactUpdate(update.chops, update.spans, update.chop_ends) if update is not None else None


class ExactScreen(Screen[None]):
    """A screen that is repainted cell by cell."""

    def __init__(self) -> None:
        super().__init__(id="_default")
        self._compositor: Compositor = ExactCompositor()
