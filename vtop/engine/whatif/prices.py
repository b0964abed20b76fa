"""The price of each limit: what a tenth more of it would be worth to a recorded load, by the simulated engine.

The load runs again with 10 % more of the KV pool, of max-num-seqs, of the token budget, of the GPU's speed and of the
speed of the engine's thread. Each pair of simulations has the same plausible server and the same chance, so a
difference is far more certain than either value. The limit that binds is the one that is worth something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, inf, log
from statistics import fmean
from typing import Final

from vtop.engine.core.flags import Flags
from vtop.engine.core.timing import captured
from vtop.engine.fit.calibration import AS_FITTED, LAUNCHES, HostFactors
from vtop.engine.fit.fit import SPEEDS, shortened
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import RunNumbers
from vtop.engine.runs.runs import Run
from vtop.engine.whatif.flag_search import with_flag
from vtop.engine.whatif.simulation import SimulatedLoad, plausible, simulate
from vtop.engine.whatif.unknowns import CONFIDENCE, Draw, by_chance_alone, ratio_doubt
from vtop.engine.whatif.whatif import TooFarOff, remarks, too_far_off
from vtop.samples import half_of_mean
from vtop.session.frame.prices import FLAGS, GAIN, SOONER, Price, Prices, Suggestion, Worth

MORE: Final = 0.1
SERVERS: Final = 5
LESS: Final = (0.5, 0.25, 0.125)  # times the token budget, where no flag binds and prompts queue
QUEUED: Final = 0.1  # of the mean TTFT
TRIED: Final = (1.25, 1.5, 2.0)  # times the flag that binds: the best of them is suggested
NONE: Final = Worth(0.0, 0.0, 0.0)
_THREAD: Final = (*LAUNCHES, "launch_graph_s", "plan_row_s")
STEP_S: Final = 12e-6  # that simulating a step takes, roughly


@dataclass(frozen=True, slots=True)
class _Limit:
    more: Callable[[Flags, Profile], tuple[Flags, Profile]]
    value: Callable[[Flags], int] | None
    flag: str | None = None  # that sets it, as it is typed and as a search knows it


def _of_pool(flags: Flags, profile: Profile) -> tuple[Flags, Profile]:
    return replace(flags, num_gpu_blocks=_more(flags.num_gpu_blocks)), profile


def _of_seqs(flags: Flags, profile: Profile) -> tuple[Flags, Profile]:
    seqs = _more(flags.max_num_seqs)
    if captured(flags.max_num_seqs) == flags.max_num_seqs:  # a graph for all of them: to the next size that has one
        seqs = next(size for size in range(seqs, 2 * seqs + 16) if captured(size) == size)
    return replace(flags, max_num_seqs=seqs, max_num_batched_tokens=max(seqs, flags.max_num_batched_tokens)), profile


def _of_budget(flags: Flags, profile: Profile) -> tuple[Flags, Profile]:
    return replace(flags, max_num_batched_tokens=_more(flags.max_num_batched_tokens)), profile


def _of_gpu(flags: Flags, profile: Profile) -> tuple[Flags, Profile]:
    faster = {name: getattr(profile.timing, name) * (1.0 + MORE) for name in SPEEDS}
    return flags, replace(profile, timing=replace(profile.timing, **faster))


def _of_thread(flags: Flags, profile: Profile) -> tuple[Flags, Profile]:
    quicker = {name: getattr(profile.timing, name) / (1.0 + MORE) for name in _THREAD}
    return flags, replace(profile, timing=replace(profile.timing, **quicker))


_LIMITS: Final = {
    "kv": _Limit(_of_pool, lambda flags: flags.kv_tokens, "kv-tokens"),
    "max-num-seqs": _Limit(_of_seqs, lambda flags: flags.max_num_seqs, "max-num-seqs"),
    "token-budget": _Limit(_of_budget, lambda flags: flags.max_num_batched_tokens, "max-num-batched-tokens"),
    "gpu": _Limit(_of_gpu, None),
    "launch": _Limit(_of_thread, None),
}
LIMITS: Final = tuple(_LIMITS)


def prices(run: Run, profile: Profile, factors: HostFactors = AS_FITTED, servers: int = SERVERS) -> Prices:
    """Of a run's load; a long steady one is cut. Raises TooFarOff where the error on the recording itself is absurd."""
    whole = simulate(run, run.flags, profile, None, by_chance_alone(factors))
    if (off := too_far_off(run, whole)) is not None:
        raise TooFarOff(off)
    cut = replace(run, load=shortened(run.load))
    given = plausible(factors, servers)
    base = simulate(cut, run.flags, profile, None, given)
    found, span_s = [], whole.span_s + base.span_s
    for name, limit in _LIMITS.items():
        flags, faster = limit.more(run.flags, profile)
        changed = simulate(cut, flags, faster, None, given[:1])
        if same := _alike(changed.tries[0], base.tries[0]):  # nothing came of it, so nothing will on any server
            output = ttft = NONE
        else:
            changed = simulate(cut, flags, faster, None, given)
            output, ttft = _worths(base, changed)
        span_s += changed.span_s
        value = limit.value
        before, after = (value(run.flags), value(flags)) if value is not None else (None, None)
        found.append(Price(name, before, after, output, ttft, 1 if same else servers))
    made = Prices(run.name, run.phase, tuple(found), None, (*run.remarks, *remarks(run, profile, whole, [])), span_s)
    binding = made.binding
    if binding is not None and binding.limit in FLAGS:
        return replace(made, suggestion=_suggested(cut, profile, given, base, binding))
    return replace(made, suggestion=_smaller_steps(cut, profile, given, base))


def _suggested(
    cut: Run, profile: Profile, given: Sequence[Draw], base: SimulatedLoad, binding: Price
) -> Suggestion | None:
    """The flag that binds, at the best of some larger values."""
    limit = _LIMITS[binding.limit]
    if limit.value is None or limit.flag is None:
        return None
    found = []
    for times in TRIED:
        value = ceil(times * limit.value(cut.flags))
        output, ttft = _promised(base, simulate(cut, with_flag(cut.flags, limit.flag, value), profile, None, given))
        found.append(Suggestion(binding.limit, f"--{limit.flag} {value}", output, ttft))
    by_output = [one for one in found if one.output.low >= GAIN]
    if by_output:
        return max(by_output, key=lambda one: one.output.ratio)
    by_ttft = [one for one in found if one.ttft.high <= -SOONER]
    return min(by_ttft, key=lambda one: one.ttft.ratio) if by_ttft else None


def _smaller_steps(cut: Run, profile: Profile, given: Sequence[Draw], base: SimulatedLoad) -> Suggestion | None:
    """Of some smaller token budgets that cost no throughput the one with the soonest first token: where prompts queue
    behind the steps of others."""
    if (base.measured.queue_s or 0.0) < QUEUED * (base.measured.ttft_s or 0.0) or not base.measured.ttft_s:
        return None
    found = []
    for times in LESS:
        value = ceil(times * cut.flags.max_num_batched_tokens)
        if value < cut.flags.max_num_seqs:
            break
        changed = simulate(cut, with_flag(cut.flags, "max-num-batched-tokens", value), profile, None, given)
        output, ttft = _promised(base, changed)
        if output.ratio >= -GAIN and ttft.high <= -SOONER:
            found.append(Suggestion("token-budget", f"--max-num-batched-tokens {value}", output, ttft, more=False))
    return min(found, key=lambda one: one.ttft.ratio) if found else None


def cost_s(run: Run, servers: int = SERVERS) -> float:
    """How long it takes on one core, roughly, with finding the host's factors."""
    load = shortened(run.load)
    at_once = max(1.0, run.observed.running or load.concurrency or 1.0)
    steps = sum(ask.output_tokens for ask in load.asks) / at_once
    return (len(_LIMITS) + len(TRIED) + 1) * servers * 1.1 * steps * STEP_S


def _alike(one: RunNumbers, other: RunNumbers) -> bool:
    return (one.output_per_s, one.ttft_s, one.e2e_s) == (other.output_per_s, other.ttft_s, other.e2e_s)


def _worths(base: SimulatedLoad, changed: SimulatedLoad) -> tuple[Worth, Worth]:
    """Of output tokens/s and of mean TTFT, in the simulated engine."""
    output, ttft = _changes(base, changed)
    return _worth(output, half_of_mean(output, CONFIDENCE)), _worth(ttft, half_of_mean(ttft, CONFIDENCE))


def _promised(base: SimulatedLoad, changed: SimulatedLoad) -> tuple[Worth, Worth]:
    """The same of a server that is started so: with what the model itself is off, as an answer of what-if has it."""
    output, ttft = _changes(base, changed)
    return _worth(output, ratio_doubt("output_per_s", output)), _worth(ttft, ratio_doubt("ttft_s", ttft))


def _changes(base: SimulatedLoad, changed: SimulatedLoad) -> tuple[list[float], list[float]]:
    """The logarithms of how much more each pair has of output tokens/s, and of mean TTFT."""
    pairs = list(zip(base.tries, changed.tries, strict=True))
    return (
        [log(other.output_per_s / one.output_per_s) for one, other in pairs if one.output_per_s and other.output_per_s],
        [log(other.ttft_s / one.ttft_s) for one, other in pairs if one.ttft_s and other.ttft_s],
    )


def _worth(changes: Sequence[float], half: float | None) -> Worth:
    """The mean change and its interval, on a log scale."""
    if len(changes) < 2 or half is None:
        return Worth(0.0, -1.0, inf)
    mean = fmean(changes)
    return Worth(exp(mean) - 1.0, exp(mean - half) - 1.0, exp(mean + half) - 1.0)


def _more(value: int) -> int:
    return ceil(value * (1.0 + MORE) - 1e-9)
