"""A recorded load on the simulated engine, with any flags, on the same server several times or on plausible ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags, option
from vtop.engine.core.host_drift import HostDrift
from vtop.engine.fit.calibration import AS_FITTED, HostFactors, with_host_factors
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import Bounds, Levels, MeasuredNumber, RunNumbers, mean_of, of_requests, simulated
from vtop.engine.runs.replay import ReplayLoad, replay
from vtop.engine.runs.runs import Run
from vtop.engine.whatif.unknowns import AGAIN, DRAWS, ELSEWHERE, Draw, by_chance_alone, draws
from vtop.errors import VtopError

ALIKE: Final = by_chance_alone()


@dataclass(frozen=True, slots=True)
class SimulatedLoad:
    """A load on the simulated engine: the mean of several tries, one a draw, and each of them."""

    measured: RunNumbers
    tries: tuple[RunNumbers, ...]
    refused: int  # requests that could never finish
    most_running: int
    span_s: float  # of virtual time, all tries together


def plausible(factors: HostFactors, count: int = DRAWS) -> tuple[Draw, ...]:
    """Servers that the recorded one may be at another time, or any one where its host's factors are not known."""
    return draws(factors, ELSEWHERE if factors == AS_FITTED else AGAIN, count)


def simulate(
    run: Run,
    flags: Flags,
    profile: Profile,
    bounds: Bounds | None = None,
    given: Sequence[Draw] = ALIKE,
) -> SimulatedLoad:
    """The run's load on an engine with these flags, once for each draw. Raises VtopError where it could serve none."""
    tries, span_s, refused, most = [], 0.0, 0, 0
    for draw in given:
        here = with_host_factors(profile, draw.factors)
        drift = HostDrift(draw.drift, draw.seed) if draw.drift else None
        engine = Engine(flags, here.timing, here.frontend, run.shape or profile.shape, drift=drift)
        scraped_s = (run.scrapes_apart_s * Random(draw.seed).random(), run.scrapes_apart_s) if draw.drift else None
        levels = Levels(engine, scraped_s)
        done = replay(replace(run.load, seed=draw.seed), engine, levels)
        if not done.requests:
            raise VtopError(
                f"with {changes(run.flags, flags) or 'the recorded flags'} no request of {run.name} fits: "
                f"{_longest(run.load):,} tokens are more than {flags.most_tokens():,}"
            )
        tries.append(simulated(done, levels, bounds, max(1, run.observed.requests)))
        span_s += done.span_s
        refused, most = done.refused, max(most, levels.most_running)
    return SimulatedLoad(mean_of(tries), tuple(tries), refused, most, span_s)


def recorded_of(run: Run, bounds: Bounds | None) -> RunNumbers:
    """What the recording says about the same numbers."""
    seen = run.observed
    output = sum(ask.output_tokens for ask in run.load.asks)
    return RunNumbers(
        output_per_s=output / seen.span_s if seen.span_s else None,
        requests_per_s=len(run.load.asks) / seen.span_s if seen.span_s else None,
        ttft_s=seen.ttft_s,
        queue_s=seen.queue_s,
        prefill_s=seen.prefill_s,
        frontend_s=seen.frontend_s,
        e2e_s=seen.e2e_s,
        running=seen.running,
        waiting=seen.waiting,
        kv_ratio=seen.kv_ratio,
        preemptions=None if seen.preemptions is None else float(seen.preemptions),
        recomputed_ratio=seen.recomputed_ratio,
        **of_requests(seen.answers, seen.span_s, bounds),
    )


def values(side: SimulatedLoad, number: MeasuredNumber) -> list[float | None]:
    """Of each try."""
    return [getattr(one, number.name) for one in side.tries]


def changes(before: Flags, after: Flags) -> str:
    """The flags that differ, as they are typed."""
    words = []
    if after.kv_tokens != before.kv_tokens:
        words.append(f"--kv-tokens {after.kv_tokens}")
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        if getattr(after, name) != getattr(before, name):
            words.append(f"{option(name)} {getattr(after, name)}")
    return " ".join(words)


def _longest(load: ReplayLoad) -> int:
    return max(ask.prompt_tokens + ask.output_tokens for ask in load.asks)
