"""What is known of this host's GPUs: one reading after another, field by field, and what there is to see of them."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter, ne

import msgspec

from vtop.recording import GAP_INTERVALS, Gpu, GpuReading, Note
from vtop.recording.vocabulary import POWER_KINDS, known
from vtop.session.frame.gpus import GpuPart, Gpus, counted_of
from vtop.session.history.tracks import FactTrack, Track
from vtop.session.history.window import gauge

WORDS_KEPT = 1000
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


_numbers_of = attrgetter(*NUMBERS)


class DeviceHistory:
    """One GPU over the readings of its host."""

    def __init__(self, reading: GpuReading) -> None:
        self.index = reading.index
        self.uuid = reading.uuid
        self.numbers = {name: Track() for name in NUMBERS}
        self._tracks = tuple(self.numbers.values())
        self._latest: tuple[object, ...] = (math.nan,) * len(NUMBERS)
        self._energy_j = -math.inf  # the latest that is known
        self._energy_fell = array("I")  # the readings that were below the one known before
        self.facts: FactTrack[GpuReading | None] = FactTrack()  # a reading for its words; None: not in the reading
        self._words: tuple[object, ...] = ()
        self._told: dict[tuple[object, ...], GpuReading] = {}  # words that come again and again are kept once

    def put(self, number: int, reading: GpuReading) -> None:
        values = _numbers_of(reading)
        for track, value in compress(zip(self._tracks, values, strict=True), map(ne, values, self._latest)):
            track.scrape.append(number)
            track.value.append(math.nan if value is None else value)
        self._latest = values
        if reading.energy_j is not None:
            if reading.energy_j < self._energy_j:
                self._energy_fell.append(number)
            self._energy_j = reading.energy_j
        words = (
            reading.name,
            reading.power_kind,
            reading.throttle,
            reading.serving,
            reading.mig_instances,
            reading.lost,
        )
        if words != self._words:
            self._words = words
            if len(self._told) > WORDS_KEPT:
                self._told.clear()
            self.facts.put(number, self._told.setdefault(words, _known_words(reading)))

    def put_absent(self, number: int) -> None:
        for track in self.numbers.values():
            track.put(number, math.nan)
        self._latest, self._words = (math.nan,) * len(NUMBERS), ()
        self.facts.put(number, None)

    def counted_j(self, first: int, last: int) -> float | None:
        """Growth of the energy counter from one reading to another; None where it is not known at either, or fell
        meanwhile (the driver was loaded anew)."""
        begin, end = self.numbers["energy_j"].at(first), self.numbers["energy_j"].at(last)
        fell = bisect_right(self._energy_fell, last) > bisect_right(self._energy_fell, first)
        return end - begin if begin is not None and end is not None and not fell else None


class GpuHistory:
    """All readings of the host's GPUs so far."""

    def __init__(self, interval_s: float) -> None:
        self.patience_s = GAP_INTERVALS * interval_s  # an older reading holds no longer
        self.t = array("d")
        self.at_s = array("d")
        self.devices: dict[str, DeviceHistory] = {}
        # of the GPUs in use by a watched server where NVML tells, else of all
        self.power_w = Track()
        self.power_limit_w = Track()
        self.sm_mhz = Track()  # the fastest
        self.counted: FactTrack[tuple[str, ...]] = FactTrack()  # whose these are, by uuid
        self.temp_c = Track()  # the hottest
        self._serving: FactTrack[tuple[str | None, int | None] | None] = FactTrack()  # the first in use by a server
        self._notes: list[tuple[float, str]] = []

    def apply(self, event: Gpu) -> None:
        number = len(self.t)
        self.t.append(event.t)
        self.at_s.append(max(event.at_s, self.at_s[-1]) if number else event.at_s)
        for reading in event.gpus:
            device = self.devices.get(reading.uuid)
            if device is None:
                device = self.devices[reading.uuid] = DeviceHistory(reading)
            device.put(number, reading)
        if len(event.gpus) < len(self.devices):
            present = {reading.uuid for reading in event.gpus}
            for uuid, device in self.devices.items():
                if uuid not in present:
                    device.put_absent(number)
        serving = next((one for one in event.gpus if one.serving), None)
        self._serving.put(number, (serving.name, serving.mem_total_bytes) if serving is not None else None)
        counted = counted_of(event.gpus)
        self.counted.put(number, tuple([one.uuid for one in counted]))
        if len(counted) == 1:  # as most hosts have it, or use it
            (one,) = counted
            self.power_w.put(number, math.nan if one.power_w is None else one.power_w)
            self.power_limit_w.put(number, math.nan if one.power_limit_w is None else one.power_limit_w)
            self.sm_mhz.put(number, math.nan if one.sm_mhz is None else one.sm_mhz)
            self.temp_c.put(number, math.nan if one.temp_c is None else one.temp_c)
            return
        self.power_w.put(number, _whole([one.power_w for one in counted]))
        self.power_limit_w.put(number, _whole([one.power_limit_w for one in counted]))
        self.sm_mhz.put(number, _highest([one.sm_mhz for one in counted]))
        self.temp_c.put(number, _highest([one.temp_c for one in counted]))

    def apply_note(self, note: Note) -> None:
        self._notes.append((note.t, note.text))

    def visible(self, now_s: float) -> int:
        return bisect_right(self.t, now_s)

    def served(self, begin_s: float, now_s: float) -> tuple[str | None, int | None] | None:
        """Name and memory of a GPU that a watched server was last seen to use since an instant: for as long as a
        process lives it stays on its GPU, and who uses one cannot always be told."""
        last = self.visible(now_s) - 1
        first = bisect_left(self.at_s, begin_s, 0, last + 1)
        seen = [device for _, device in self._serving.over(first, last) if device is not None] if first <= last else []
        return seen[-1] if seen else None

    def part(self, now_s: float, window_s: float, *, local: bool) -> Gpus:
        """What there is to see; the window ends with the latest reading."""
        seen = bisect_right(self._notes, now_s, key=lambda note: note[0])
        noted_t, note = self._notes[seen - 1] if seen else (-math.inf, None)
        last = self.visible(now_s) - 1
        if last < 0:
            return Gpus((), note, local, None, None, 0, None)
        age_s = now_s - self.at_s[last]
        first = min(bisect_left(self.at_s, self.at_s[last] - window_s - 1e-9, 0, last + 1), last)
        present = [device for device in self.devices.values() if device.facts.at(last) is not None]
        counted = [self.devices[uuid].numbers["power_w"].at(last) for uuid in self.counted.at(last) or ()]
        powers = [power_w for power_w in counted if power_w is not None]
        return Gpus(
            devices=tuple(
                _device(device, first, last, age_s) for device in sorted(present, key=lambda device: device.index)
            ),
            note=note if noted_t > self.t[last] else None,
            local=local,
            power_w=self.power_w.at(last),
            power_limit_w=self.power_limit_w.at(last),
            counted=len(self.counted.at(last) or ()),
            age_s=age_s,
            powered=len(powers),
            least_power_w=sum(powers) if powers else None,
        )


def _known_words(reading: GpuReading) -> GpuReading:
    """The reading with the words of its closed vocabulary."""
    kind = reading.power_kind
    return msgspec.structs.replace(reading, power_kind=known(kind, POWER_KINDS)) if kind is not None else reading


def _device(device: DeviceHistory, first: int, last: int, age_s: float) -> GpuPart:
    fact = device.facts.at(last)
    assert fact is not None
    now = {name: track.at(last) for name, track in device.numbers.items()}
    used, total = now["mem_used_bytes"], now["mem_total_bytes"]
    energy_j = device.numbers["energy_j"].grown(first, last)
    return GpuPart(
        index=device.index,
        uuid=device.uuid,
        name=fact.name,
        serving=fact.serving,
        mig_instances=fact.mig_instances,
        lost=fact.lost,
        util_ratio=now["util_ratio"],
        mem_used_bytes=int(used) if used is not None else None,
        mem_total_bytes=int(total) if total is not None else None,
        power=gauge(now["power_w"], device.numbers["power_w"].each(first, last)),
        power_kind=fact.power_kind,
        power_limit_w=now["power_limit_w"],
        energy_j=energy_j if energy_j is not None and energy_j >= 0 else None,  # it fell: the driver was loaded anew
        temp_c=now["temp_c"],
        sm_mhz=now["sm_mhz"],
        sm_max_mhz=now["sm_max_mhz"],
        mem_mhz=now["mem_mhz"],
        mem_max_mhz=now["mem_max_mhz"],
        throttle=fact.throttle,
        age_s=age_s,
        temp_high_c=device.numbers["temp_c"].high(first, last),
    )


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=math.nan)


def _whole(values: Sequence[float | None]) -> float:
    """A sum that is known only where every part is; NaN where it is not."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else math.nan
