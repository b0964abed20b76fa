"""One line asked of a person: a time to go to, the name of a mark."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input, Label


class Prompt(ModalScreen[str | None]):
    """What was typed; None where it was left with escape."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", id="leave-prompt")]

    def __init__(self, asked: str, example: str) -> None:
        super().__init__()
        self._asked = asked
        self._example = example

    def compose(self) -> ComposeResult:
        yield Label(self._asked)
        yield Input(placeholder=self._example)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self.dismiss(message.value)

    def action_leave(self) -> None:
        self.dismiss(None)
