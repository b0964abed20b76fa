"""What the keys do and what every number is: the help screen, read from the table of numbers."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from vtop.session.numbers import NUMBERS

KEYS = (
    ("q", "quit"),
    ("space", "pause; go on"),
    ("← →", "scrub (shift: far); home: beginning; end: live"),
    ("+ −", "zoom the time window"),
    ("[ ]", "slower, faster (replay)"),
    ("m", "mark this moment"),
    ("r", "record to a file, from the session's beginning; again to stop"),
    ("s", "picture of the screen as SVG"),
    ("t", "next theme"),
    ("tab, enter", "choose a panel, give it the whole screen"),
    ("?", "what the numbers of the chosen panel are; of all without one"),
    ("ctrl+p", "command palette"),
)


class HelpScreen(ModalScreen[None]):
    """Keys first, then every number: what it is, what it is made of, and where it misleads."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "close", id="close-help")]

    def __init__(self, panel: str | None) -> None:
        super().__init__()
        self._panel = panel

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self.page())

    def page(self) -> Text:
        page = Text()
        if self._panel is None:
            page.append("keys\n", "bold")
            for key, does in KEYS:
                page.append(f"  {key:<11} {does}\n")
            page.append("\n")
        of = {"gpus": "gpu"}.get(self._panel or "", self._panel)
        shown = [number for number in NUMBERS if of is None or number.panel == of]
        panel = None
        for number in shown:
            if number.panel != panel:
                panel = number.panel
                page.append(f"{panel}\n", "bold")
            page.append(f"  {number.name}", "bold")
            page.append(f"  {number.unit}\n", "dim")
            page.append(f"    {number.formula}\n")
            if number.caveat:
                page.append(f"    but: {number.caveat}\n", "italic")
            page.append(f"    from {number.source}; in JSON {number.field}\n", "dim")
        if not shown:
            page.append("nothing to explain here\n")
        page.append("\nesc closes", "dim")
        return page
