"""What the keys do and what every number is: the help screen, read from the tables of both."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from vtop.server_kinds import registry
from vtop.server_kinds.kind import ServerKind
from vtop.session.glossary.numbers import NUMBERS
from vtop.ui.keys import KEYS, Key


class HelpScreen(ModalScreen[None]):
    """Keys first, then every number: what it is, what it is made of, and where it misleads."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "close", id="close-help")]

    def __init__(self, panel: str | None, kind: ServerKind = registry.DEFAULT, keys: Collection[Key] = KEYS) -> None:
        super().__init__()
        self._keys = keys
        self._panel = panel
        self._kind = kind

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self.page())

    def page(self) -> Text:
        page = Text()
        if self._panel is None:
            page.append("keys\n", "bold")
            for key in self._keys:
                page.append(f"  {key.face:<11} {key.does}\n")
            page.append("\n")
        shown = [number for number in NUMBERS if self._panel is None or number.panel == self._panel]
        panel = None
        for number in shown:
            if number.panel != panel:
                panel = number.panel
                page.append(f"{panel}\n", "bold")
            page.append(f"  {number.name}", "bold")
            page.append(f"  {number.unit}\n", "dim")
            page.append(f"    {number.formula}\n")
            if number.caveat:
                page.append(f"    caveat: {number.caveat}\n", "italic")
            where = "; ".join(filter(None, ("" if number.on_screen else "not on the screen", "in JSON")))
            page.append(
                f"    from {number.source(self._kind)}; {where} {', '.join((number.field, *number.also))}\n", "dim"
            )
        if not shown:
            page.append("nothing to explain here\n")
        page.append("\nesc closes", "dim")
        return page
