"""`vtop plan queue` as a document: the table of the article, a row a rate, and what the closed loop would have said."""

from __future__ import annotations

from vtop import units
from vtop.plan.queueing import QueueAnswer, Rate, Services
from vtop.report.figures.figure import Figure, FigurePanel, RuleLine, Series
from vtop.report.render.document import Document, Drawing, Facts, Section, Table, Text


def document(answer: QueueAnswer) -> Document:
    queue, closed = answer.queue, answer.closed
    facts = (
        ("service", f"{_services(queue.services)}; mean {units.seconds(queue.services.mean_s)}"),
        ("servers", f"{queue.servers}, first come first served"),
        ("service level", f"{units.seconds(queue.slo_s)} from arrival to end, for {queue.target:.0%} of the requests"),
        ("runs", f"{len(queue.seeds)} of {queue.requests:,} requests, the first {queue.warm:,} left out; Poisson"),
        (
            "closed loop",
            f"rate_range={closed.least_per_s:.2f}-{closed.most_per_s:.2f} req/s, min_attain={closed.floor_ratio:.2%}",
        ),
    )
    sections = [
        Section("queue", "The queue", 2, (Facts(facts), Text(_closed_words(answer)))),
        Section("rates", "By rate", 2, (_table(answer), Drawing(_figure(answer)), Text(_bracket(answer)))),
    ]
    if answer.notes:
        sections.append(Section("notes", "What to know", 2, tuple(Text(note + ".") for note in answer.notes)))
    return Document("vtop plan queue", tuple(sections))


def _services(services: Services) -> str:
    if services.shares:
        pairs = zip(services.times_s, services.shares, strict=True)
        return ", ".join(f"{units.seconds(time)} for {share:.0%}" for time, share in pairs)
    return f"{len(services.times_s):,} times {services.origin}"


def _closed_words(answer: QueueAnswer) -> str:
    return (
        "The closed loop sends a request when one has ended, so none waits: it measures how fast the servers work, and "
        f"its {answer.closed.most_per_s:.1f} requests/s are no capacity for requests that come by themselves."
    )


def _table(answer: QueueAnswer) -> Table:
    head = ("rate", "rho", "actual_rps_range", "worst_p95q_ms", "mean wait", "attain_range", "floor", "95 % mean", "")
    rows = tuple(_row(one) for one in answer.rates)
    name = answer.rates[0].attained.floor_name()
    notes = (
        f"floor: the {name}; it falls with more runs and with shorter ones, and is no confidence bound.",
        "mean wait: over all runs. 95 % mean: attainment over the runs with Student's interval, a run an observation.",
    )
    return Table("By rate", head, rows, notes, words=(8,))


def _row(one: Rate) -> tuple[str, ...]:
    runs = one.attained
    doubt = f" ± {runs.interval_ratio:.2%}" if runs.interval_ratio is not None else ""
    return (
        f"{one.rate_per_s:g}",
        f"{one.rho:.2f}",
        f"{one.least_rate_per_s:.2f}-{one.most_rate_per_s:.2f}",
        f"{one.p95_wait_s * 1000:.1f}",
        units.seconds(one.waited_mean_s),
        f"{runs.floor_ratio:.2%}-{runs.highest_ratio:.2%}",
        f"{runs.floor_ratio:.2%}",
        f"{runs.mean_ratio:.2%}{doubt}",
        one.verdict,
    )


def _bracket(answer: QueueAnswer) -> str:
    target, name = f"{answer.queue.target:.0%}", answer.rates[0].attained.floor_name()
    if not answer.monotone:
        return "A rate passes above one that fails: more requests a run would tell which is chance."
    if answer.passes_per_s is None:
        return f"No rate keeps {target} in the {name}: the lowest, {answer.fails_per_s:g}/s, fails already."
    if answer.fails_per_s is None:
        return f"Every rate keeps {target} in the {name}: at least {answer.passes_per_s:g}/s, and nothing failed."
    return (
        f"Between {answer.passes_per_s:g} and {answer.fails_per_s:g} requests/s the {name} ceases to keep {target}: "
        "a bracket, no exact capacity."
    )


def _figure(answer: QueueAnswer) -> Figure:
    def line(name: str, role: str, values: list[float]) -> Series:
        points = tuple((one.rate_per_s, value) for one, value in zip(answer.rates, values, strict=True))
        return Series(name, role, points)

    lowest = [one.attained.floor_ratio * 100 for one in answer.rates]
    mean = [one.attained.mean_ratio * 100 for one in answer.rates]
    lines = (line("lowest run", "preemption", lowest), line("mean", "running", mean))
    rules = (RuleLine(f"{answer.queue.target:.0%}", "limit", answer.queue.target * 100),)
    return Figure(
        key="attainment",
        title="Attainment by rate",
        caption="The lowest run and the mean of all; the line is what is asked for.",
        alt="Attainment falls as the rate of arrivals rises, well before the servers are busy all the time.",
        x_title="requests/s",
        x_kind="number",
        panels=(FigurePanel("within the service level, %", lines, rules),),
    )
