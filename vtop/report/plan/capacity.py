"""`vtop capacity` as a document: the bracket with its rule, each rate with its runs, and what was no evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from vtop import units
from vtop.plan.capacity_answer import CapacityAnswer, CapacityResult
from vtop.report.figures.figure import Figure, FigurePanel, RuleLine, Series
from vtop.report.plan.capacity_said import (
    BOUND_NAMES,
    bounds_words,
    by_the_other_rule,
    caveats,
    closed_loop,
    edges,
    headroom_words,
    held_words,
    on_other_hosts,
    sentence,
    simulated_before,
)
from vtop.report.render.document import Block, Document, Drawing, Facts, Section, Table, Text
from vtop.report.tables.cells import known_columns
from vtop.session.capacity.search import Paired, RateResult


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
        ("service level", f"{bounds_words(answer)}, all at once, for {plan.target_ratio:.0%} of the requests"),
        ("rule", plan.name),
        ("seeds", f"{plan.seeds[0]} to {plan.seeds[-1]}; gaps, lengths and prompts of a seed are alike at every rate"),
        ("requests sent", f"{answer.requests_sent:,}"),
    ]
    if answer.goodput_per_gpu_per_s is not None:
        gpus = "1 GPU" if answer.gpus == 1 else f"{answer.gpus} GPUs"
        facts.append(("goodput a GPU", f"{units.number(answer.goodput_per_gpu_per_s)} requests/s, of {gpus}"))
    if answer.headroom is not None:
        facts.append(("headroom", headroom_words(answer.headroom)))
    if answer.bench_command is not None:
        facts.append(("the same load", answer.bench_command))
    said: list[Block] = [Text(sentence(answer))]
    if not answer.bracket.monotone:
        said.append(Text("A rate passed above one that failed: the bracket is widened over both."))
    if answer.bracket.undecided_per_s:
        rates = ", ".join(units.number(rate) for rate in answer.bracket.undecided_per_s)
        said.append(Text(f"Undecided after {plan.runs * 3} runs: {rates} requests/s."))
    said += [Text(line) for line in (by_the_other_rule(answer), *caveats(answer))]
    if answer.hosts:
        said.append(Text(on_other_hosts(answer)))
    if answer.simulated is not None:
        said.append(Text(simulated_before(answer.simulated)))
    said += [Text(f"Beyond the profile: {one}.") for one in answer.remarks]
    said += [Text(closed_loop(one)) for one in answer.closed]
    figure = [Drawing(_figure(answer, key))] if len(answer.rates) > 1 else []
    found = [
        Section(f"{key}capacity", "Capacity", level, (*said, Facts(tuple(facts)))),
        Section(f"{key}rates", "By rate", level, (_table(answer), *_times(answer), *_by_length(answer), *figure)),
    ]
    if answer.held:
        found.append(Section(f"{key}held", "Held", level, tuple(Text(held_words(answer, one)) for one in answer.held)))
    if answer.refused:
        rows = tuple((units.number(one.rate_per_s), str(one.seed), one.why_not or "") for one in answer.refused)
        table = Table("Runs not counted", ("rate", "seed", "why"), rows, words=(2,))
        found.append(Section(f"{key}refused", "No evidence", level, (table,)))
    return found


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


def _table(answer: CapacityResult) -> Table:
    bounds = sorted({name for rate in answer.rates for run in rate.runs for name, _ in run.attained.by_bound})
    intervals = answer.plan.rule == "long-run"
    rejected = any(run.attained.rejected for rate in answer.rates for run in rate.runs)
    head = (
        "rate", "came", "runs", "verdict", "lowest %", "mean %", *(["± (99 %)"] if intervals else []),
        *(f"{BOUND_NAMES[name]} %" for name in bounds),
        "failed", *(["rejected"] if rejected else []), "open", "drain", "running", "waiting", "in the client", "KV",
        "preempted",
    )  # fmt: skip
    rows = tuple(_row(rate, bounds, intervals=intervals, rejected=rejected) for rate in answer.rates)
    notes = [
        "lowest, mean: of the runs' joint attainment, a run an observation. The bounds beside it each alone; joint is "
        "at most the least of them. Of a run at most: open when the last request came, drain, running, waiting, KV.",
    ]
    if rejected:
        notes.append("Rejected: answered with 429, by a gateway or server at its limit; missed, and no errors.")
    if any(run.client_queue_peak is not None for rate in answer.rates for run in rate.runs):
        notes.append("In the client: requests that waited for a slot under the cap that was asked for (max=).")
    return known_columns(Table("By rate", head, rows, tuple(notes), words=(3,)))


def _times(answer: CapacityResult) -> list[Table]:
    """Percentiles at the edges of the bracket."""
    rows = []
    for rate in edges(answer):
        worst = min(rate.runs, key=lambda run: run.attained.ratio or 0.0)
        for one in worst.times:
            times = (one.times.p50_s, one.times.p95_s, one.times.p99_s)
            rows.append((
                units.number(rate.rate_per_s), BOUND_NAMES[f"{one.name}_s"], units.seconds(one.bound_s),
                *(_time(value) for value in times), units.percent(one.ratio), f"{one.judged:,}",
            ))  # fmt: skip
    if not rows:
        return []
    notes = (
        "TTFT and e2e count from the instant a request was due; TPOT is (last − first token) / (tokens − 1). A request "
        "that failed took for ever (∞); a time equal to its bound keeps it; – is too few for that percentile.",
    )
    head = ("rate", "time", "bound", "p50", "p95", "p99", "within", "n")
    return [Table("Times in the worst run, on both sides of the bracket", head, tuple(rows), notes, words=(1,))]


def _by_length(answer: CapacityResult) -> list[Table]:
    """Requests of like lengths at the edges of the bracket, over all runs."""
    rows = []
    for rate in edges(answer):
        found: dict[tuple[tuple[int, int], tuple[int, int]], tuple[int, int]] = {}
        for one in (one for run in rate.runs for one in run.by_length):
            judged, good = found.get((one.input_tokens, one.output_tokens), (0, 0))
            found[one.input_tokens, one.output_tokens] = judged + one.judged, good + one.good
        for (prompt, output), (judged, good) in sorted(found.items()):
            lengths = (f"{low:,} to {high:,}" for low, high in (prompt, output))
            rows.append((units.number(rate.rate_per_s), *lengths, f"{judged:,}", units.percent(good / judged)))
    head = ("rate", "prompt tokens", "output tokens", "n", "within all")
    return [Table("By length, on both sides of the bracket", head, tuple(rows), words=(1, 2))] if rows else []


def _time(value: float | None) -> str:
    return "∞" if value is not None and math.isinf(value) else units.seconds(value)


def _row(rate: RateResult, bounds: list[str], *, intervals: bool, rejected: bool) -> tuple[str, ...]:
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
        *([_share(rate.half_ratio)] if intervals else []),
        *(_share(min(shares) if shares else None) for shares in by),
        str(lost),
        *([str(sum(run.attained.rejected for run in runs))] if rejected else []),
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
