"""What a search of capacity came to, put together: the bracket and all that stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vtop.errors import VtopError
from vtop.load.workload.phase import PlannedPhase
from vtop.load.workload.spec import phases
from vtop.plan import vllm_bench
from vtop.plan.headroom import Headroom, headroom
from vtop.session.capacity.record import RecordedSearch, beside
from vtop.session.capacity.runs import ClosedLoopRun
from vtop.session.capacity.search import (
    Bracket,
    Paired,
    Plan,
    RateResult,
    RunResult,
    by_the_other_rule,
    goodput_of,
    paired,
)
from vtop.session.frame.capacity import SimulatedCapacity
from vtop.session.frame.gpus import counted_of
from vtop.session.session import Session


@dataclass(frozen=True, slots=True)
class Searched:
    """A search that was made. origin: what was searched; like: the load of a run but for its rate. profile: of the
    engine that was simulated."""

    recorded: RecordedSearch
    origin: str
    like: PlannedPhase
    url: str | None
    profile: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CapacityResult:
    """All of one search. requests_sent: of all runs. goodput: requests that kept the service level at the passing rate;
    by the GPUs that serve, None where those are not known."""

    plan: Plan
    bounds: tuple[tuple[str, float], ...]  # ttft, tpot, e2e; seconds
    bracket: Bracket
    other_rule: str  # its name, and what the same runs say by it
    other_bracket: Bracket
    why: str | None  # it ended, in detail
    rates: tuple[RateResult, ...]
    held: tuple[RunResult, ...]
    refused: tuple[RunResult, ...]
    closed: tuple[ClosedLoopRun, ...]
    arrival: str
    spec: str  # of each request
    origin: str
    requests_sent: int
    zero_load: tuple[int, int] | None  # requests that were alone on the server, and how many of them kept every bound
    gpus: int | None
    goodput_per_s: float | None
    goodput_per_gpu_per_s: float | None
    headroom: Headroom | None
    hosts: tuple[Bracket, ...]  # of a simulated search: on so many other plausible hosts
    simulated: SimulatedCapacity | None  # before a measured one
    simulated_rates: tuple[tuple[float, float], ...]  # (rate, mean attainment)
    remarks: tuple[str, ...]
    bench_command: str | None  # of the same load, for the server's own benchmark


@dataclass(frozen=True, slots=True, eq=False)
class CapacityAnswer:
    """One search, or two of one plan on two servers and what lies between them, seed by seed."""

    searches: tuple[CapacityResult, ...]
    paired: tuple[Paired, ...] = ()


def together(made: Sequence[Searched], scale_out_s: float | None = None, growth_ratio: float = 0.0) -> CapacityAnswer:
    """What the searches came to."""
    results = tuple(_result(one, scale_out_s, growth_ratio) for one in made)
    both = paired(made[0].recorded.search, made[1].recorded.search) if len(made) == 2 else ()
    return CapacityAnswer(results, both)


def on_record(session: Session) -> tuple[CapacityResult, ...]:
    """Every search in a recording. One whose words this vtop does not understand is left out."""
    found = []
    for one in session.searches.found(session.end_s):
        one.gpus = gpus_of(session)
        try:
            (like,) = phases([f"rate=1 n={one.asked.requests} {one.asked.spec}"])
        except VtopError:
            continue
        url = session.start.servers[one.asked.server].url
        found.append(_result(Searched(one, url, like, url), None, 0.0))
    return tuple(found)


def gpus_of(session: Session) -> int | None:
    """How many GPUs serve; None where NVML tells of none."""
    part = session.gpus.part(session.end_s, 60.0, local=any(target.local for target in session.start.servers))
    return len(counted_of(part.devices)) or None


def _result(made: Searched, scale_out_s: float | None, growth_ratio: float) -> CapacityResult:
    search, asked = made.recorded.search, made.recorded.asked
    bracket, rates = search.bracket(), search.rates()
    runs = [run for rate in rates for run in rate.runs]
    passes, gpus = bracket.passes_per_s, made.recorded.gpus
    good = goodput_of(search)
    bench = replace(made.like, rate_per_s=passes, requests=asked.requests, seed=asked.seed)
    other_plan, other_bracket = by_the_other_rule(search)
    return CapacityResult(
        plan=search.plan,
        bounds=tuple(asked.slo.items()),
        bracket=bracket,
        other_rule=other_plan.name,
        other_bracket=other_bracket,
        why=search.why,
        rates=rates,
        held=tuple(search.held.values()),
        refused=tuple(search.refused),
        closed=tuple(made.recorded.closed),
        arrival=made.like.arrival or "poisson",
        spec=asked.spec,
        origin=made.origin,
        requests_sent=sum(one.requests for one in (*runs, *search.held.values(), *search.refused)),
        zero_load=search.zero_load,
        gpus=gpus,
        goodput_per_s=good,
        goodput_per_gpu_per_s=good / gpus if good is not None and gpus else None,
        headroom=headroom(passes, scale_out_s, growth_ratio, made.like.arrival) if passes and scale_out_s else None,
        hosts=tuple(made.recorded.hosts),
        simulated=beside(asked.simulated, bracket) if asked.simulated is not None else None,
        simulated_rates=asked.simulated.attained if asked.simulated is not None else (),
        remarks=tuple(made.recorded.remarks),
        bench_command=vllm_bench.command(bench, asked.slo, made.url),
    )
