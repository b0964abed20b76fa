"""Searches of capacity as they stand in a recording: what was asked, each run judged from its own lines, what is open.

The live search, a resumed one, the screen and a report read the same lines by the same code: a run is a phase of vtop's
own load after a `search` line, on the server that the line names. A search with the same words on the same server goes
on with what the one before it found, as in a merged recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from vtop.recording import CapacitySearch, SimulatedSearch
from vtop.session.capacity.foretold import speed
from vtop.session.capacity.runs import ClosedLoopRun, RunsOnRecord
from vtop.session.capacity.search import HOLD_FACTOR, Bracket, Next, Plan, RunResult, Search
from vtop.session.frame.capacity import CapacityPart, CapacityRate, CapacityRun, SimulatedCapacity
from vtop.session.load.phase import LoadPhase


@dataclass(slots=True)
class RecordedSearch:
    """A search with what its runs say so far. gpus: that serve it, where known."""

    asked: CapacitySearch
    plan: Plan
    search: Search
    closed: list[ClosedLoopRun] = field(default_factory=list)
    gpus: int | None = None
    hosts: list[Bracket] = field(default_factory=list)  # of a simulated search: on other plausible hosts
    remarks: list[str] = field(default_factory=list)


def plan_of(asked: CapacitySearch) -> Plan:
    return Plan(
        rule="floor" if asked.rule == "floor" else "long-run",
        target_ratio=asked.target_ratio,
        runs=asked.runs,
        requests=asked.requests,
        seeds=tuple(range(asked.seed, asked.seed + asked.runs)),
        first_per_s=asked.first_per_s,
        least_per_s=asked.least_per_s,
        most_per_s=asked.most_per_s,
        precision_ratio=asked.precision_ratio,
        hold=asked.hold,
        simulated=asked.simulated,
    )


class SearchHistory:
    """All searches of a session so far."""

    def __init__(self, runs: RunsOnRecord) -> None:
        self.runs = runs
        self.lines: list[CapacitySearch] = []  # begins and ends
        self._settled: dict[int, tuple[int, float]] = {}  # by phase: of so many requests, until when it is looked at
        self._known: dict[int, tuple[tuple[int, int], RunResult]] = {}  # by phase, with how much of it was on record

    def apply(self, line: CapacitySearch) -> None:
        self.lines.append(line)

    def found(self, now_s: float) -> list[RecordedSearch]:
        """All searches as known at an instant, with every run that had come to its end."""
        found: list[RecordedSearch] = []
        lines = [line for line in self.lines if line.t <= now_s]
        for asked, until_s in zip(lines, _ends(lines, now_s), strict=True):
            if asked.reason is not None:
                continue
            words = _words(asked)
            one = next((one for one in found if _words(one.asked) == words), None)
            if one is None:
                plan = plan_of(asked)
                found.append(one := RecordedSearch(asked, plan, Search(plan)))
            one.search.end = one.search.why = None  # it goes on
            for number, phase in self.runs.load.phases.items():
                if asked.t <= phase.begin.t < until_s and phase.begin.server == asked.server:
                    self._take(one, number, now_s)
            over = (end for end in lines if end.reason is not None and end.server == asked.server)
            ended = next((end for end in over if asked.t <= end.t <= until_s), None)
            if ended is not None and ended.reason is not None:
                one.search.stop(ended.reason, ended.why)
        return found

    def part(self, now_s: float) -> CapacityPart | None:
        """The search whose run is under way at an instant, or that was at work last; None where there is none."""
        found = self.found(now_s)
        if not found:
            return None
        phase = self.runs.load.latest(now_s)
        running = phase if phase is not None and phase.state(now_s)[1] is None else None
        on = phase.begin.server if phase is not None else found[-1].asked.server
        one = next((one for one in reversed(found) if one.asked.server == on), found[-1])
        search, now = one.search, one.search.bracket()
        left = search.left() if search.end is None else None
        return CapacityPart(
            server=one.asked.server,
            rule=one.plan.rule,
            target_ratio=one.plan.target_ratio,
            bounds=tuple(one.asked.slo.items()),
            spec=one.asked.spec,
            planned_runs=one.plan.runs,
            requests=one.plan.requests,
            rates=tuple(
                CapacityRate(
                    rate_per_s=of.rate_per_s,
                    verdict=of.verdict,
                    runs=len(of.runs),
                    lowest_ratio=of.lowest_ratio,
                    mean_ratio=of.mean_ratio,
                    half_ratio=of.half_ratio if one.plan.rule == "long-run" else None,
                )
                for of in search.rates()
            ),
            passes_per_s=now.passes_per_s,
            fails_per_s=now.fails_per_s,
            undecided_per_s=now.undecided_per_s,
            monotone=now.monotone,
            runs=search.made,
            not_counted=len(search.refused),
            not_counted_why=search.refused[-1].why_not if search.refused else None,
            left_runs=left.runs if left is not None else None,
            left_s=left.seconds if left is not None else None,
            running=_running(one, running),
            simulated=beside(asked.simulated, now) if (asked := one.asked).simulated is not None else None,
            end=search.end,
            why=search.why,
        )

    def _take(self, one: RecordedSearch, number: int, now_s: float) -> None:
        """Phase `number`, once it has ended, as a run; one that vtop was told to stop is none, nor one whose beginning
        is not on record."""
        phase = self.runs.load.phases[number]
        end = phase.state(now_s)[1]
        if end is None or end.reason == "stopped" or phase.cut_off:
            return
        if phase.begin.concurrency is not None:
            one.closed.append(self.runs.closed(number, one.asked.slo, now_s))
        elif (run := _run_of(one.plan, phase)) is not None:
            one.search.tell(self._measured(run, number, one.asked, now_s))

    def _measured(self, run: Next, number: int, asked: CapacitySearch, now_s: float) -> RunResult:
        """A run does not change any more once the scrape after it is known."""
        phase = self.runs.load.phases[number]
        server = self.runs.servers[phase.begin.server]
        ended, settled_s = self._settled.get(number, (-1, 0.0))
        if ended != len(phase.ended):
            settled_s = self.runs.settled_s(phase)
            self._settled[number] = len(phase.ended), settled_s
        until_s = min(now_s, settled_s)
        so_far = server.visible(until_s), sum(one.t <= until_s for one in server.identities)
        kept = self._known.get(number)
        if kept is None or kept[0] != so_far:
            made = self.runs.measured(run, number, asked.slo, now_s, warm_only=asked.warm_only)
            kept = self._known[number] = so_far, made
        return kept[1]


def _words(asked: CapacitySearch) -> CapacitySearch:
    """What two lines of one search have in common."""
    return msgspec.structs.replace(asked, t=-1.0)


def _run_of(plan: Plan, phase: LoadPhase) -> Next | None:
    begin = phase.begin
    if not begin.rate_per_s or not begin.requests:
        return None
    return Next(begin.rate_per_s, begin.seed or 0, begin.requests, hold=begin.requests == HOLD_FACTOR * plan.requests)


def _running(one: RecordedSearch, phase: LoadPhase | None) -> CapacityRun | None:
    run = _run_of(one.plan, phase) if phase is not None and phase.begin.server == one.asked.server else None
    if run is None or phase is None or phase.begin.t < one.asked.t:
        return None
    made = sum(len(of.get(run.rate_per_s, ())) for of in (one.search.results, one.search.again))
    return CapacityRun(run.rate_per_s, phase.begin.seed, 1 if run.hold else made + 1, run.hold)


def beside(found: SimulatedSearch, now: Bracket) -> SimulatedCapacity:
    """What was simulated, with what the measured bracket says of it."""
    least, most = speed(found, now.passes_per_s, now.fails_per_s)
    return SimulatedCapacity(
        found.by, found.passes_per_s, found.fails_per_s, found.hosts, found.least_per_s, found.most_per_s, least, most
    )


def _ends(asked: Sequence[CapacitySearch], end_s: float) -> list[float]:
    """Until when each search had the server: the next one's begin."""
    ends = []
    for place, one in enumerate(asked):
        later = (other.t for other in asked[place + 1 :] if other.server == one.server and other.reason is None)
        ends.append(next(later, end_s + 1.0))
    return ends
