"""The coefficients of a server, derived from recordings of it: the simulated runs are made to agree with the real ones.

What is compared is what the server's own histograms say of each run's finished requests: the time of prefill, decode,
the frontend and the whole. The prefill time at one in flight is the duration of a lone prefill step, that at eight of a
full one, decode at each concurrency the duration of a step by its size: totals alone could not tell these apart.
Coefficients that the runs say nothing about stay where physics expects them. Levenberg-Marquardt on their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtop.engine.core.engine import Engine
from vtop.engine.core.model_shape import QWEN_7B, ModelShape
from vtop.engine.core.timing import Frontend, Timing
from vtop.engine.fit.least_squares import Vector, least_squares
from vtop.engine.runs.replay import Replayed, ReplayLoad, measures, replay
from vtop.engine.runs.runs import Run


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One that is fitted: where physics expects it, and by what factor it may well differ from that."""

    name: str
    expected: float
    factor: float


# of a data centre's GPU of 2024; a recording of any other pulls them to where they are there
COEFFICIENTS = (
    Coefficient("bandwidth_bytes_s", 3.2e12, 4.0),
    Coefficient("compute_flops_s", 700e12, 4.0),
    Coefficient("attention_flops_s", 500e12, 1.3),
    Coefficient("fixed_s", 0.6e-3, 2.0),
    Coefficient("launch_eager_s", 25e-3, 1.5),
    Coefficient("boost_s", 0.12, 1.3),
    Coefficient("throttled", 0.2, 1.6),  # beyond 1
    Coefficient("finish_s", 0.6e-3, 1.5),
    Coefficient("client_s", 4e-3, 2.0),
    Coefficient("launch_pieces_s", 7.5e-3, 1.3),
)
# what runs at one a second say too little about; the launches and plan_row_s by stamps in an H200 server's own thread
ASSUMED = {
    "row_s": 1.2e-6,
    "plan_row_s": 26e-6,
    "launch_graph_s": 2.6e-3,
    "launch_warm_s": 15e-3,  # the mean of two hosts
    "warm_per_s": 6.0,
    "boost_recovery_s": 0.4,
    "parse_s": 0.85e-3,
    "submit_s": 0.45e-3,
    "token_s": 40e-9,
    "output_s": 60e-6,  # the API server's CPU time per token at 64 and more in flight, as its scrape counts it
    "hop_s": 0.7e-3,
}
SPEEDS = ("bandwidth_bytes_s", "compute_flops_s", "attention_flops_s")
SLOWER = tuple(4.0**power for power in range(10))
_FRONTEND = {"parse_s", "submit_s", "token_s", "output_s", "finish_s", "hop_s", "client_s"}

# a measure and how far off, as a share, it may well be; the floor keeps what is next to nothing from ruling
WEIGHED = (("e2e_s", 0.003), ("decode_s", 0.015), ("ttft_s", 0.04), ("prefill_s", 0.05), ("frontend_s", 0.3))
FLOOR_S = 0.0005
ROUNDS = 10
TRIES, UNSTEADY = 3, 8  # from so many in flight on, who meets whom in a step is chance


@dataclass(frozen=True, slots=True)
class FittedRun:
    """A run and its simulation."""

    run: Run
    simulated: Replayed
    measured: dict[str, float]

    def error(self, name: str) -> float:
        """The simulation's, as a share of the recorded: e2e_s, ttft_s, prefill_s, decode_s, queue_s, frontend_s."""
        real = getattr(self.run.observed, name)
        return float((self.measured[name] - real) / real)


@dataclass(frozen=True, slots=True)
class FitResult:
    timing: Timing
    frontend: Frontend
    shape: ModelShape
    compared: tuple[FittedRun, ...]
    spread: dict[str, float]  # factor by which each coefficient may be off, as far as the runs tell


def fit(
    runs: Sequence[Run],
    *,
    shape: ModelShape | None = None,
    expected: Mapping[str, float] | None = None,
    rounds: int = ROUNDS,
) -> FitResult:
    """The coefficients that make the simulated runs most like the recorded ones.

    expected: where coefficients of another GPU than a data centre's are to be looked for; without it, a GPU so many
    times slower is tried first, down to a CPU.
    """
    known = shape or next((run.shape for run in runs if run.shape is not None), QWEN_7B)
    table = _slower(runs, known) if expected is None else _table(expected)
    factors = np.log([coefficient.factor for coefficient in COEFFICIENTS])

    def off(at: Vector) -> Vector:
        """How far off everything is, in units of what it may well be."""
        timing, frontend = _coefficients(table, at)
        rows = [misses(run, timing, frontend, known) for run in runs]
        return np.concatenate([np.concatenate(rows), at / factors])

    at, jacobian = least_squares(off, np.zeros(len(COEFFICIENTS)), factors, rounds)
    timing, frontend = _coefficients(table, at)
    covariance = np.linalg.inv(jacobian.T @ jacobian)
    spread = {c.name: float(math.exp(math.sqrt(v))) for c, v in zip(COEFFICIENTS, np.diag(covariance), strict=True)}
    return FitResult(timing, frontend, known, compare(runs, timing, frontend, known), spread)


def _table(expected: Mapping[str, float]) -> tuple[Coefficient, ...]:
    return tuple(replace(c, expected=expected.get(c.name, c.expected)) for c in COEFFICIENTS)


def _slower(runs: Sequence[Run], shape: ModelShape) -> tuple[Coefficient, ...]:
    """Where the coefficients are looked for: at those of the GPU among SLOWER that the runs are most like."""
    speeds = [c for c in COEFFICIENTS if c.name in SPEEDS]
    classes = [_table({c.name: c.expected / times for c in speeds}) for times in SLOWER]
    here = np.zeros(len(COEFFICIENTS))

    def apart(table: tuple[Coefficient, ...]) -> float:
        timing, frontend = _coefficients(table, here)
        return float(sum(np.sum(np.abs(np.log(_ratios(run, timing, frontend, shape)))) for run in runs))

    return min(classes, key=apart)


def _ratios(run: Run, timing: Timing, frontend: Frontend, shape: ModelShape) -> Vector:
    """How many times too slow prefill and decode of a run are simulated."""
    found = measures(replay(shortened(run.load), Engine(run.flags, timing, frontend, shape)).requests)
    names = ("prefill_s", "decode_s")
    return np.array([(found[name] + FLOOR_S) / (getattr(run.observed, name) + FLOOR_S) for name in names])


def compare(runs: Sequence[Run], timing: Timing, frontend: Frontend, shape: ModelShape) -> tuple[FittedRun, ...]:
    """The runs as they were against what the engine makes of them."""
    compared = []
    for run in runs:
        simulated = replay(run.load, Engine(run.flags, timing, frontend, shape))
        compared.append(FittedRun(run, simulated, measures(simulated.requests[: run.observed.requests])))
    return tuple(compared)


def _coefficients(table: Sequence[Coefficient], at: Vector) -> tuple[Timing, Frontend]:
    """From logarithms relative to the expected ones. A throttled GPU is never the faster one."""
    values = {c.name: c.expected * math.exp(x) for c, x in zip(table, at, strict=True)}
    values |= ASSUMED
    values["throttled"] += 1.0
    frontend = {name: value for name, value in values.items() if name in _FRONTEND}
    timing = {name: value for name, value in values.items() if name not in _FRONTEND}
    return Timing(**timing), Frontend(**frontend)


def shortened(load: ReplayLoad) -> ReplayLoad:
    """Of a long steady run only as much as says what it is like: one with so few in flight that how they all began at
    once is nothing to the mean."""
    if load.concurrency is None or load.concurrency >= UNSTEADY or not load.uniform:
        return load
    return replace(load, asks=load.asks[: max(8, 6 * load.concurrency)])


def misses(run: Run, timing: Timing, frontend: Frontend, shape: ModelShape) -> Vector:
    """How far a run's simulation is off, by measure, in units of what it may well be: the mean of several, since whose
    answer comes first is chance."""
    load = shortened(run.load)
    steady = load.concurrency is not None and not UNSTEADY <= load.concurrency <= len(load.asks) / 4
    tries = 1 if steady else TRIES
    tried = []
    for seed in range(tries):
        simulated = replay(replace(load, seed=seed), Engine(run.flags, timing, frontend, shape))
        tried.append(measures(simulated.requests[: run.observed.requests]))  # the scrapes may have missed the last ones
    rows = []
    for name, share in WEIGHED:
        real = float(getattr(run.observed, name))
        found = sum(one[name] for one in tried) / tries
        rows.append((found - real) / (share * real + FLOOR_S))
    return np.array(rows)
