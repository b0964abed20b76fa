"""What other flags would have done: a recorded load on the fitted engine, as it was and as it would have been.

With the recorded flags the engine's answer can be held against the recording: that is its error. First it is asked as
the profile has it, which knows nothing of this recording, then with the factors of its own host and GPU, with
which the new flags are tried, too. What comes with those cannot be checked; its doubt is what is not known of the
server, simulated (unknowns.py): an interval of each number, and half of one of each difference, whose two sides are
simulated with the same draws. A difference smaller than that is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vtop.difference import judged
from vtop.engine.core.flags import Flags
from vtop.engine.fit.calibration import AS_FITTED, HostFactors
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import NUMBERS, Bounds, MeasuredNumber, RunNumbers
from vtop.engine.runs.runs import Run
from vtop.engine.whatif.simulation import SimulatedLoad, plausible, recorded_of, simulate, values
from vtop.engine.whatif.unknowns import Interval, by_chance_alone, interval, paired_doubt
from vtop.errors import VtopError

# an error on the recording itself, as a share of what was recorded, beyond which nothing is said; and of times so much
ABSURD: Final = {"output_per_s": 0.2, "ttft_s": 0.5, "e2e_s": 0.2}
ABSURD_S: Final = 0.02

WITHIN, NO_ERROR, UNKNOWN = "within ±", "± not known", "not known"  # else as vtop.difference says


@dataclass(frozen=True, slots=True)
class Row:
    """One number. error and doubt are in its unit; error_ratio is a share of the recorded value."""

    number: MeasuredNumber
    recorded: float | None
    alone: float | None  # simulated with the recorded flags, by the profile alone
    alone_error: float | None
    alone_ratio: float | None  # of the recorded value
    before: float | None  # and with the factors of its own host and GPU
    error: float | None
    error_ratio: float | None
    after: float | None  # and with the new ones
    interval: Interval | None  # in which that may well lie
    difference: float | None
    doubt: float | None  # of the difference: half its interval
    verdict: str


@dataclass(frozen=True, slots=True)
class WhatIf:
    """An answer. `before` is the same load with the flags of the recording."""

    run: Run
    flags: Flags
    factors: HostFactors
    alone: SimulatedLoad  # as before, by the profile alone
    before: SimulatedLoad
    after: SimulatedLoad
    drawn: (
        tuple[SimulatedLoad, SimulatedLoad] | None
    )  # before and after on every plausible server; None: with no other flags
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]  # what makes the answer weaker than it looks


def what_if(
    run: Run, profile: Profile, flags: Flags, bounds: Bounds | None = None, factors: HostFactors = AS_FITTED
) -> WhatIf:
    """Raises VtopError where no request of the run could be served with the flags, TooFarOff where its error on
    the recording itself is absurd."""
    here = by_chance_alone(factors)
    before = simulate(run, run.flags, profile, bounds, here)
    alone = before if factors == AS_FITTED else simulate(run, run.flags, profile, bounds)
    off, after, drawn = too_far_off(run, before), before, None
    if flags != run.flags:
        if off is not None:
            raise TooFarOff(off)
        after = simulate(run, flags, profile, bounds, here)
        given = plausible(factors)
        drawn = (simulate(run, run.flags, profile, bounds, given), simulate(run, flags, profile, bounds, given))
    recorded = recorded_of(run, bounds)
    rows = (_row(number, recorded, (alone, before, after), drawn) for number in NUMBERS)
    return WhatIf(
        run=run,
        flags=flags,
        factors=factors,
        alone=alone,
        before=before,
        after=after,
        drawn=drawn,
        rows=tuple(row for row in rows if row.before is not None or row.recorded is not None),
        remarks=(
            *((off,) if off is not None else ()),
            *run.remarks,
            *remarks(run, profile, before, [(flags, after)] if after is not before else []),
        ),
    )


class TooFarOff(VtopError):
    """The engine is so far off on the recording itself that it can say nothing of other flags."""


def too_far_off(run: Run, before: SimulatedLoad) -> str | None:
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


def verdict_of(number: MeasuredNumber, difference: float | None, doubt: float | None) -> str:
    """What may be said about a difference."""
    if difference is None:
        return UNKNOWN
    interval = (difference - doubt, difference + doubt) if doubt is not None else None
    found = judged(difference, interval, number.better)
    return {"within": WITHIN, "no interval": NO_ERROR}.get(found, found)


def remarks(
    run: Run, profile: Profile, before: SimulatedLoad, others: Sequence[tuple[Flags, SimulatedLoad]]
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


def _row(
    number: MeasuredNumber,
    recorded: RunNumbers,
    sides: tuple[SimulatedLoad, SimulatedLoad, SimulatedLoad],
    drawn: tuple[SimulatedLoad, SimulatedLoad] | None,
) -> Row:
    """sides: by the profile alone, with host factors, and so with the new flags."""
    real = getattr(recorded, number.name)
    alone, one, other = (getattr(side.measured, number.name) for side in sides)
    off, alone_off = _less(one, real), _less(alone, real)
    difference, error_ratio = _less(other, one), _share(off, real)
    doubt = between = None
    if drawn is not None:
        doubt = paired_doubt(number, *(values(side, number) for side in drawn))
        between = interval(number, values(drawn[1], number), error_ratio)
        if between is not None and other is not None:
            between = Interval(min(between.low, other), max(between.high, other))
    return Row(
        number=number,
        recorded=real,
        alone=alone,
        alone_error=alone_off,
        alone_ratio=_share(alone_off, real),
        before=one,
        error=off,
        error_ratio=error_ratio,
        after=other,
        interval=between,
        difference=difference,
        doubt=doubt,
        verdict=verdict_of(number, difference, doubt),
    )


def _less(value: float | None, other: float | None) -> float | None:
    return value - other if value is not None and other is not None else None


def _share(value: float | None, of: float | None) -> float | None:
    return value / abs(of) if value is not None and of else None
