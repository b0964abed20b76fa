"""Energy: joules of the GPUs over the window, what a token costs, how much of it idling would have taken anyway.

    joules = growth of the GPUs' energy counters, where every counted GPU has one that never fell; else the power
             readings, integrated by trapezoid over the readings no further apart than a gap (the source says which)
    per output token = joules / Δ generated tokens       per token = joules / (Δ prompt + Δ generated tokens)
    idle share       = idle power x time / joules

over the readings nearest to the first and the last scrape of the window, of the GPUs in use by a watched server where
NVML tells, else of all GPUs of this host. Idle power is the lowest that was read in the session so far between two
scrapes of a server on which nothing ran, waited or was counted, nor on the scrape before: a reading is an average.
Tokens are those of the servers on this host: without one, or with readings that cover less than COVERED of the window,
joules per token are not known.

A reading is near the limit when one of the counted GPUs is at NEAR of its power limit or above, and throttled when
one of them has a clock event reason; being idle is none. Power is an average over 1 s on most GPUs.
Joules, watts, ratios. Source: NVML (nvmlDeviceGetTotalEnergyConsumption, nvmlDeviceGetCurrentClocksEventReasons).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter, or_
from statistics import fmean
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.gpus import Energy
from vtop.session.frame.verdict import HeldDown
from vtop.session.frame.vocabulary import EnergySource
from vtop.session.history.gpus import DeviceHistory, GpuHistory
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import Window

COUNTERS: Final[EnergySource] = "the GPUs' energy counters"
READINGS: Final[EnergySource] = "power integrated over the readings"
NEAR: Final = 0.97
CAP: Final = "power cap"
FEW_READINGS: Final = 10  # over fewer the ends weigh too much to hold counters against power
COVERED: Final = 0.95

Words = tuple[str, ...] | None  # the clock event reasons of a GPU; None where it does not tell


class IdlePower:
    """The lowest power of the counted GPUs while nothing ran on the servers of this host: every reading is judged
    once, as soon as the next scrape of each server is there."""

    def __init__(self, servers: Sequence[ServerHistory], devices: GpuHistory) -> None:
        self._servers = [server for server in servers if server.target.local]
        self._devices = devices
        self._next = 0  # reading
        self._lows: dict[tuple[str, ...], tuple[array[float], array[float]]] = {}  # by GPUs: from which t on, watts

    def at(self, now_s: float) -> float | None:
        self._go_on()
        last = self._devices.visible(now_s) - 1
        known_t, low_w = self._lows.get(self._devices.counted.at(last) or (), ((), ()))
        place = bisect_right(known_t, now_s) - 1
        return low_w[place] if place >= 0 else None

    def _go_on(self) -> None:
        first, readings = self._next, len(self._devices.t)
        if not self._servers or first == readings:
            return
        power = self._devices.power_w.every(first, readings - 1)
        changes = set(self._devices.counted.scrape)
        lows = self._lows_of(first)
        while self._next < readings:
            reading = self._next
            if reading in changes:
                lows = self._lows_of(reading)
            power_w, (known_t, low_w) = power[reading - first], lows
            if power_w == power_w and (not low_w or power_w < low_w[-1]):
                idle_t, busy_s = self._judged(self._devices.at_s[reading])
                if idle_t is None and busy_s is None:
                    return  # a scrape is still to come
                if idle_t is not None:
                    known_t.append(max(idle_t, self._devices.t[reading]))
                    low_w.append(power_w)
                elif busy_s is not None:  # on to the next reading that may be idle
                    self._next = bisect_right(self._devices.at_s, busy_s, reading + 1)
                    lows = self._lows_of(min(self._next, readings - 1))
                    continue
            self._next += 1

    def _lows_of(self, reading: int) -> tuple[array[float], array[float]]:
        return self._lows.setdefault(self._devices.counted.at(reading) or (), (array("d"), array("d")))

    def _judged(self, at_s: float) -> tuple[float | None, float | None]:
        """(from which t on it is known that nothing ran at an instant, None; or None, up to when something runs)."""
        idle_t = 0.0
        for server in self._servers:
            after = bisect_left(server.at_s, at_s)
            if after == len(server.t):
                return None, None
            if not _idle_before(server, after):
                return None, _busy_until(server, after, at_s)
            if after > 1 and not _idle_before(server, after - 1):  # an average: a load's end may be in it
                return None, at_s
            idle_t = max(idle_t, server.t[after])
        return idle_t, None


def _idle_before(server: ServerHistory, scrape: int) -> bool:
    """Whether nothing ran, waited or was counted from the scrape before up to this one."""
    if scrape == 0 or server.last_progress(scrape) == scrape:
        return False
    for quantity in (Quantity.RUNNING, Quantity.WAITING):
        track = server.total(quantity)
        if track is None or track.at(scrape - 1) != 0 or track.at(scrape) != 0:
            return False
    return not server.gap_s(server.at_s[scrape - 1], server.at_s[scrape])


def _busy_until(server: ServerHistory, scrape: int, at_s: float) -> float:
    """Up to which instant, at least, something runs, as a scrape tells; the instant itself where that scrape does
    not."""
    track = server.total(Quantity.RUNNING)
    if track is None or not track.at(scrape):
        return at_s
    place = bisect_right(track.scrape, scrape)
    while place < len(track.scrape) and track.value[place]:
        place += 1
    return server.at_s[track.scrape[place] if place < len(track.scrape) else -1]


def energy(window: Window, devices: GpuHistory, idle: IdlePower, now_s: float) -> Energy:
    local = Window(tuple(one for one in window.ranges if one.server.target.local))
    about = local if local.ranges else window  # readings of this host, whatever it serves
    readings = devices.visible(now_s)
    if not about.ranges or readings < 2:
        return Energy()
    begin_s = min(one.server.at_s[one.first] for one in about.ranges)
    end_s = max(one.server.at_s[one.last] for one in about.ranges)
    first, last = _nearest(devices.at_s, begin_s, readings), _nearest(devices.at_s, end_s, readings)
    mine = [devices.devices[uuid] for uuid in devices.counted.at(last) or ()]
    if last <= first or not mine:
        return Energy()
    seconds = devices.at_s[last] - devices.at_s[first]
    joules, source = _counted(mine, first, last), COUNTERS
    integrated_j, integrated_s = _integrated(devices, first, last)
    apart = None
    if joules is None:
        joules, seconds, source = integrated_j, integrated_s, READINGS
    elif integrated_j and integrated_s >= COVERED * seconds and last - first >= FEW_READINGS:
        apart = joules / integrated_j - 1
    known = joules is not None and seconds >= COVERED * (end_s - begin_s)
    output, prompt = local.delta(Quantity.GENERATION_TOKENS), local.delta(Quantity.PROMPT_TOKENS)
    idle_w = idle.at(now_s)
    share, throttle = _throttled(mine, first, last)
    return Energy(
        joules=joules,
        source=source if joules is not None else None,
        per_output_token_j=joules / output if joules is not None and known and output else None,
        per_token_j=joules / (output + prompt)
        if joules is not None and known and output is not None and prompt is not None and output + prompt > 0
        else None,
        idle_w=idle_w,
        idle_share=min(1.0, idle_w * seconds / joules) if idle_w is not None and joules else None,
        near_limit_share=_near_limit(mine, first, last),
        throttled_share=share,
        throttle=throttle,
        apart_ratio=apart,
    )


def held_down(window: Window, devices: GpuHistory, now_s: float) -> HeldDown | None:
    """What power took of the clock over a window; None without two readings of a counted GPU in it.

    A clock is held against the GPU's maximum, or against the highest that was read so far where NVML tells none.
    """
    readings = devices.visible(now_s)
    if not window.ranges or readings < 2:
        return None
    begin_s = min(one.server.at_s[one.first] for one in window.ranges)
    end_s = max(one.server.at_s[one.last] for one in window.ranges)
    first, last = _nearest(devices.at_s, begin_s, readings), _nearest(devices.at_s, end_s, readings)
    mine = [devices.devices[uuid] for uuid in devices.counted.at(last) or ()]
    if last <= first or not mine or end_s - devices.at_s[last] > devices.patience_s:  # of another time
        return None
    _, throttle = _throttled(mine, first, last)
    highs = [device.numbers["power_w"].high(first, last) for device in mine]
    limits = [device.numbers["power_limit_w"].at(last) for device in mine]
    lost = [loss for device in mine if (loss := _clock_lost(device, first, last)) is not None]
    return HeldDown(
        readings=last - first + 1,
        near_limit_share=_near_limit(mine, first, last),
        capped_share=dict(throttle).get(CAP),
        high_w=_sum(highs),
        limit_w=_sum(limits),
        clock_loss_ratio=max(lost, default=None),
    )


def _clock_lost(device: DeviceHistory, first: int, last: int) -> float | None:
    """The mean over the readings of 1 - clock / maximum where power held it down, and 0 where it did not (an idle GPU
    may lower its clock by itself); None where the clock is not read."""
    clock, most = device.numbers["sm_mhz"], device.numbers["sm_max_mhz"].at(last)
    highest = most or clock.high(0, last)
    power_w, limit_w = (device.numbers[name].every(first, last) for name in ("power_w", "power_limit_w"))
    held = list(_capped(device, first, last))
    lost = [
        max(0.0, 1 - mhz / highest) if capped or watts >= NEAR * limit > 0 else 0.0
        for mhz, watts, limit, capped in zip(clock.every(first, last), power_w, limit_w, held, strict=True)
        if highest and mhz == mhz
    ]
    return fmean(lost) if lost else None


def _capped(device: DeviceHistory, first: int, last: int) -> Iterator[bool]:
    """Of each reading, whether the GPU says that power holds its clock down."""
    changes = [(max(reading, first), fact) for reading, fact in device.facts.over(first, last)]
    now = False
    for reading in range(first, last + 1):
        while changes and changes[0][0] <= reading:
            fact = changes.pop(0)[1]
            now = fact is not None and CAP in (fact.throttle or ())
        yield now


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _nearest(at_s: Sequence[float], instant: float, readings: int) -> int:
    after = bisect_left(at_s, instant, 0, readings)
    if after in (0, readings):
        return min(after, readings - 1)
    return after if at_s[after] - instant < instant - at_s[after - 1] else after - 1


def _counted(devices: Sequence[DeviceHistory], first: int, last: int) -> float | None:
    """By the energy counters; None where one GPU's does not tell."""
    grown = [device.counted_j(first, last) for device in devices]
    known = [joules for joules in grown if joules is not None]
    return sum(known, 0.0) if len(known) == len(grown) else None


def _integrated(devices: GpuHistory, first: int, last: int) -> tuple[float | None, float]:
    """(joules, the seconds that they are of)."""
    power_w = devices.power_w.every(first, last)
    joules = seconds = 0.0
    for (before_s, before_w), (at_s, at_w) in pairwise(zip(devices.at_s[first : last + 1], power_w, strict=True)):
        step_s = at_s - before_s
        if step_s <= devices.patience_s and before_w == before_w and at_w == at_w:
            joules, seconds = joules + (before_w + at_w) / 2 * step_s, seconds + step_s
    return (joules, seconds) if seconds > 0 else (None, 0.0)


def _near_limit(devices: Sequence[DeviceHistory], first: int, last: int) -> float | None:
    """The share of the readings with a known power and limit."""
    known = [False] * (last - first + 1)
    near = known
    for device in devices:
        power_w, limit_w = (
            device.numbers["power_w"].every(first, last),
            device.numbers["power_limit_w"].every(first, last),
        )
        both = [one == one and limit > 0 for one, limit in zip(power_w, limit_w, strict=True)]
        high = [one >= NEAR * limit > 0 for one, limit in zip(power_w, limit_w, strict=True)]
        known, near = list(map(or_, known, both)), list(map(or_, near, high))
    return sum(near) / sum(known) if any(known) else None


def _throttled(
    devices: Sequence[DeviceHistory], first: int, last: int
) -> tuple[float | None, tuple[tuple[str, float], ...]]:
    """(the share of the readings with a reason, of those that tell; each reason with its share)."""
    changes = [
        (max(scrape, first), k, fact)
        for k, device in enumerate(devices)
        for scrape, fact in device.facts.over(first, last)
    ]
    changes.sort(key=itemgetter(0, 1))
    now: list[Words] = [None] * len(devices)
    readings: Counter[tuple[Words, ...]] = Counter()  # by what all GPUs say
    since = first
    for scrape, k, fact in changes:
        if scrape > since:
            readings[tuple(now)] += scrape - since
            since = scrape
        now[k] = fact.throttle if fact is not None else None
    readings[tuple(now)] += last + 1 - since
    told = held = 0
    reasons: Counter[str] = Counter()
    for said, count in readings.items():
        active = {word for words in said for word in words or () if "idle" not in word}
        told += count * any(words is not None for words in said)
        held += count * bool(active)
        for word in active:
            reasons[word] += count
    if not told:
        return None, ()
    return held / told, tuple((word, count / told) for word, count in sorted(reasons.items()))
