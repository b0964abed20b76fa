"""The price of each limit for the verbs that show it: of which loads, by which profile, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.engine.fit.calibration import HostFactors
    from vtop.engine.fit.profile import Profile
    from vtop.engine.runs.runs import Run
    from vtop.report.model import Report
    from vtop.report.prices import Priced

LONGEST_S = 3600.0  # of a recording whose loads a report prices


def priced(found: Sequence[tuple[Run, HostFactors]], profile: Profile) -> Priced:
    """The prices of each run, with its host's factors. Raises VtopError where there are none."""
    from vtop.engine.whatif.prices import prices
    from vtop.engine.whatif.whatif import TooFarOff
    from vtop.report.prices import Priced

    made, refused = [], []
    for run, own in found:
        try:
            made.append(prices(run, profile, own))
        except TooFarOff as error:
            refused.append(error)
    if not made:
        raise refused[0]
    return Priced(tuple(made), tuple(str(one) for one in refused))


def priced_of(report: Report, file: Path, budget_s: float, tell: Callable[[str], None]) -> Priced:
    """The prices of a recording's loads, the heaviest first, as far as they take no longer than so; none where there is
    no profile of its GPU. tell: of each load, before it is simulated."""
    from vtop.engine.fit import profile
    from vtop.report.prices import Priced

    known = profile.of_gpu(report.devices[0].name) if len(report.devices) == 1 else None
    if known is None:
        return Priced()
    if report.seconds > LONGEST_S:
        return Priced(missing=(f"it is longer than an hour (vtop whatif {file.name} --prices)",))
    from vtop.engine.fit.calibration import host_factors_of
    from vtop.engine.runs.runs import Run, read
    from vtop.engine.runs.settled import at_limit
    from vtop.engine.whatif.prices import cost_s

    try:
        found = [at_limit(run) for run in read(file) if isinstance(run, Run)]
    except VtopError as error:
        return Priced(missing=(str(error),))
    ordered = sorted(found, key=lambda one: -(one[0].observed.running or 0.0))
    left_s, made, missing = budget_s, [], []
    for run, words in ordered:
        cost = cost_s(run)
        if cost > left_s:
            missing.append(f"{run.name}: it would take about {cost:.0f} s (vtop whatif {file.name} --prices)")
            continue
        left_s -= cost
        tell(run.name)
        taken = f"{words} is not on record: taken" if words else None
        try:
            of = priced([(run, host_factors_of(run, known))], known)
        except VtopError as error:
            missing.append(str(error))
            continue
        made += [replace(one, remarks=(*one.remarks, *((taken,) if taken else ()))) for one in of.prices]
    made.sort(key=lambda one: one.phase or 0)
    return Priced(tuple(made), tuple(missing))
