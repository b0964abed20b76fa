"""What a search of capacity came to, in sentences: the bracket, what is to be held against it, and why rates failed."""

from __future__ import annotations

from vtop import units
from vtop.plan.capacity_answer import CapacityResult
from vtop.plan.headroom import Headroom
from vtop.session.capacity.foretold import speed_words
from vtop.session.capacity.runs import ClosedLoopRun
from vtop.session.capacity.search import Bracket, RateResult, RunResult
from vtop.session.frame.capacity import SimulatedCapacity

BOUND_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "e2e"}
NEAR, STEEP = 1.25, 0.3  # rates, and how much less the higher one attains, of a cliff
LONG = 10  # requests one after the other, in a run that is not short
ENDS = {
    "reached": "as narrow as was asked for",
    "nothing passed": "not even the lowest rate passes",
    "nothing failed": "the highest rate still passes",
    "undecided": "between these rates more runs would be needed to tell",
    "deadline": "its time was up",
    "server changed": "the server became another one",
    "no evidence": "run after run was no evidence",
    "stopped": "it was stopped",
    None: "not ended",
}


def sentence(answer: CapacityResult) -> str:
    """The finding: the bracket, its rule, how it ended."""
    what, found = answer.plan.name, _bracket(answer.bracket)
    if found is None:
        return f"{what}: nothing was found ({_end(answer)})."
    return f"{what}: {found} keep {bounds_words(answer)} for {answer.plan.target_ratio:.0%} ({_end(answer)})."


def _bracket(found: Bracket) -> str | None:
    low, high = found.passes_per_s, found.fails_per_s
    if low is not None and high is not None:
        return f"between {units.number(low)} and {units.number(high)} requests/s"
    if low is not None:
        return f"at least {units.number(low)} requests/s"
    return f"below {units.number(high)} requests/s" if high is not None else None


def caveats(answer: CapacityResult) -> list[str]:
    """What is to be held against the bracket, and why the lowest failing rate failed."""
    return [*_growing(answer), *_short(answer), *_cliff(answer), *_failing(answer)]


def bounds_words(answer: CapacityResult) -> str:
    return ", ".join(f"{BOUND_NAMES.get(f'{name}_s', name)} ≤ {units.seconds(bound)}" for name, bound in answer.bounds)


def _end(answer: CapacityResult) -> str:
    return ENDS[answer.bracket.end] + (f": {answer.why}" if answer.why is not None else "")


def by_the_other_rule(answer: CapacityResult) -> str:
    found = _bracket(answer.other_bracket) or "these runs do not tell"
    return f"By the other rule, which is another question, the same runs say: {answer.other_rule}: {found}."


def _passing(answer: CapacityResult) -> RateResult | None:
    return next((one for one in answer.rates if one.rate_per_s == answer.bracket.passes_per_s), None)


def _short(answer: CapacityResult) -> list[str]:
    """A caveat of the passing rate: in a run that is short beside a request no queue has time to form."""
    rate = _passing(answer)
    run = min(rate.runs, key=lambda one: one.sending_s, default=None) if rate is not None else None
    if run is None or run.residence_s is None or run.sending_s >= LONG * run.residence_s:
        return []
    return [
        f"At {units.number(run.rate_per_s)} requests/s a run sends for {units.seconds(run.sending_s)}, and a request "
        f"takes {units.seconds(run.residence_s)}: longer runs may fail (--n)."
    ]


def _cliff(answer: CapacityResult) -> list[str]:
    """Where attainment falls by much between two rates that are near: little is left above the bracket."""
    shares = [one.mean_ratio for one in edges(answer)]
    low, high = answer.bracket.passes_per_s, answer.bracket.fails_per_s
    if low is None or high is None or high / low > NEAR or len(shares) != 2 or None in shares:
        return []
    passing, failing = (share or 0.0 for share in shares)
    if passing - failing < STEEP:
        return []
    return [
        f"A cliff: {units.percent(passing)} at {units.number(low)} and {units.percent(failing)} at "
        f"{units.number(high)} requests/s; leave headroom (--scale-out)."
    ]


def _growing(answer: CapacityResult) -> list[str]:
    """A caveat of the passing rate."""
    rate = _passing(answer)
    if rate is None or not rate.growing:
        return []
    return [
        f"At {units.number(rate.rate_per_s)} requests/s, which passes, unanswered requests grew through most runs: "
        "longer ones may fail (--n)."
    ]


def _failing(answer: CapacityResult) -> list[str]:
    """At the lowest rate that failed: which bound it broke most, and what the server did in its worst run."""
    rate = next((one for one in answer.rates if one.verdict == "fail"), None)
    if rate is None:
        return []
    made = [*rate.runs, *(one for one in answer.held if one.rate_per_s == rate.rate_per_s)]
    worst = min(made, key=lambda run: run.attained.ratio or 0.0)
    shares = sorted((share, BOUND_NAMES[name]) for name, share in worst.attained.by_bound)
    said = ", ".join(f"{name} alone {units.percent(share)}" for share, name in shares)
    if answer.bracket.passes_per_s is None and answer.zero_load is not None:
        many, kept = answer.zero_load
        said += f"; of {many:,} requests that were alone on the server {units.percent(kept / many)} kept all"
    lost = worst.attained
    if lost.errors or lost.timeouts or lost.rejected or lost.open:
        said += (
            f"; {lost.errors:,} failed, {lost.timeouts:,} timed out, {lost.rejected:,} were rejected, {lost.open:,} "
            "were never answered"
        )
    if worst.engines:
        most, least = worst.engines[0], worst.engines[-1]
        said += (
            f"; of {len(worst.engines)} engines, engine {most.name} had at most {units.count(most.waiting)} waiting, "
            f"engine {least.name} {units.count(least.waiting)}"
        )
    if worst.client_queue_peak:
        said += f"; up to {worst.client_queue_peak:,.0f} waited in the client for a slot, under the cap"
    if worst.backlog:
        said += f"; unanswered by quarters of the run {', '.join(f'{one:,}' for one in worst.backlog)}"
    return [f"At {units.number(rate.rate_per_s)} requests/s, in the worst run: {said}."]


def on_other_hosts(answer: CapacityResult) -> str:
    passes = [one.passes_per_s for one in answer.hosts]
    fails = [one.fails_per_s for one in answer.hosts]
    known = [one for one in passes if one is not None]
    least = units.number(min(known)) if len(known) == len(passes) else "below the lowest rate"
    above = [one for one in fails if one is not None]
    most = units.number(max(above)) if len(above) == len(fails) else "beyond the highest rate"
    return (
        f"On {len(answer.hosts)} other hosts that are as plausible, the bracket lies between {least} and {most} "
        "requests/s: the doubt of the simulation."
    )


def simulated_before(found: SimulatedCapacity) -> str:
    """The bracket of the engine's model beside the measured one."""
    said = f"Simulated before ({found.by}): between {_rates(found.passes_per_s, found.fails_per_s)} requests/s"
    if found.hosts:
        said += f", on {found.hosts} other hosts {_rates(found.least_per_s, found.most_per_s)}"
    least, most = found.speed_least_ratio, found.speed_most_ratio
    if (measured := speed_words(least, most)) is not None:
        said += f". Measured is {measured} of it"
    if least is not None and most is not None:
        if most < 1:
            said += f": the engine is {units.percent(1 - most)} to {units.percent(1 - least)} slower than its model"
        else:
            said += ": the engine is faster than its model" if least > 1 else ", which may be the same"
    return said + "."


def _rates(low: float | None, high: float | None) -> str:
    return f"{units.number(low)} and {units.number(high)}"


def closed_loop(one: ClosedLoopRun) -> str:
    return (
        f"A closed loop of {one.concurrency:,} in flight reaches {units.number(one.ended_per_s)} requests/s at "
        f"{units.percent(one.attained_ratio)}. That is no capacity: it sends when an answer has come, so no queue can "
        "form before it, and its arrivals are those that the server can take."
    )


def headroom_words(found: Headroom) -> str:
    grown = f", growth of {found.growth_ratio:.0%} in it" if found.growth_ratio else ""
    return (
        f"plan with {units.number(found.planned_per_s)} requests/s, {found.ratio:.0%} of what passes: "
        f"{units.seconds(found.scale_out_s)} until more servers are up{grown}, gaps of variation "
        f"{units.number(found.variation)}; one such stretch in 100 brings more than passes"
    )


def held_words(answer: CapacityResult, one: RunResult) -> str:
    kept = one.attained.ratio or 0.0
    word = "held" if kept >= answer.plan.target_ratio else "did not hold"
    return f"{units.number(one.rate_per_s)} requests/s {word} over {one.requests:,} requests: {kept:.2%}."


def edges(answer: CapacityResult) -> list[RateResult]:
    edges = (answer.bracket.passes_per_s, answer.bracket.fails_per_s)
    return [one for one in answer.rates if one.rate_per_s in edges]
