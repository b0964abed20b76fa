"""A phase of load as data: its shape, its lengths, its limits, and which percentiles it is long enough for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from vtop.recording.events import Load
from vtop.recording.vocabulary import Api, LoadShape, LoadState
from vtop.samples import samples_needed

LIMIT_S = 3600.0  # of a phase whose time is not asked for; a person can always ask for more
ENDLESS_S = 30 * 86400.0  # of a phase that goes on until it is stopped
TRACE_LIMIT_S = 86400.0  # a trace brings its own end
WARMUP_LIMIT_S = 600.0
PERCENTILES = (0.999, 0.99, 0.95, 0.9, 0.5)


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Tokens from low to high, both included; every length as likely."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low}~{self.high}"


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """One span of load. The warm-up comes on top of `requests` and `for_s`; whichever of the two is met ends it.

    Without either it goes on until it is stopped.
    """

    concurrency: int | None = None  # a closed loop
    rate_per_s: float | None = None  # an open one; None too when a trace has its own times
    arrival: str | None = None  # poisson, constant, gamma:K, trace; None in a closed loop
    max_in_flight: int | None = None
    input: TokenRange | None = TokenRange(1024, 1024)  # None: as the file says
    output: TokenRange | None = TokenRange(256, 256)  # None: as the file says
    prefix_tokens: int = 0
    dataset: str | None = None  # a path
    trace: str | None = None  # a path
    speed: float = 1.0
    hash_tokens: int = 512
    requests: int | None = None
    for_s: float | None = None
    warmup: int = 0
    seed: int = 0
    api: Api = "completions"
    ignore_eos: bool = True  # every answer is as long as asked; else that is the most
    workers: int = 1

    @property
    def shape(self) -> LoadShape:
        """closed or open"""
        return "open" if self.concurrency is None else "closed"

    @property
    def total(self) -> int | None:
        """Requests with the warm-up, where their number is planned."""
        return None if self.requests is None else self.warmup + self.requests

    @property
    def pool(self) -> int:
        """Workers that take part: each has a slot."""
        return min(self.workers, self.concurrency or self.max_in_flight or self.workers)

    @property
    def limit_s(self) -> float:
        """No request starts later than this after the start of the phase."""
        if self.for_s is not None:
            return self.for_s + (WARMUP_LIMIT_S if self.warmup else 0.0)
        if self.rate_per_s is not None and self.total is not None:
            return max(LIMIT_S, 2 * self.total / self.rate_per_s)  # the schedule ends before
        if self.requests is None and not self.trace:
            return ENDLESS_S
        return TRACE_LIMIT_S if self.trace else LIMIT_S

    @property
    def name(self) -> str:
        """The phase in one word: c=64, rate=8, trace=chat.jsonl."""
        return self._words()[0]

    @property
    def spec(self) -> str:
        """The phase as it would be asked for, without folders; read again it gives the same phase."""
        return " ".join(self._words())

    def line(
        self,
        index: int,
        state: LoadState,
        *,
        server: int = 0,
        slo: dict[str, float] | None = None,
        reason: str | None = None,
    ) -> Load:
        """What the recording says about it when it begins, is steady, changes or ends."""
        return Load(
            phase=index,
            state=state,
            spec=self.spec,
            shape=self.shape,
            server=server,
            concurrency=self.concurrency,
            rate_per_s=self.rate_per_s,
            arrival=self.arrival,
            max_in_flight=self.max_in_flight,
            input_tokens=(self.input.low, self.input.high) if self.input is not None else None,
            output_tokens=(self.output.low, self.output.high) if self.output is not None else None,
            requests=self.requests,
            for_s=self.for_s,
            warmup=self.warmup,
            seed=self.seed,
            api=self.api,
            workers=self.workers,
            slo=slo,
            reason=reason,
        )

    def _words(self) -> list[str]:
        given: tuple[tuple[str, object], ...] = (
            ("c", self.concurrency),
            ("rate", self.rate_per_s),
            ("trace", _file_name(self.trace)),
            ("arrival", None if self.arrival == "trace" else self.arrival),
            ("max", self.max_in_flight),
            ("in", self.input),
            ("out", self.output),
            ("prefix", self.prefix_tokens or None),
            ("dataset", _file_name(self.dataset)),
            ("speed", self.speed if self.speed != 1 else None),
            ("block", self.hash_tokens if self.hash_tokens != 512 else None),
            ("n", self.requests),
            ("for", None if self.for_s is None else f"{plain(self.for_s)}s"),
            ("warmup", self.warmup or None),
            ("seed", self.seed or None),
            ("api", None if self.api == "completions" else self.api),
            ("ignore_eos", None if self.ignore_eos else "no"),
            ("workers", self.workers if self.workers > 1 else None),
        )
        return [f"{key}={plain(value)}" for key, value in given if value is not None]


def highest_percentile(samples: int) -> float | None:
    """The highest of p99.9, p99, p95, p90, p50 that so many samples carry."""
    return next((p for p in PERCENTILES if samples >= samples_needed(p)), None)


def thin(phase: PlannedPhase) -> str | None:
    """In words, why the phase is too short for its p99; None when it is long enough."""
    needed = samples_needed(0.99)
    expected = phase.requests
    if phase.rate_per_s is not None and phase.for_s is not None:
        in_time = int(phase.rate_per_s * phase.for_s)
        expected = in_time if expected is None else min(expected, in_time)
    if expected is None:
        return f"{phase.name}: how many requests it will measure is not known before; p99 needs {needed}"
    if expected >= needed:
        return None
    highest = highest_percentile(expected)
    carry = f"carry percentiles up to p{highest * 100:g}" if highest else "carry no percentile"
    return f"{phase.name}: {expected} requests {carry}; p99 needs {needed} (n={needed})"


def _file_name(path: str | None) -> str | None:
    if path is None:
        return None
    name = PurePath(path).name
    if not re.search(r"[\s,'\"]", name):
        return name
    return f"'{name}'" if '"' in name else f'"{name}"'


def plain(value: object) -> str:
    """A number as short as it can be written and read back alike."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)
