"""What other flags would have done: a recorded load on the fitted engine, as it was and as it would have been.

With the recorded flags the engine's answer can be held against the recording: that is its error. First it is asked as
the profile has it, which knows nothing of this recording, then with the factors of its own host and GPU, with
which the new flags are tried, too. With those it cannot be checked, and the error is the doubt about what it says. A
difference smaller than that is none.

    doubt = max(error on this recording, usual error of the profile) x the larger of both values,
            or what another seed changes, or of a count its square root, where that is more

The usual error is that on runs which the profile was not fitted on, where it states some, else on those that it was,
root mean square. Errors are shares of the recorded value; of a value that was 0 it is the absolute one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

from vtop.difference import judged
from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags, option
from vtop.engine.fit.calibration import AS_FITTED, HostFactors, with_host_factors
from vtop.engine.fit.profile import Profile, Residual
from vtop.engine.runs.measured import NUMBERS, Bounds, Levels, Measured, Number, mean_of, of_requests, simulated
from vtop.engine.runs.replay import Load, replay
from vtop.engine.runs.runs import Run
from vtop.errors import VtopError

TRIES: Final = 3  # it is chance who meets whom in a step

# an error on the recording itself, as a share of what was recorded, beyond which nothing is said; and of times so much
ABSURD: Final = {"output_per_s": 0.2, "ttft_s": 0.5, "e2e_s": 0.2}
ABSURD_S: Final = 0.02

WITHIN, NO_ERROR, UNKNOWN = "within the error", "error not known", "not known"  # else as vtop.difference says


@dataclass(frozen=True, slots=True)
class Simulated:
    """A load on the simulated engine: the mean of several tries, and each of them."""

    measured: Measured
    tries: tuple[Measured, ...]
    refused: int  # requests that could never finish
    most_running: int
    span_s: float  # of virtual time, all tries together


@dataclass(frozen=True, slots=True)
class Row:
    """One number. error and doubt are in its unit; error_ratio is a share of the recorded value."""

    number: Number
    recorded: float | None
    alone: float | None  # simulated with the recorded flags, by the profile alone
    alone_error: float | None
    alone_ratio: float | None  # of the recorded value
    before: float | None  # and with the factors of its own host and GPU
    error: float | None
    error_ratio: float | None
    after: float | None  # and with the new ones
    difference: float | None
    doubt: float | None  # of the difference: half its interval
    verdict: str


@dataclass(frozen=True, slots=True)
class WhatIf:
    """An answer. `before` is the same load with the flags of the recording."""

    run: Run
    flags: Flags
    factors: HostFactors
    alone: Simulated  # as before, by the profile alone
    before: Simulated
    after: Simulated
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]  # what makes the answer weaker than it looks


def what_if(
    run: Run, profile: Profile, flags: Flags, bounds: Bounds | None = None, factors: HostFactors = AS_FITTED
) -> WhatIf:
    """Raises VtopError where no request of the run could be served with the flags, TooFarOff where its error on
    the recording itself is absurd."""
    here = with_host_factors(profile, factors)
    before = simulate(run, run.flags, here, bounds)
    off = too_far_off(run, before)
    if off is not None and flags != run.flags:
        raise TooFarOff(off)
    alone = before if factors == AS_FITTED else simulate(run, run.flags, profile, bounds)
    after = before if flags == run.flags else simulate(run, flags, here, bounds)
    recorded = recorded_of(run, bounds)
    rows = tuple(_row(number, recorded, (alone, before, after), profile) for number in NUMBERS)
    return WhatIf(
        run=run,
        flags=flags,
        factors=factors,
        alone=alone,
        before=before,
        after=after,
        rows=tuple(row for row in rows if row.before is not None or row.recorded is not None),
        remarks=(
            *((off,) if off is not None else ()),
            *run.remarks,
            *remarks(run, profile, before, [(flags, after)] if after is not before else []),
        ),
    )


class TooFarOff(VtopError):
    """The engine is so far off on the recording itself that it can say nothing of other flags."""


def too_far_off(run: Run, before: Simulated) -> str | None:
    """Why nothing is said of other flags: with the recorded ones the simulation is not like the recording (ABSURD)."""
    recorded, off = recorded_of(run, None), []
    for number in NUMBERS:
        real, found = getattr(recorded, number.name), getattr(before.measured, number.name)
        if number.name not in ABSURD or not real or found is None:
            continue
        bound = ABSURD[number.name]
        if abs(found - real) > max(bound * abs(real), ABSURD_S if number.unit == "s" else 0.0):
            off.append(f"{_percent(found / real - 1)} in {number.label} (at most {bound * 100:.0f} %)")
    if not off:
        return None
    return (
        f"{run.name}: no answer: the simulated engine is off by {', '.join(off)} on the recording itself; was the "
        "server started with other flags than those taken (--was-max-num-seqs, --was-max-num-batched-tokens), or is it "
        "another kind of server than the profile's (vtop fit)?"
    )


def _percent(share: float) -> str:
    return f"{share * 100:+,.0f} %".replace("-", "−")


def simulate(run: Run, flags: Flags, profile: Profile, bounds: Bounds | None = None) -> Simulated:
    """The run's load on an engine with these flags. Raises VtopError where it could serve none of it."""
    tries, span_s, refused, most = [], 0.0, 0, 0
    for seed in range(TRIES):
        engine = Engine(flags, profile.timing, profile.frontend, run.shape or profile.shape)
        levels = Levels(engine)
        done = replay(replace(run.load, seed=seed), engine, levels)
        if not done.requests:
            raise VtopError(
                f"with {changes(run.flags, flags) or 'the recorded flags'} no request of {run.name} fits: "
                f"{_longest(run.load):,} tokens are more than {flags.most_tokens():,}"
            )
        tries.append(simulated(done, levels, bounds, max(1, run.observed.requests)))
        span_s += done.span_s
        refused, most = done.refused, max(most, levels.most_running)
    return Simulated(mean_of(tries), tuple(tries), refused, most, span_s)


def recorded_of(run: Run, bounds: Bounds | None) -> Measured:
    """What the recording says of the same numbers."""
    seen = run.observed
    output = sum(ask.output_tokens for ask in run.load.asks)
    return Measured(
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


def changes(before: Flags, after: Flags) -> str:
    """The flags that differ, as they are typed."""
    words = []
    if after.kv_tokens != before.kv_tokens:
        words.append(f"--kv-tokens {after.kv_tokens}")
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        if getattr(after, name) != getattr(before, name):
            words.append(f"{option(name)} {getattr(after, name)}")
    return " ".join(words)


@dataclass(frozen=True, slots=True)
class Error:
    """How far off the model is in one number. share: of the value; absolute: in its unit, of a value that was 0."""

    number: Number
    share: float
    absolute: float

    def doubt(self, one: Simulated, other: Simulated) -> float:
        """How far off the difference of two simulations may be, in the number's unit."""
        values = [getattr(side.measured, self.number.name) for side in (one, other)]
        size = max((abs(value) for value in values if value is not None), default=0.0)
        counted = sqrt(size) if self.number.counted else 0.0
        return max(self.share * size, self.absolute, counted, _chance(self.number, one), _chance(self.number, other))


def error_of(number: Number, recorded: float | None, before: Simulated, profile: Profile) -> Error | None:
    """From this recording and from those that the profile states; None where neither says anything."""
    found = getattr(before.measured, number.name)
    stated = profile.held_out or profile.residuals
    fitted = typical(stated, number.residual) if number.residual and stated else None
    if recorded is None or found is None:
        return Error(number, fitted, 0.0) if fitted is not None else None
    off = abs(found - recorded)
    return Error(number, max(off / abs(recorded), fitted or 0.0), 0.0) if recorded else Error(number, 0.0, off)


def typical(residuals: Sequence[Residual], name: str) -> float:
    """The usual error on some runs, as a share: root of the mean square."""
    return sqrt(sum(getattr(one, name) ** 2 for one in residuals) / len(residuals))


def verdict_of(number: Number, difference: float | None, doubt: float | None) -> str:
    """What may be said of a difference."""
    if difference is None:
        return UNKNOWN
    interval = (difference - doubt, difference + doubt) if doubt is not None else None
    found = judged(difference, interval, number.better)
    return {"within": WITHIN, "no interval": NO_ERROR}.get(found, found)


def remarks(
    run: Run, profile: Profile, before: Simulated, others: Sequence[tuple[Flags, Simulated]]
) -> tuple[str, ...]:
    """Where the answer leaves what the profile was fitted on, and what was left out of it."""
    asks = run.load.asks
    recorded = {
        "prompt_tokens": [ask.prompt_tokens for ask in asks],
        "output_tokens": [ask.output_tokens for ask in asks],
        "kv_tokens": [run.flags.kv_tokens],
        "max_num_batched_tokens": [run.flags.max_num_batched_tokens],
        "in_flight": [before.most_running],
    }
    asked = {
        "kv_tokens": [flags.kv_tokens for flags, _ in others],
        "max_num_batched_tokens": [flags.max_num_batched_tokens for flags, _ in others],
        "in_flight": [side.most_running for _, side in others],
    }
    found = []
    if outside := _outside(recorded, profile.holds):
        found.append(
            f"this recording is beyond what {profile.name} was fitted on: {outside}; its error shows how far it holds"
        )
    reached = {
        name: (min(low, *recorded[name]), max(high, *recorded[name])) for name, (low, high) in profile.holds.items()
    }
    if outside := _outside(asked, reached):
        found.append(
            f"beyond every recording that the model was held against: {outside}; its error may be larger there"
        )
    if run.shape is None:
        found.append(f"the model's shape is not on record (--model-config tells it): that of {profile.name} taken")
    elif run.shape != profile.shape:
        found.append(f"{profile.name} was fitted on a model of another shape")
    seen = profile.fitted_on(run.recording)
    if seen:
        found.append(f"{profile.name} was fitted on this recording, too: its error on one it has not seen is larger")
    elif seen is None:
        found.append(
            f"whether {profile.name} was fitted on this recording is not known; errors look smaller where it was"
        )
    refused = max((side.refused for _, side in others), default=0)
    if refused:
        found.append(f"{refused} of {len(asks)} requests are longer than the pool or the model's length: left out")
    return tuple(found)


def _outside(values: Mapping[str, Sequence[float]], ranges: Mapping[str, tuple[float, float]]) -> str:
    """What leaves the ranges, in words; a range that is not stated is not left."""
    found = []
    for name, given in values.items():
        if name not in ranges:
            continue
        least, most = ranges[name]
        if name == "in_flight":
            least = 0.0  # fewer run at first and at last in every run
        if beyond := sorted({value for value in given if not least <= value <= most}):
            words = "running" if name == "in_flight" else name.replace("_", " ")
            found.append(f"{words} {_span(beyond[0], beyond[-1])} ({_span(least, most)})")
    return ", ".join(found)


def _span(least: float, most: float) -> str:
    return f"{least:,.0f}" if least == most else f"{least:,.0f}–{most:,.0f}"


def _longest(load: Load) -> int:
    return max(ask.prompt_tokens + ask.output_tokens for ask in load.asks)


def _chance(number: Number, side: Simulated) -> float:
    """How far a try lies from the mean of all, at most."""
    mean = getattr(side.measured, number.name)
    return max((abs(getattr(one, number.name) - mean) for one in side.tries), default=0.0)


def _row(number: Number, recorded: Measured, sides: tuple[Simulated, Simulated, Simulated], profile: Profile) -> Row:
    """sides: by the profile alone, with host factors, and so with the new flags."""
    real = getattr(recorded, number.name)
    alone, one, other = (getattr(side.measured, number.name) for side in sides)
    off, alone_off = _less(one, real), _less(alone, real)
    difference = _less(other, one)
    known = error_of(number, real, sides[1], profile)
    doubt = known.doubt(*sides[1:]) if known is not None and difference is not None else None
    return Row(
        number=number,
        recorded=real,
        alone=alone,
        alone_error=alone_off,
        alone_ratio=_share(alone_off, real),
        before=one,
        error=off,
        error_ratio=_share(off, real),
        after=other,
        difference=difference,
        doubt=doubt,
        verdict=verdict_of(number, difference, doubt),
    )


def _less(value: float | None, other: float | None) -> float | None:
    return value - other if value is not None and other is not None else None


def _share(value: float | None, of: float | None) -> float | None:
    return value / abs(of) if value is not None and of else None
