"""Before a server answers, the screen says the whole error and what to do, and leaves no room for numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.draw import frames
from vtop.draw import layout, theme

LONG = "waiting for http://gpu7:8000: try 12, /metrics: " + " ".join(f"word{at}" for at in range(40)) + " (the end)"


@pytest.mark.parametrize(("width", "height"), [(60, 24), (80, 24), (120, 36), (400, 120)])
def test_the_whole_error_is_on_the_card(width: int, height: int) -> None:
    frame = frames.nothing_known()
    (server,) = frame.servers
    frame = replace(frame, servers=(replace(server, status=replace(server.status, sentence=LONG)),))
    places = layout.drawn(frame, width, height, theme.load())
    around = ("header", "status", "keys", "events")
    assert [place.panel for place, _ in places if place.panel not in around] == ["waiting"]
    (card,) = (rows for place, rows in places if place.panel == "waiting")
    shown = " ".join("".join(part.text for part in row) for row in card)
    assert " ".join(shown.split()).find(LONG) >= 0
    assert "vtop demo" in shown


def test_a_screen_of_a_few_rows_has_no_room_for_the_card() -> None:
    panels = {place.panel for place in layout.arrange(80, 8, frames.nothing_known())}
    assert "waiting" not in panels
    assert "status" in panels


def test_the_card_goes_with_the_first_answer() -> None:
    assert "waiting" not in {place.panel for place in layout.arrange(120, 36, frames.idle())}
