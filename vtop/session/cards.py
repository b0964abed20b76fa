"""What is known of this host's GPUs: one reading after another, field by field."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right

from vtop.recording import Gpu, GpuReading
from vtop.session.tracks import FactTrack, Track

NUMBERS = (
    "util_ratio",
    "mem_used_bytes",
    "mem_total_bytes",
    "power_w",
    "power_limit_w",
    "energy_j",
    "temp_c",
    "sm_mhz",
    "sm_max_mhz",
    "mem_mhz",
    "mem_max_mhz",
)


class Card:
    """One GPU over the readings of its host."""

    def __init__(self, reading: GpuReading) -> None:
        self.index = reading.index
        self.uuid = reading.uuid
        self.numbers = {name: Track() for name in NUMBERS}
        self.facts: FactTrack[GpuReading] = FactTrack()  # what is not a number, in a reading without numbers

    def put(self, reading_number: int, reading: GpuReading) -> None:
        for name, track in self.numbers.items():
            value = getattr(reading, name)
            track.put(reading_number, math.nan if value is None else value)
        self.facts.put(
            reading_number,
            GpuReading(
                index=reading.index,
                uuid=reading.uuid,
                name=reading.name,
                power_kind=reading.power_kind,
                throttle=reading.throttle,
                serving=reading.serving,
                lost=reading.lost,
            ),
        )


class CardHistory:
    """All readings of the host's cards so far."""

    def __init__(self) -> None:
        self.t = array("d")
        self.at_s = array("d")
        self.cards: dict[str, Card] = {}

    def apply(self, event: Gpu) -> None:
        number = len(self.t)
        self.t.append(event.t)
        self.at_s.append(event.at_s)
        for reading in event.gpus:
            card = self.cards.get(reading.uuid)
            if card is None:
                card = self.cards[reading.uuid] = Card(reading)
            card.put(number, reading)

    def visible(self, now_s: float) -> int:
        return bisect_right(self.t, now_s)

    def window(self, now_s: float, window_s: float) -> tuple[int, int] | None:
        readings = self.visible(now_s)
        if readings == 0:
            return None
        last = readings - 1
        return min(bisect_left(self.at_s, self.at_s[last] - window_s - 1e-9, 0, readings), last), last
