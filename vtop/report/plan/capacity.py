"""`vtop capacity` as a document: the bracket with its rule, each rate with its runs, and what was no evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtop import units
from vtop.plan.capacity_answer import CapacityAnswer, CapacityResult
from vtop.plan.headroom import Headroom
from vtop.report.figures.figure import Figure, FigurePanel, RuleLine, Series
from vtop.report.render.document import Block, Document, Drawing, Facts, Section, Table, Text
from vtop.report.tables.cells import known_columns
from vtop.session.capacity.foretold import speed_words
from vtop.session.capacity.runs import ClosedLoopRun
from vtop.session.capacity.search import Paired, RateResult, RunResult
from vtop.session.frame.capacity import SimulatedCapacity

BOUND_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "e2e"}
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
    low, high = answer.bracket.passes_per_s, answer.bracket.fails_per_s
    what = answer.plan.name
    if low is not None and high is not None:
        said = f"{what}: between {units.number(low)} and {units.number(high)} requests/s"
    elif low is not None:
        said = f"{what}: at least {units.number(low)} requests/s"
    elif high is not None:
        said = f"{what}: below {units.number(high)} requests/s"
    else:
        return f"{what}: nothing was found ({_end(answer)})."
    return f"{said} keep {_bounds(answer)} for {answer.plan.target_ratio:.0%} ({_end(answer)})."


def _bounds(answer: CapacityResult) -> str:
    return ", ".join(f"{BOUND_NAMES[f'{name}_s']} ≤ {units.seconds(bound)}" for name, bound in answer.bounds)


def _end(answer: CapacityResult) -> str:
    return ENDS[answer.bracket.end] + (f": {answer.why}" if answer.why is not None else "")


def document(answer: CapacityAnswer) -> Document:
    found: list[Section] = []
    for number, one in enumerate(answer.searches):
        found += sections(one, f"s{number + 1}-" if len(answer.searches) > 1 else "")
    if answer.paired:
        found.append(Section("paired", "The second beside the first, seed by seed", 2, (_paired(answer.paired),)))
    return Document("vtop capacity", tuple(found))


def sections(answer: CapacityResult, key: str = "", level: int = 2) -> list[Section]:
    """Of one search."""
    plan = answer.plan
    facts = [
        ("of", answer.origin),
        ("load", f"{answer.arrival} arrivals, {answer.spec}"),
        ("service level", f"{_bounds(answer)}, all at once, for {plan.target_ratio:.0%} of the requests"),
        ("rule", plan.name),
        ("seeds", f"{plan.seeds[0]} to {plan.seeds[-1]}; gaps, lengths and prompts of a seed are alike at every rate"),
        ("requests sent", f"{answer.requests_sent:,}"),
    ]
    if answer.goodput_per_gpu_per_s is not None:
        gpus = "1 GPU" if answer.gpus == 1 else f"{answer.gpus} GPUs"
        facts.append(("goodput a GPU", f"{units.number(answer.goodput_per_gpu_per_s)} requests/s, of {gpus}"))
    if answer.headroom is not None:
        facts.append(("headroom", _headroom(answer.headroom)))
    if answer.bench_command is not None:
        facts.append(("the same load", answer.bench_command))
    said: list[Block] = [Text(sentence(answer))]
    if not answer.bracket.monotone:
        said.append(Text("A rate passed above one that failed: the bracket is widened over both."))
    if answer.bracket.undecided_per_s:
        rates = ", ".join(units.number(rate) for rate in answer.bracket.undecided_per_s)
        said.append(Text(f"Undecided after {plan.runs * 3} runs: {rates} requests/s."))
    said += [Text(line) for line in (*_growing(answer), *_failing(answer))]
    if answer.hosts:
        said.append(Text(_hosts(answer)))
    if answer.simulated is not None:
        said.append(Text(_simulated(answer.simulated)))
    said += [Text(f"Beyond the profile: {one}.") for one in answer.remarks]
    said += [Text(_closed(one)) for one in answer.closed]
    figure = [Drawing(_figure(answer, key))] if len(answer.rates) > 1 else []
    found = [
        Section(f"{key}capacity", "Capacity", level, (*said, Facts(tuple(facts)))),
        Section(f"{key}rates", "By rate", level, (_table(answer), *figure)),
    ]
    if answer.held:
        found.append(Section(f"{key}held", "Held", level, tuple(Text(_held(answer, one)) for one in answer.held)))
    if answer.refused:
        rows = tuple((units.number(one.rate_per_s), str(one.seed), one.why_not or "") for one in answer.refused)
        table = Table("Runs not counted", ("rate", "seed", "why"), rows, words=(2,))
        found.append(Section(f"{key}refused", "No evidence", level, (table,)))
    return found


def _growing(answer: CapacityResult) -> list[str]:
    """A caveat of the passing rate."""
    rate = next((one for one in answer.rates if one.rate_per_s == answer.bracket.passes_per_s), None)
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
    lost = worst.attained
    if lost.errors or lost.timeouts or lost.rejected or lost.open:
        said += (
            f"; {lost.errors:,} failed, {lost.timeouts:,} timed out, {lost.rejected:,} were rejected, {lost.open:,} "
            "were never answered"
        )
    if worst.backlog:
        said += f"; unanswered by quarters of the run {', '.join(f'{one:,}' for one in worst.backlog)}"
    return [f"At {units.number(rate.rate_per_s)} requests/s, in the worst run: {said}."]


def _hosts(answer: CapacityResult) -> str:
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


def _simulated(found: SimulatedCapacity) -> str:
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


def _closed(one: ClosedLoopRun) -> str:
    return (
        f"A closed loop of {one.concurrency:,} in flight reaches {units.number(one.ended_per_s)} requests/s at "
        f"{units.percent(one.attained_ratio)}. That is no capacity: it sends when an answer has come, so no queue can "
        "form before it, and its arrivals are those that the server can take."
    )


def _headroom(found: Headroom) -> str:
    grown = f", growth of {found.growth_ratio:.0%} in it" if found.growth_ratio else ""
    return (
        f"plan with {units.number(found.planned_per_s)} requests/s, {found.ratio:.0%} of what passes: "
        f"{units.seconds(found.scale_out_s)} until more servers are up{grown}, gaps of variation "
        f"{units.number(found.variation)}; one such stretch in 100 brings more than passes"
    )


def _paired(pairs: Sequence[Paired]) -> Table:
    rows = tuple(
        (
            units.number(one.rate_per_s),
            str(one.pairs),
            _share(one.first_ratio),
            _share(one.second_ratio),
            f"{one.difference_ratio * 100:+.1f}",
            _share(one.half_ratio),
        )
        for one in pairs
    )
    head = ("rate", "pairs", "first %", "second %", "second − first", "± (99 %)")
    notes = (
        "Both had the same gaps, lengths and prompts; a pair of runs is one observation. First compare with the same "
        "scheduler flags, then each server at its own best.",
    )
    return Table("Attainment of both", head, rows, notes)


def _held(answer: CapacityResult, one: RunResult) -> str:
    kept = one.attained.ratio or 0.0
    word = "held" if kept >= answer.plan.target_ratio else "did not hold"
    return f"{units.number(one.rate_per_s)} requests/s {word} over {one.requests:,} requests: {kept:.2%}."


def _table(answer: CapacityResult) -> Table:
    bounds = sorted({name for rate in answer.rates for run in rate.runs for name, _ in run.attained.by_bound})
    intervals = answer.plan.rule == "long-run"
    head = (
        "rate", "came", "runs", "verdict", "lowest %", "mean %", *(["± (99 %)"] if intervals else []),
        *(f"{BOUND_NAMES[name]} %" for name in bounds),
        "failed", "open", "drain", "running", "waiting", "in the client", "KV", "preempted",
    )  # fmt: skip
    rows = tuple(_row(rate, bounds, intervals=intervals) for rate in answer.rates)
    notes = [
        "lowest, mean: of the runs' joint attainment, a run an observation. The bounds beside it each alone; joint is "
        "at most the least of them. Of a run at most: open when the last request came, drain, running, waiting, KV.",
    ]
    if any(run.client_queue_peak is not None for rate in answer.rates for run in rate.runs):
        notes.append("In the client: requests that waited for a slot under the cap that was asked for (max=).")
    return known_columns(Table("By rate", head, rows, tuple(notes), words=(3,)))


def _row(rate: RateResult, bounds: list[str], *, intervals: bool) -> tuple[str, ...]:
    runs = rate.runs
    by = [[share for run in runs for name, share in run.attained.by_bound if name == bound] for bound in bounds]
    lost = sum(run.attained.errors + run.attained.timeouts + run.attained.rejected for run in runs)
    return (
        units.number(rate.rate_per_s),
        units.number(sum(run.achieved_per_s for run in runs) / len(runs)),
        str(len(runs)),
        rate.verdict if rate.verdict != "more" else "not judged",
        _share(rate.lowest_ratio),
        _share(rate.mean_ratio),
        *([_share(rate.half_ratio)] if intervals else []),
        *(_share(min(shares) if shares else None) for shares in by),
        str(lost),
        units.count(_most(run.open_at_last for run in runs)),
        units.seconds(_most(run.drain_s for run in runs)),
        units.count(_most(run.running_peak for run in runs)),
        units.count(_most(run.waiting_peak for run in runs)),
        units.count(_most(run.client_queue_peak for run in runs)),
        units.percent(_most(run.kv_peak_ratio for run in runs)),
        units.count(sum(run.preemptions or 0 for run in runs)),
    )


def _most(values: Iterable[float | None]) -> float | None:
    known = [float(one) for one in values if one is not None]
    return max(known, default=None)


def _share(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value * 100:.1f}"


def _figure(answer: CapacityResult, key: str) -> Figure:
    target = answer.plan.target_ratio
    mean = tuple((one.rate_per_s, _percent(one.mean_ratio)) for one in answer.rates)
    lowest = tuple((one.rate_per_s, _percent(one.lowest_ratio)) for one in answer.rates)
    simulated = tuple((rate, _percent(share)) for rate, share in answer.simulated_rates)
    return Figure(
        key=f"{key}capacity",
        title="Attainment by rate",
        caption="The lowest run and the mean of all at each rate; the line is what is asked for.",
        alt=sentence(answer),
        x_title="requests/s",
        x_kind="number",
        panels=(
            FigurePanel(
                "within the service level, %",
                (
                    Series("mean", "running", mean),
                    Series("lowest run", "preemption", lowest),
                    *([Series("simulated, mean", "network", simulated)] if simulated else []),
                ),
                (RuleLine(f"{target:.0%}", "limit", target * 100),),
            ),
        ),
    )


def _percent(value: float | None) -> float | None:
    return None if value is None else value * 100
