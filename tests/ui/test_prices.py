"""Prices that are made beside the screen come into it when they are known."""

from __future__ import annotations

from tests.ui.screens import SWEEP, replay
from vtop.session.frame.prices import Price, Prices, Worth

NOTHING = Worth(0.0, 0.0, 0.0)
FOUND = Prices("sweep_c64", None, (Price("kv", 86_896, 95_600, NOTHING, NOTHING, 1),), None, (), 1.0)


class Beside:
    """Of the load that was watched, as soon as it is there."""

    def __init__(self) -> None:
        self.found: dict[int | None, Prices] = {}

    @property
    def made(self) -> int:
        return len(self.found)

    def of(self, phase: int | None) -> Prices | None:
        return self.found.get(phase)


async def test_a_screen_that_stands_still_shows_prices_when_they_come() -> None:
    beside = Beside()
    async with replay(SWEEP, prices=beside) as shown:
        await shown.at(12.0)
        assert shown.app.scene is not None
        assert shown.app.scene.frame.prices is None
        beside.found[None] = FOUND
        shown.app.catch_up()
        assert shown.app.scene.frame.prices is FOUND
