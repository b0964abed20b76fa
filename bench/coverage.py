"""How often the measured value lies in the interval that `vtop whatif` states for it, over all recordings, each left
out with its host and GPU: Markdown tables, and the sizes that unknowns.py has.

usage: python bench/coverage.py. Another host: the profile, fitted without that host's recordings, knows nothing of it.
The same host: another run of the same load there, with the flags of this one. Ten minutes, mostly fits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, median
from typing import Final

from fit_profiles import H200, HELD_OUT, recorded  # type: ignore[import-not-found, unused-ignore]

from vtop import shipped
from vtop.engine.fit import profile
from vtop.engine.fit.calibration import AS_FITTED, HostFactors, host_factors_of
from vtop.engine.fit.fit import fit
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import NUMBERS, MeasuredNumber
from vtop.engine.runs.runs import Run
from vtop.engine.whatif.simulation import SimulatedLoad, recorded_of, simulate, values
from vtop.engine.whatif.unknowns import DRAWS, FactorSpread, Interval, by_chance_alone, draws, interval
from vtop.recording import FileRecording, Gpu

FILES: Final = {**H200, **HELD_OUT, "repeat_second.jsonl.gz": {}}
DRIFTED: Final = 0.65  # of the drift stands in the factor of a run of 20 s, and is simulated beside it
SPENT: Final = 5 / 3  # of five numbers of a run two were spent on its factors: those that are left look better for it
SAID: Final = (
    "output_per_s",
    "ttft_s",
    "ttft_p90_s",
    "queue_s",
    "prefill_s",
    "tpot_s",
    "e2e_s",
    "e2e_p99_s",
    "running",
    "preemptions",
)


@dataclass(frozen=True, slots=True)
class One:
    """A run, where it was measured, and its host's factors."""

    run: Run
    host: str
    factors: HostFactors
    fitted: bool


@dataclass(frozen=True, slots=True)
class Held:
    number: MeasuredNumber
    inside: bool
    width: float | None  # half of it, as a share


def ones() -> list[One]:
    h200 = profile.load("h200-qwen2.5-7b")
    found = []
    for name, flags in FILES.items():
        host = host_of(name)
        found += [One(run, host, host_factors_of(run, h200), name in H200) for run in recorded({name: flags})]
    return found


def host_of(name: str) -> str:
    """The GPU it ran on, which stands for the host."""
    recording = FileRecording(shipped.folder("recordings") / name)
    try:
        while events := recording.take():
            for event in events:
                if isinstance(event, Gpu) and event.gpus and event.gpus[0].uuid:
                    return event.gpus[0].uuid
    finally:
        recording.close()
    return name


def spreads(known: Sequence[One]) -> tuple[FactorSpread, FactorSpread]:
    """Of another host, and of the same one at another time, by the factors of these. From one time to another twice the
    variance about the host's mean: what was recorded is off it, too, and so is what comes."""
    launch, gpu = _spread(known, lambda at: at.launch), _spread(known, lambda at: at.gpu)
    drifted = DRIFTED * FactorSpread(0.0, 0.0).drift
    other, same = (sqrt(max(0.0, of - drifted**2)) for of in (launch[0] ** 2, 2 * launch[1] ** 2))
    return FactorSpread(other, gpu[0]), FactorSpread(same, sqrt(2) * gpu[1])


def _spread(known: Sequence[One], of: Callable[[HostFactors], float]) -> tuple[float, float]:
    by_host = defaultdict(list)
    for one in known:
        by_host[one.host].append(log(of(one.factors)))
    means = {host: fmean(values) for host, values in by_host.items()}
    within = [value - means[host] for host, values in by_host.items() for value in values]
    again = sqrt(sum(value**2 for value in within) / (len(within) - len(means)))
    off = fmean(value**2 for value in means.values())  # from the profile's, too
    return sqrt(again**2 + off), again


def model(known: Sequence[One]) -> dict[str, float]:
    """What the model is off with each run's own factors, root mean square, as a share; of runs it was not fitted on."""
    h200 = profile.load("h200-qwen2.5-7b")
    off = defaultdict(list)
    for one in known:
        if one.fitted:
            continue
        measured, real = (
            simulate(one.run, one.run.flags, h200, None, by_chance_alone(one.factors)).measured,
            recorded_of(one.run, None),
        )
        for number in NUMBERS:
            found, came = getattr(measured, number.name), getattr(real, number.name)
            if found and came and not number.counted and number.name not in ("queue_s", "waiting"):
                off[number.name].append(log(found / came))
    return {name: sqrt(SPENT * fmean(value**2 for value in values)) for name, values in off.items()}


def elsewhere(all_of_them: Sequence[One]) -> Iterator[Held]:
    """Each host's runs, by all that is known of the others."""
    for host in dict.fromkeys(one.host for one in all_of_them):
        others = [one for one in all_of_them if one.host != host]
        known, sizes = without(host, all_of_them), model(others)
        for one in all_of_them:
            if one.host == host:
                given = draws(AS_FITTED, spreads(others)[0], DRAWS)
                tried = simulate(one.run, one.run.flags, known, None, given)
                yield from held(one.run, tried, sizes)


def without(host: str, all_of_them: Sequence[One]) -> Profile:
    """The profile, fitted again where one of its recordings is of that host."""
    fitted = [one for one in all_of_them if one.fitted]
    left = [one.run for one in fitted if one.host != host]
    if len(left) == len(fitted):
        return profile.load("h200-qwen2.5-7b")
    return profile.of_fit(fit(left), "without one", "H200")


def again(all_of_them: Sequence[One]) -> Iterator[Held]:
    """The same load on the same host at another time, mostly with other flags."""
    h200 = profile.load("h200-qwen2.5-7b")
    for host in dict.fromkeys(one.host for one in all_of_them):
        others = [one for one in all_of_them if one.host != host]
        here = [one for one in all_of_them if one.host == host]
        sizes, spread = model(others), spreads(others)[1]
        for one in here:
            for asked in here:
                if asked is not one and _load(asked.run) == _load(one.run):
                    given = draws(one.factors, spread, DRAWS)
                    tried = simulate(one.run, asked.run.flags, h200, None, given)
                    yield from held(asked.run, tried, sizes)


def _load(run: Run) -> tuple[object, ...]:
    return run.load.asks, run.load.concurrency


def held(run: Run, tried: SimulatedLoad, sizes: Mapping[str, float]) -> Iterator[Held]:
    real = recorded_of(run, None)
    for number in NUMBERS:
        came = getattr(real, number.name)
        found: Interval | None = interval(number, values(tried, number), model=sizes)
        if number.name in SAID and came is not None and found is not None:
            width = (found.high - found.low) / 2 / came if came else None
            yield Held(number, found.holds(came), width)


def table(title: str, found: Sequence[Held]) -> None:
    print(f"\n| {title} | values | in the 90 % interval | half its width, median |\n|---|---|---|---|")
    rows = [(number.label, [one for one in found if one.number is number]) for number in NUMBERS]
    for label, of in [*rows, ("all", found)]:
        if of:
            widths = [one.width for one in of if one.width is not None]
            inside = sum(one.inside for one in of)
            wide = f"± {median(widths):.1%}".replace("%", " %") if widths and label != "all" else ""
            print(f"| {label} | {len(of)} | {inside} ({inside / len(of):.0%}) | {wide} |".replace("%)", " %)"))


def main() -> None:
    all_of_them = ones()
    other, same = spreads(all_of_them)
    print(f"another host: launch {other.launch:.3f}, GPU {other.gpu:.4f}; again: {same.launch:.3f}, {same.gpu:.4f}")
    print(", ".join(f"{name} {size:.3f}" for name, size in model(all_of_them).items()))
    print(f"factors: {exp(fmean(log(one.factors.launch) for one in all_of_them)):.2f} in the mean", flush=True)
    table("the same host", list(again(all_of_them)))
    table("another host", list(elsewhere(all_of_them)))


if __name__ == "__main__":
    main()
