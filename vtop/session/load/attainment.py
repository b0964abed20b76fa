"""Which requests of a run kept every bound of a service level, and each bound alone.

    attainment = requests that succeeded and kept every bound / requests

A request that failed, timed out, was rejected or was still open at the end stands in the denominator. TPOT of an
answer of one token does not exist: it cannot break that bound and is not judged by it, and where TPOT is the only bound
such a request is judged by nothing, left out and counted. A time equal to its bound keeps it. 99 % of the requests
within one bound and 99 % within another can be 98 % within both: the joint share is at most the least of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from vtop.session.load.exact_histogram import ExactHistogram
from vtop.session.load.request_latency import RequestLatency

ERROR, TIMEOUT, REJECTED, OPEN = "error", "timeout", "rejected", "open"
BOUNDS: Final = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, slots=True)
class Attainment:
    """Of one run. by_bound: the share that kept one bound alone, of those that can be judged by it."""

    requests: int
    passed: int
    errors: int
    timeouts: int
    open: int
    undefined: int  # left out: TPOT was the only bound and the answer had one token
    by_bound: tuple[tuple[str, float], ...]
    rejected: int = 0

    @property
    def ratio(self) -> float | None:
        return self.passed / self.requests if self.requests else None


class AttainmentCount:
    """Counts outcomes one after the other: an answer, or how there was none (error, timeout, rejected, open)."""

    def __init__(self, bounds: Mapping[str, float]) -> None:
        self.bounds = dict(bounds)
        self.judged = self.passed = self.undefined = self.single_token = 0
        self.failed = {ERROR: 0, TIMEOUT: 0, REJECTED: 0, OPEN: 0}
        self.kept = dict.fromkeys(bounds, 0)
        self.times = {name: ExactHistogram() for name in BOUNDS if name in bounds}  # from due, as the bounds are
        self.by_length: dict[tuple[int, int], AttainmentCount] = {}

    def take(self, outcome: RequestLatency | str) -> bool:
        """Whether it kept every bound that it can be judged by, and there was one."""
        if isinstance(outcome, str):
            self.failed[outcome] += 1
            self.judged += 1
            for spread in self.times.values():
                spread.failed += 1
            return False
        times = outcome.judged_s
        self.single_token += "tpot" in self.bounds and times["tpot"] is None
        if not outcome.judged_by(self.bounds):
            self.undefined += 1
            return False
        for name, spread in self.times.items():
            if (took_s := times[name]) is not None:
                spread.add(took_s)
                self.kept[name] += took_s <= self.bounds[name]
        passed = outcome.keeps(self.bounds)
        self.judged += 1
        self.passed += passed
        return passed

    def take_of_length(self, outcome: RequestLatency | str, prompt: int | None, output: int | None) -> bool:
        """The same, and counted with those of like lengths: by powers of four."""
        if prompt and output:
            place = (prompt.bit_length() - 1) // 2, (output.bit_length() - 1) // 2
            self.by_length.setdefault(place, AttainmentCount(self.bounds)).take(outcome)
        return self.take(outcome)

    @property
    def found(self) -> Attainment:
        shares = [(name, self.kept[name], spread.n + spread.failed) for name, spread in self.times.items()]
        return Attainment(
            requests=self.judged,
            passed=self.passed,
            errors=self.failed[ERROR],
            timeouts=self.failed[TIMEOUT],
            open=self.failed[OPEN],
            undefined=self.undefined,
            by_bound=tuple((f"{name}_s", kept / of) for name, kept, of in shares if of),
            rejected=self.failed[REJECTED],
        )


def attainment(outcomes: Iterable[RequestLatency | str], bounds: Mapping[str, float]) -> Attainment:
    """Of one run."""
    count = AttainmentCount(bounds)
    for one in outcomes:
        count.take(one)
    return count.found
