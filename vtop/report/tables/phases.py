"""The tables with a phase a row: the numbers at a glance, TTFT's parts, a request's life, percentiles, windows."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.report.model import Report
from vtop.report.numbers import Numbers
from vtop.report.render.document import Table
from vtop.report.tables.cells import Columns, by_phase, of_phases, percentile, samples, span

_MAIN: Final[Columns] = (
    ("output tok/s", lambda of, _: units.number(of.output_per_s)),
    ("total tok/s", lambda of, _: units.number(of.total_per_s)),
    ("requests/s", lambda of, _: units.number(of.requests_per_s)),
    ("TTFT p50", lambda of, _: percentile(of, "TTFT", "p50_s")),
    ("TTFT p99", lambda of, _: percentile(of, "TTFT", "p99_s")),
    ("ITL p50", lambda of, _: percentile(of, "ITL", "p50_s")),
    ("ITL p99", lambda of, _: percentile(of, "ITL", "p99_s")),
    ("e2e p50", lambda of, _: percentile(of, "e2e", "p50_s")),
    ("running*", lambda _, steady: units.number(steady.running.median)),
    ("KV peak", lambda of, _: units.percent(of.kv.peak_ratio)),
    ("preempted", lambda of, _: units.count(of.preemptions)),
    ("power*", lambda _, steady: units.watts(_power(steady))),
)
_PARTS: Final[Columns] = (
    ("finished", lambda of, _: units.count(of.parts.n or None)),
    ("queue", lambda of, _: units.seconds(of.parts.queue_s)),
    ("prefill", lambda of, _: units.seconds(of.parts.prefill_s)),
    ("frontend", lambda of, _: units.seconds(of.parts.frontend_s)),
    ("= TTFT mean", lambda of, _: units.seconds(of.parts.total_s)),
    ("+ network", lambda of, _: units.seconds(of.parts.network_s)),
    ("queue of TTFT", lambda of, _: units.percent(of.queue_of_ttft_ratio)),
    ("queue ÷ prefill", lambda of, _: units.number(of.queue_of_prefill_ratio)),
)
_LIFE: Final[Columns] = (
    ("finished", lambda of, _: units.count(of.parts.n or None)),
    ("queue", lambda of, _: units.seconds(_mean(of, "queue"))),
    ("→ prefill", lambda of, _: units.seconds(_mean(of, "prefill"))),
    ("→ decode", lambda of, _: units.seconds(_mean(of, "decode"))),
    ("+ frontend", lambda of, _: units.seconds(of.parts.frontend_s)),
    ("= e2e", lambda of, _: units.seconds(_mean(of, "e2e"))),
    ("of it in the queue", lambda of, _: units.percent(of.queueing.waiting_share)),
)
_ANSWERS: Final[Columns] = (
    ("n", lambda of, _: samples(of.ttft)),
    ("TTFT mean", lambda of, _: units.seconds(of.ttft.mean_s if of.ttft is not None else None)),
    ("TTFT p50", lambda of, _: percentile(of, "TTFT", "p50_s")),
    ("TTFT p90", lambda of, _: percentile(of, "TTFT", "p90_s")),
    ("TTFT p95", lambda of, _: percentile(of, "TTFT", "p95_s")),
    ("TTFT p99", lambda of, _: percentile(of, "TTFT", "p99_s")),
    ("TPOT p50", lambda of, _: percentile(of, "TPOT", "p50_s")),
    ("TPOT p99", lambda of, _: percentile(of, "TPOT", "p99_s")),
    ("e2e p50", lambda of, _: percentile(of, "e2e", "p50_s")),
    ("e2e p90", lambda of, _: percentile(of, "e2e", "p90_s")),
    ("e2e p99", lambda of, _: percentile(of, "e2e", "p99_s")),
)
_GAPS: Final[Columns] = (
    ("n", lambda of, _: samples(of.itl)),
    ("mean", lambda of, _: units.seconds(of.itl.mean_s if of.itl is not None else None)),
    ("p50", lambda of, _: percentile(of, "ITL", "p50_s")),
    ("p90", lambda of, _: percentile(of, "ITL", "p90_s")),
    ("p95", lambda of, _: percentile(of, "ITL", "p95_s")),
    ("p99", lambda of, _: percentile(of, "ITL", "p99_s")),
    ("p99.9", lambda of, _: percentile(of, "ITL", "p999_s")),
    ("p99.99", lambda of, _: percentile(of, "ITL", "p9999_s")),
)
_FEW: Final = (
    "A pair of bounds is the bucket of the server's histogram: of it no more is known, or there are too few own "
    "requests for the percentile (90 for p95, 459 for p99, 4,603 for p99.9)."
)


def phases(report: Report) -> Table | None:
    """What one looks at first."""
    notes = [
        "* median over the scrapes (readings) of the steady part, the middle 60 % of a phase; all else is of the whole "
        "phase, without its warm-up.",
        "Output, total and requests/s are of one stretch: of vtop's own load without its ramp and drain, else of the "
        "seconds in which requests were in the engine. Total: prompt and output tokens.",
        "TTFT, ITL and e2e are those of vtop's own requests where its load ran, from sent; else the server's. " + _FEW,
    ]
    if len(report.devices) > 1:
        notes.append("Power: the sum of the GPUs' means.")
    return by_phase("Phase by phase", report, _MAIN, notes)


def parts(report: Report) -> Table | None:
    """What TTFT is made of."""
    notes = (
        "Means of the requests that finished, as the server observes them: queue, prefill and frontend add up to their "
        "TTFT. Network is what the client saw beyond it.",
    )
    known = any(of.parts.total_s is not None for _, of in of_phases(report))
    return by_phase("Time to first token, by its parts", report, _PARTS, notes) if known else None


def life(report: Report) -> Table | None:
    """A request from its arrival to its last token."""
    notes = (
        "Means of the requests that finished, as the server observes them: one after the other they add up to e2e. "
        "What a preempted request waits again is in decode, or in prefill where it came before the first token.",
    )
    known = any(_mean(of, "decode") is not None for _, of in of_phases(report))
    return by_phase("A request's life", report, _LIFE, notes) if known else None


def answers(report: Report) -> Table | None:
    """Percentiles of what is observed once a request."""
    return by_phase("Percentiles of requests", report, _ANSWERS, (_FEW,))


def gaps(report: Report) -> Table | None:
    """Percentiles of ITL."""
    notes = ["p99.99 needs 46,050 gaps, of the server's histogram too."]
    levels = report.load_levels
    if levels.tail_breaks_at is not None:
        notes.append(
            f"The tail breaks between {units.plain(levels.tail_from)} and {units.plain(levels.tail_breaks_at)} "
            f"{levels.unit}: p99 ÷ p50 grows from {units.number(levels.tail_before)} to "
            f"{units.number(levels.tail_after)}."
        )
    if any(of.itl_is_chunks for _, of in of_phases(report)):
        notes.append("Some chunks held more tokens than the server says; these gaps are between chunks.")
    return by_phase("Gaps between tokens (ITL)", report, _GAPS, notes)


def windows(report: Report) -> Table:
    """What each row above is about: from when to when, and how many of everything."""
    rows = []
    for phase in report.phases:
        of, steady = phase.whole, phase.steady
        if of is None:
            rows.append((phase.label, phase.name, span(phase.begin_s, phase.end_s), *[units.UNKNOWN] * 7))
            continue
        rows.append(
            (
                phase.label,
                phase.name,
                span(of.begin_s, of.end_s),
                f"{of.scrapes:,}",
                span(steady.begin_s, steady.end_s) if steady is not None else units.UNKNOWN,
                f"{steady.scrapes:,}" if steady is not None else units.UNKNOWN,
                units.count(of.parts.n),
                samples(of.ttft),
                samples(of.itl),
                f"{of.power_w.n:,}" if of.power_w.n else units.UNKNOWN,
            )
        )
    head = (
        "phase", "what it is", "window", "scrapes", "steady part", "its scrapes", "n finished", "n TTFT", "n ITL",
        "readings",
    )  # fmt: skip
    whose = sorted({of.ttft.whose for phase in report.phases if (of := phase.whole) is not None and of.ttft})
    notes = (f"n TTFT and n ITL are of: {', '.join(whose)}.",) if whose else ()
    return Table("Windows and samples", head, tuple(rows), notes, words=(0, 1, 2, 4), folded=True)


def _mean(of: Numbers, name: str) -> float | None:
    """Of the server's histogram of that name."""
    return next((one.mean_s for known, one in of.server if known == name), None)


def _power(of: Numbers) -> float | None:
    return of.power_w.median if of.power_w.median is not None else of.power_w.mean
