"""A flag tried at several values on a recorded load, a row each, and the best of them by one stated number.

Rows that the model cannot tell from the best are reported as equally good: that is what its error means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from vtop.engine.core.flags import Flags
from vtop.engine.fit.calibration import AS_FITTED, HostFactors
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import NUMBERS, Bounds, MeasuredNumber
from vtop.engine.runs.runs import Run
from vtop.engine.whatif.simulation import SimulatedLoad, plausible, recorded_of, simulate, values
from vtop.engine.whatif.unknowns import by_chance_alone, paired_doubt
from vtop.engine.whatif.whatif import TooFarOff, remarks, too_far_off
from vtop.errors import VtopError

FLAGS: Final = ("max-num-seqs", "kv-tokens", "max-num-batched-tokens")
CRITERIA: Final = {number.name: number for number in NUMBERS if number.better is not None}
MOST: Final = 64  # values
SERVERS: Final = 5  # plausible ones, on each of which every value is tried

BEST, AS_GOOD, NONE = "best", "as good", ""


@dataclass(frozen=True, slots=True)
class SearchedFlag:
    """A flag and the values to try it at, ascending."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """One value. simulated is None where `why` it cannot be."""

    value: int
    flags: Flags | None
    simulated: SimulatedLoad | None
    criterion: float | None
    verdict: str  # best, as good, or nothing
    why: str | None = None


@dataclass(frozen=True, slots=True)
class FlagSearch:
    run: Run
    factors: HostFactors
    name: str
    number: MeasuredNumber  # the criterion
    tried: tuple[Tried, ...]
    recorded: SimulatedLoad  # with the flags of the recording
    error: float | None  # of the criterion on this run, as a share
    remarks: tuple[str, ...]


def asked(text: str) -> SearchedFlag:
    """max-num-seqs=8..128 (8 12 16 24 … 128), kv-tokens=65536..262144:16384 (in steps), max-num-seqs=8,10,12.

    Raises VtopError.
    """
    name, equals, said = text.partition("=")
    if name not in FLAGS or not equals:
        raise VtopError(f"--search {text}: search what? One of {', '.join(f'{flag}=8..128' for flag in FLAGS)}")
    values: set[int] = set()
    for part in said.split(","):
        found = re.fullmatch(r"(\d+)(?:\.\.(\d+)(?::(\d+))?)?", part.strip())
        if found is None:
            raise VtopError(f"--search {text}: {part.strip()!r} is no value; write 8..128, 8..128:8 or 8,10,12")
        least, most = int(found[1]), int(found[2] or found[1])
        step = int(found[3]) if found[3] is not None else None
        if not 1 <= least <= most or step == 0:
            raise VtopError(f"--search {text}: {part.strip()!r} holds no value above 0")
        values.update(range(least, most + 1, step) if step is not None else _between(least, most))
        if len(values) > MOST:
            raise VtopError(f"--search {text}: more than {MOST} values; take fewer, or larger steps")
    return SearchedFlag(name, tuple(sorted(values)))


def _between(least: int, most: int) -> list[int]:
    """Each twice as much as the last but one: 8 12 16 24 32; the end is among them."""
    values, value = {most}, least
    while value < most:
        values.add(value)
        if value * 3 % 2 == 0 and value * 3 // 2 < most:
            values.add(value * 3 // 2)
        value *= 2
    return sorted(values)


def with_flag(flags: Flags, name: str, value: int) -> Flags:
    """The flags with one of them at another value. Raises VtopError for what vLLM refuses, too."""
    if name == "kv-tokens":
        return replace(flags, num_gpu_blocks=value // flags.block_size)
    if name == "max-num-seqs":
        return replace(flags, max_num_seqs=value)
    return replace(flags, max_num_batched_tokens=value)


def criterion(name: str | None, bounds: Bounds | None) -> MeasuredNumber:
    """What rows are judged by: the number asked for; else requests/s within the bounds where there are some, else
    output tokens/s. Raises VtopError."""
    found = CRITERIA.get(name or ("good_per_s" if bounds is not None else "output_per_s"))
    if found is None:
        raise VtopError(f"--best {name}: no such number; one of {', '.join(CRITERIA)}")
    if found.name in ("good_per_s", "good_ratio") and bounds is None:
        raise VtopError(f"--best {name} needs bounds: --slo ttft=800ms,tpot=50ms")
    return found


def search(
    run: Run,
    profile: Profile,
    flags: Flags,
    what: SearchedFlag,
    *,
    number: MeasuredNumber,
    bounds: Bounds | None = None,
    factors: HostFactors = AS_FITTED,
) -> FlagSearch:
    """Every value, on the run's load and with its host factors. Raises VtopError where none can be tried, or
    the recorded flags are too far off."""
    before = simulate(run, run.flags, profile, bounds, by_chance_alone(factors))
    if (off := too_far_off(run, before)) is not None:
        raise TooFarOff(off)
    given = plausible(factors, SERVERS)
    real = getattr(recorded_of(run, bounds), number.name)

    def on_all(changed: Flags) -> SimulatedLoad:
        return simulate(run, changed, profile, bounds, given)

    tried = []
    for value in what.values:
        one = _try(len(run.load.asks), flags, (what.name, value), on_all)
        found = getattr(one.simulated.measured, number.name) if one.simulated is not None and one.why is None else None
        tried.append(replace(one, criterion=found))
    known = [one for one in tried if one.criterion is not None]
    if not known:
        raise VtopError(
            f"--search {what.name}: no value can be tried: {tried[0].why or number.label + ' is not known'}"
        )
    best = (max if number.better == "higher" else min)(known, key=lambda one: one.criterion or 0.0)
    sides = [(one.flags, one.simulated) for one in known if one.flags is not None and one.simulated is not None]
    at = getattr(before.measured, number.name)
    return FlagSearch(
        run=run,
        factors=factors,
        name=what.name,
        number=number,
        tried=tuple(_judged(one, best, number) for one in tried),
        recorded=before,
        error=(at - real) / abs(real) if at is not None and real else None,
        remarks=(*run.remarks, *remarks(run, profile, before, sides)),
    )


def _try(asked: int, flags: Flags, one: tuple[str, int], on_all: Callable[[Flags], SimulatedLoad]) -> Tried:
    """asked: how many requests the load has."""
    name, value = one
    try:
        changed = with_flag(flags, name, value)
        done = on_all(changed)
    except VtopError as error:
        return Tried(value, None, None, None, NONE, str(error))
    why = f"{done.refused} of {asked} requests would not fit" if done.refused else None
    return Tried(value, changed, done, None, NONE, why)


def _judged(one: Tried, best: Tried, number: MeasuredNumber) -> Tried:
    if one is best:
        return replace(one, verdict=BEST)
    if one.simulated is None or one.criterion is None or best.simulated is None or best.criterion is None:
        return one
    apart = abs(one.criterion - best.criterion)
    doubt = paired_doubt(number, values(one.simulated, number), values(best.simulated, number))
    close = apart == 0 or (doubt is not None and apart <= doubt)
    return replace(one, verdict=AS_GOOD) if close else one
