"""What the keys do and what every number is: the help screen, read from the tables of both."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from vtop.session.glossary.numbers import NUMBERS
from vtop.ui.keys import KEYS


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
            for key in KEYS:
                page.append(f"  {key.face:<11} {key.does}\n")
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
