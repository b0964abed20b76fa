"""`vtop capacity` as a document: the bracket with its rule, each rate with its runs, and what was no evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vtop import units
from vtop.plan.capacity import Bracket, Plan, RateResult, RunResult
from vtop.report.figures.figure import Figure, Panel, Rule, Series
from vtop.report.render.document import Document, Drawing, Facts, Section, Table, Text

BOUND_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "e2e"}
ENDS = {
    "reached": "as narrow as was asked for",
    "nothing passed": "not even the lowest rate passes",
    "nothing failed": "the highest rate still passes",
    "undecided": "between these rates more runs would be needed to tell",
    "deadline": "its time was up",
    "server changed": "the server became another one",
    "client limited": "the client could not send more",
    "stopped": "it was stopped",
    None: "not ended",
}


@dataclass(frozen=True, slots=True)
class CapacityAnswer:
    """All of a search. origin: what was searched; slo: its bounds in words; requests_sent: of all runs."""

    plan: Plan
    bracket: Bracket
    rates: tuple[RateResult, ...]
    held: tuple[RunResult, ...]
    refused: tuple[RunResult, ...]
    slo: str
    load: str
    origin: str
    requests_sent: int
    per_gpu: int | None = None


def sentence(answer: CapacityAnswer) -> str:
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
        return f"{what}: nothing was found"
    return f"{said} keep {answer.slo} for {answer.plan.target_ratio:.0%} ({ENDS[answer.bracket.end]})."


def document(answer: CapacityAnswer) -> Document:
    plan = answer.plan
    facts = (
        ("of", answer.origin),
        ("load", answer.load),
        ("service level", f"{answer.slo}, all at once, for {plan.target_ratio:.0%} of the requests"),
        ("rule", plan.name),
        ("seeds", f"{plan.seeds[0]} to {plan.seeds[-1]}; gaps, lengths and prompts of a seed are alike at every rate"),
        ("requests sent", f"{answer.requests_sent:,}"),
    )
    said = [Text(sentence(answer))]
    if not answer.bracket.monotone:
        said.append(Text("A rate passed above one that failed: the bracket is widened over both."))
    if answer.bracket.undecided_per_s:
        rates = ", ".join(units.number(rate) for rate in answer.bracket.undecided_per_s)
        said.append(Text(f"Undecided after {plan.runs * 3} runs: {rates} requests/s."))
    sections = [
        Section("capacity", "Capacity", 2, (*said, Facts(facts))),
        Section(
            "rates", "By rate", 2, (_table(answer), *([Drawing(_figure(answer))] if len(answer.rates) > 1 else []))
        ),
    ]
    if answer.held:
        sections.append(Section("held", "Held", 2, tuple(Text(_held(answer, one)) for one in answer.held)))
    if answer.refused:
        rows = tuple((units.number(one.rate_per_s), str(one.seed), one.why_not or "") for one in answer.refused)
        sections.append(
            Section(
                "refused", "No evidence", 2, (Table("Runs not counted", ("rate", "seed", "why"), rows, words=(2,)),)
            )
        )
    return Document("vtop capacity", tuple(sections))


def _held(answer: CapacityAnswer, one: RunResult) -> str:
    kept = one.attained.ratio or 0.0
    word = "held" if kept >= answer.plan.target_ratio else "did not hold"
    return f"{units.number(one.rate_per_s)} requests/s {word} over {one.requests:,} requests: {kept:.2%}."


def _table(answer: CapacityAnswer) -> Table:
    bounds = sorted({name for rate in answer.rates for run in rate.runs for name, _ in run.attained.by_bound})
    head = (
        "rate", "came", "runs", "verdict", "lowest %", "mean %", "± (99 %)",
        *(f"{BOUND_NAMES[name]} %" for name in bounds),
        "failed", "open", "drain", "waiting", "KV", "preempted",
    )  # fmt: skip
    rows = tuple(_row(rate, bounds) for rate in answer.rates)
    notes = (
        "lowest, mean: of the runs' joint attainment, a run an observation. The bounds beside it each alone; joint is "
        "at most the least of them. Of a run at most: open when the last request came, drain, waiting, KV.",
        "A closed loop sends when an answer has come, so nobody waits for long: what it reaches is no capacity.",
    )
    return Table("By rate", head, rows, notes, words=(3,))


def _row(rate: RateResult, bounds: list[str]) -> tuple[str, ...]:
    runs = rate.runs
    by = [[share for run in runs for name, share in run.attained.by_bound if name == bound] for bound in bounds]
    lost = sum(run.attained.errors + run.attained.timeouts for run in runs)
    return (
        units.number(rate.rate_per_s),
        units.number(sum(run.achieved_per_s for run in runs) / len(runs)),
        str(len(runs)),
        rate.verdict if rate.verdict != "more" else "not judged",
        _share(rate.lowest_ratio),
        _share(rate.mean_ratio),
        _share(rate.half_ratio),
        *(_share(min(shares) if shares else None) for shares in by),
        str(lost),
        units.count(_most(run.open_at_last for run in runs)),
        units.seconds(_most(run.drain_s for run in runs)),
        units.count(_most(run.waiting_peak for run in runs)),
        units.percent(_most(run.kv_peak_ratio for run in runs)),
        units.count(sum(run.preemptions or 0 for run in runs)),
    )


def _most(values: Iterable[float | None]) -> float | None:
    known = [float(one) for one in values if one is not None]
    return max(known, default=None)


def _share(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value * 100:.1f}"


def _figure(answer: CapacityAnswer) -> Figure:
    target = answer.plan.target_ratio
    mean = tuple((one.rate_per_s, _percent(one.mean_ratio)) for one in answer.rates)
    lowest = tuple((one.rate_per_s, _percent(one.lowest_ratio)) for one in answer.rates)
    return Figure(
        key="capacity",
        title="Attainment by rate",
        caption="The lowest run and the mean of all at each rate; the line is what is asked for.",
        alt=sentence(answer),
        x_title="requests/s",
        x_kind="number",
        panels=(
            Panel(
                "within the service level, %",
                (Series("mean", "running", mean), Series("lowest run", "preemption", lowest)),
                (Rule(f"{target:.0%}", "limit", target * 100),),
            ),
        ),
    )


def _percent(value: float | None) -> float | None:
    return None if value is None else value * 100
