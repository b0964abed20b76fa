"""One phase of vtop's own load: its lines in the order they were written, and what stands in them up to an instant."""

from __future__ import annotations

import copy
import math
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from vtop.recording import Load, Request
from vtop.session.frame.vocabulary import OutputOver
from vtop.session.load.closed_loop import Round, requests_per_s, rounds, tokens_per_s
from vtop.session.load.compact_requests import Ended
from vtop.session.load.request_stats import RequestStats
from vtop.session.load.throughput import Whole, whole_of, whole_of_answered

EARLY_S = 1.0  # before a phase began: a request of it that was sent so early came from before the recording


class OpenRequest(NamedTuple):
    """One that was sent, and of which no line yet says that it is over."""

    sent: Request  # the line that says so
    first_s: float | None = None
    first_t: float = math.nan  # of the line that says so


class Wholes(NamedTuple):
    """What the requests that ended come to over all of them."""

    answered: Whole  # those that succeeded, the warm-up among them
    measured: Whole  # all without the warm-up
    measured_answered: Whole


@dataclass(slots=True)
class LoadPhase:
    """One phase so far: its lines in the order they were written, each list with the t of its lines."""

    begin: Load
    changes: list[Load] = field(default_factory=list)  # and steady, end
    sent_t: array[float] = field(default_factory=lambda: array("d"))
    sent_s: array[float] = field(default_factory=lambda: array("d"))
    sent_warmup: array[int] = field(default_factory=lambda: array("b"))
    late_us: array[int] = field(default_factory=lambda: array("q"))
    slot_us: array[int] = field(default_factory=lambda: array("q"))  # under a cap (max=): from due to a free slot
    sent_host: array[int] = field(default_factory=lambda: array("i"))  # -1: vtop's own machine
    first_t: array[float] = field(default_factory=lambda: array("d"))
    ended: Ended = field(default_factory=Ended)
    ended_sent_t: array[float] = field(default_factory=lambda: array("d"))  # of those that ended: of their first line
    ended_first_t: array[float] = field(default_factory=lambda: array("d"))  # of that of their first token, or NaN
    open: dict[int, OpenRequest] = field(default_factory=dict)  # by id
    forgotten_s: float = -math.inf  # lines up to then were given up
    _gone: RequestStats = field(default_factory=RequestStats)  # what those add up to
    _gone_first: int = 0  # of those lines that tell of a first token
    _seen: RequestStats = field(default_factory=RequestStats)  # up to the latest instant asked about
    _rounds: tuple[int, tuple[Round, ...]] = (0, ())  # of so many requests that ended
    _wholes: tuple[int, Wholes] | None = None  # likewise

    @property
    def end_t(self) -> array[float]:
        """When the line of each was written that ended."""
        return self.ended.t

    def sent_by(self, now_s: float) -> int:
        """How many were sent, by the lines written till an instant."""
        return self._gone.sent + bisect_right(self.sent_t, now_s)

    def answering_by(self, now_s: float) -> int:
        """How many had their first token before they ended."""
        return self._gone_first + bisect_right(self.first_t, now_s)

    def ended_by(self, now_s: float) -> int:
        return self._gone.ended + bisect_right(self.end_t, now_s)

    def forget(self, count: int) -> None:
        """Give up the lines of the first so many that ended, and those before; what they add up to stays. Of instants
        before, nothing is known any more."""
        self.forgotten_s = self.end_t[count - 1]
        sent, first = (bisect_right(times, self.forgotten_s) for times in (self.sent_t, self.first_t))
        count = bisect_right(self.end_t, self.forgotten_s)
        self._add_up(self._gone, self._gone.sent + sent, self._gone.ended + count)
        self._gone_first += first
        for of_sent in (self.sent_t, self.sent_s, self.sent_warmup, self.late_us, self.sent_host):
            del of_sent[:sent]
        del self.first_t[:first], self.ended_sent_t[:count], self.ended_first_t[:count]
        self.ended.forget(count)

    def steady(self, end: Load) -> tuple[float, float]:
        """From the end of the warm-up to the last request being sent: what comes after is the draining."""
        begin_s = next((change.t for change in self.changes if change.state == "steady"), self.begin.t)
        return begin_s, min(end.t, self.sent_s[-1] if self.sent_s else end.t)

    def rounds(self, now_s: float) -> tuple[Round, ...]:
        """Of a closed loop that nobody changed by hand, as known at an instant; none where they are too few."""
        ended = bisect_right(self.end_t, now_s)
        target, concurrency = self.state(now_s)[0], self.begin.concurrency
        if concurrency is None or target is not self.begin or self.cut_off:
            return ()
        if self._rounds[0] != ended:
            self._rounds = ended, rounds(self.ended.outputs(ended), concurrency)
        return self._rounds[1]

    def output_per_s(self, now_s: float) -> float | None:
        """Tokens a second, over what `output_over` says. None while it runs."""
        _, end = self.state(now_s)
        over = self.output_over(now_s)
        if end is None or over is None:
            return None
        if over == "rounds":
            return tokens_per_s(self.rounds(now_s))
        if over == "all":
            return self._whole(now_s).measured_answered.output_per_s
        return self.seen(now_s).tokens_in.per_s(*self.steady(end))

    def output_over(self, now_s: float) -> OutputOver | None:
        """What the throughput is over. A closed loop moves in waves, so of one with too few rounds any span without
        ramp and drain depends on where in a wave it lies: there it is all of its requests, ramp and drain in it."""
        target, end = self.state(now_s)
        if end is None:
            return None
        if self.rounds(now_s):
            return "rounds"
        seen = self.seen(now_s)
        waves = self.begin.concurrency is not None and target is self.begin
        return "all" if waves and not self.cut_off and seen.done and seen.done == seen.over else "sending"

    @property
    def cut_off(self) -> bool:
        """Whether its beginning is not at hand: given up, or not on record, as in a span cut out of a recording."""
        return self._gone.ended > 0 or (bool(self.sent_s) and self.sent_s[0] < self.begin.t - EARLY_S)

    def _whole(self, now_s: float) -> Wholes:
        ended = bisect_right(self.end_t, now_s)
        if self._wholes is None or self._wholes[0] != ended:
            outputs = self.ended.outputs
            wholes = Wholes(
                whole_of_answered(outputs(ended)),
                whole_of(one for one in outputs(ended) if not one.warmup),
                whole_of_answered(one for one in outputs(ended) if not one.warmup),
            )
            self._wholes = ended, wholes
        return self._wholes[1]

    def whole_output_per_s(self, now_s: float) -> float | None:
        """Tokens a second over all of it (throughput.py). None while it runs."""
        if self.state(now_s)[1] is None or self.cut_off:
            return None
        return self._whole(now_s).answered.output_per_s

    def whole_ended_per_s(self, now_s: float) -> float | None:
        """Requests that succeeded a second, over the same. None while it runs."""
        if self.state(now_s)[1] is None or self.cut_off:
            return None
        return self._whole(now_s).answered.ended_per_s

    def ended_per_s(self, now_s: float) -> float | None:
        """Requests that ended a second, over the same span."""
        _, end = self.state(now_s)
        if end is None:
            return None
        over = self.output_over(now_s)
        if over == "rounds":
            return requests_per_s(self.rounds(now_s))
        if over == "all":
            return self._whole(now_s).measured.ended_per_s
        begin_s, end_s = self.steady(end)
        return self.ended_between(begin_s, end_s) / (end_s - begin_s) if end_s - begin_s >= 1.0 else None

    def ended_between(self, begin_s: float, end_s: float) -> int:
        """How many requests ended between two instants, by when their lines were written."""
        return bisect_right(self.end_t, end_s) - bisect_right(self.end_t, begin_s)

    def settled_s(self, now_s: float) -> float:
        """Since when its load is what it is: begun, warm and not changed by hand, as known at an instant."""
        marks = [change.t for change in self.changes if change.t <= now_s and change.state in ("steady", "change")]
        return max(marks, default=self.begin.t)

    def state(self, now_s: float) -> tuple[Load, Load | None]:
        """(the latest target, the end) as known at an instant."""
        latest, end = self.begin, None
        for change in self.changes:
            if change.t <= now_s:
                if change.state == "end":
                    end = change
                elif change.state == "change":
                    latest = change
        return latest, end

    def seen(self, now_s: float) -> RequestStats:
        """What its requests add up to at an instant; later ones are cheap to ask for, an earlier one starts anew."""
        sent, ended, gone = self.sent_by(now_s), self.ended_by(now_s), self._gone
        seen = self._seen
        if seen.sent > sent or seen.ended > ended or seen.sent < gone.sent or seen.ended < gone.ended:
            self._seen = copy.deepcopy(gone)
        self._add_up(self._seen, sent, ended)
        return self._seen

    def _add_up(self, seen: RequestStats, sent: int, ended: int) -> None:
        """Take in those that are not in it yet, up to so many sent and ended."""
        gone_sent, gone_ended = self._gone.sent, self._gone.ended
        for k in range(seen.sent - gone_sent, sent - gone_sent):
            if not self.sent_warmup[k]:
                seen.late.add_us(self.late_us[k])
                if self.slot_us:
                    seen.slot.add_us(self.slot_us[k])
                if (host := self.sent_host[k]) >= 0:
                    seen.hosts.late[host].add_us(self.late_us[k])
        for k in range(seen.ended - gone_ended, ended - gone_ended):
            seen.take(self.ended[k], self.begin.slo)
        seen.sent, seen.ended = sent, ended
