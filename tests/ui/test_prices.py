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
        self.looked_at_s: float | None = None

    @property
    def made(self) -> int:
        return len(self.found)

    def of(self, phase: int | None) -> Prices | None:
        return self.found.get(phase)

    def asked(self, now_s: float) -> None:
        self.looked_at_s = now_s


async def test_a_screen_that_stands_still_shows_prices_when_they_come() -> None:
    beside = Beside()
    async with replay(SWEEP, prices=beside) as shown:
        await shown.at(12.0)
        assert shown.app.scene is not None
        assert shown.app.scene.frame.prices is None
        beside.found[None] = FOUND
        shown.app.catch_up()
        assert shown.app.scene.frame.prices is FOUND


async def test_prices_are_asked_for_while_the_reasons_are_looked_at() -> None:
    beside = Beside()
    async with replay(SWEEP, prices=beside) as shown:
        await shown.at(12.0)
        assert beside.looked_at_s is None
        await shown.pilot.press("w")
        shown.app.catch_up()
        assert beside.looked_at_s is not None
        assert abs(beside.looked_at_s - 12.0) < 0.01
