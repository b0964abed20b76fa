"""What happened, in the order in which it became known: the list of events, and those that stand in the charts."""

from __future__ import annotations

from bisect import bisect_right, insort_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vtop import units
from vtop.session.frame.charts import LoggedEvent
from vtop.session.frame.vocabulary import LoggedKind
from vtop.session.kv.preemption_detector import PreemptionDetector, PreemptionStep

MARKED: tuple[LoggedKind, ...] = ("restart", "outage", "mark")  # kinds that stand in the charts


@dataclass(frozen=True, slots=True, eq=False)
class _Preempted:
    """A step of the stair that nobody has looked at yet: put into words when it is shown."""

    detector: PreemptionDetector
    step: PreemptionStep
    who: str

    def told(self) -> LoggedEvent:
        event = self.detector.event(self.step)
        words = f"{self.who}preempted {units.count(self.step.added)}"
        if event.kv_before_ratio is not None:
            words += f", KV {units.percent(event.kv_before_ratio)} → {units.percent(event.kv_after_ratio)}"
        if event.running_before is not None:
            words += f", running {units.count(event.running_before)} → {units.count(event.running_after)}"
        if event.freed_tokens is not None:
            words += f", {units.count(event.freed_tokens)} tokens freed"
        return LoggedEvent(event.at_s, "preemption", words)


class EventLog:
    """Happenings, each with the t from which it is known."""

    def __init__(self) -> None:
        self._all: list[tuple[float, LoggedEvent | _Preempted]] = []
        self._told = 0  # so many, from the first on, are in words
        self._marks: list[tuple[float, LoggedEvent]] = []

    def add(self, t: float, logged: LoggedEvent) -> None:
        insort_right(self._all, (t, logged), key=_t)  # at the end, but for a mark set while a recording is looked at
        if logged.kind in MARKED:
            insort_right(self._marks, (t, logged), key=_t)

    def preempted(self, t: float, detector: PreemptionDetector, step: PreemptionStep, who: str) -> None:
        self._all.append((t, _Preempted(detector, step, who)))

    def put_into_words(self) -> None:
        """All that is not yet: before the numbers are given up that it is said with."""
        for place in range(self._told, len(self._all)):
            t, one = self._all[place]
            if isinstance(one, _Preempted):
                self._all[place] = (t, one.told())
        self._told = len(self._all)

    def forget(self, before_t: float, kept: int) -> None:
        """Give up what was known before an instant, but for the latest `kept` of all and what stands in the charts."""
        self.put_into_words()
        del self._all[: max(0, min(_seen(self._all, before_t), len(self._all) - kept))]
        self._told = len(self._all)

    def bound(self, kept: int) -> None:
        """Give up the oldest of more than twice as many."""
        if len(self._all) > 2 * kept:
            self.put_into_words()
            del self._all[:-kept]
            self._told = len(self._all)

    def known(self, now_s: float, most: int | None = None, holds: str = "") -> tuple[LoggedEvent, ...]:
        """By an instant; the latest `most` of it, or of what holds a text."""
        seen = _seen(self._all, now_s)
        if holds:
            self.put_into_words()
            found = [one for _, one in self._all[:seen] if isinstance(one, LoggedEvent) and held(one, holds)]
            return tuple(found[-most:] if most is not None else found)
        shown = []
        for place in range(max(0, seen - most) if most is not None else 0, seen):
            t, one = self._all[place]
            if isinstance(one, _Preempted):
                one = one.told()
                self._all[place] = (t, one)
            shown.append(one)
        return tuple(shown)

    def marks(self, now_s: float | None = None) -> tuple[LoggedEvent, ...]:
        """Those that stand in the charts, as known by an instant; all of them without one."""
        many = len(self._marks) if now_s is None else _seen(self._marks, now_s)
        return tuple(one for _, one in self._marks[:many])


def held(logged: LoggedEvent, text: str) -> bool:
    """Whether an event is of a kind, or of words, that hold a text."""
    return text.casefold() in f"{logged.kind} {logged.text}".casefold()


def _t(one: tuple[float, Any]) -> float:
    return one[0]


def _seen(known: Sequence[tuple[float, Any]], now_s: float) -> int:
    return bisect_right(known, now_s, key=_t)
