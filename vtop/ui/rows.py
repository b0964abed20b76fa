"""Of a list that has the whole body, events or requests, only the rows that hold a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtop.ui.prompt import Prompt

if TYPE_CHECKING:
    from vtop.ui.app import VtopApp

# Panels that are lists, or have one -> what rows are asked for.
LISTS: Final = {
    "events": ("which events? a part of kind or words; nothing for all", "preempted"),
    "waterfall": ("which requests? a number, state or error; nothing for all", "unanswered, failed, #12"),
    "load": ("which requests? a number, state or error; nothing for all", "unanswered, failed, #12"),
}


def find(app: VtopApp) -> None:
    """Ask for the text."""

    def answered(text: str | None) -> None:
        if text is not None:
            app.holds = text.strip()
            app.draw(again=True)

    assert app.only is not None
    asked, example = LISTS[app.only]
    app.push_screen(Prompt(asked, app.holds or example), answered)


def given_up(app: VtopApp) -> bool:
    """Take the search back; False where there is none."""
    if app.only not in LISTS or not app.holds:
        return False
    app.holds = ""
    app.draw(again=True)
    return True
