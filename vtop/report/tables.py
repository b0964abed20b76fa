"""The tables of a report: per phase, windows and samples, KV account, preemptions, counters, expectations of use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vtop import units
from vtop.report.findings.counters import Pair, pairs
from vtop.report.labels import best, percentile_words
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers, Percentile, Times
from vtop.report.render.document import Table
from vtop.session.frame.kv import Expectation

EVENTS_SHOWN: Final = 40

RARE: Final = ("ITL p99.99",)  # a column only where some phase has it
PARTS_N, TTFT_N = "n of parts", "n of TTFT"  # columns only where the two differ in some phase

Cell = Callable[[Phase, Numbers, Numbers | None], str]

# heading, what stands there: of the whole phase (of), or of its steady part
PHASE_COLUMNS: Final[tuple[tuple[str, Cell], ...]] = (
    ("output tok/s", lambda _, of, __: units.number(of.output_per_s)),
    (PARTS_N, lambda _, of, __: units.count(of.parts.n)),
    ("queue", lambda _, of, __: units.seconds(of.parts.queue_s)),
    ("prefill", lambda _, of, __: units.seconds(of.parts.prefill_s)),
    ("frontend", lambda _, of, __: units.seconds(of.parts.frontend_s)),
    ("network", lambda _, of, __: units.seconds(of.parts.network_s)),
    (TTFT_N, lambda _, of, __: _n(of.ttft)),
    ("TTFT mean", lambda _, of, __: units.seconds(of.ttft.mean_s if of.ttft is not None else None)),
    ("TTFT p99", lambda _, of, __: _percentile(of, "TTFT", "p99_s")),
    ("ITL p50", lambda _, of, __: _percentile(of, "ITL", "p50_s")),
    ("ITL p99", lambda _, of, __: _percentile(of, "ITL", "p99_s")),
    ("ITL p99.9", lambda _, of, __: _percentile(of, "ITL", "p999_s")),
    ("ITL p99.99", lambda _, of, __: _percentile(of, "ITL", "p9999_s")),
    ("running*", lambda _, of, steady: units.number((steady or of).running.median)),
    ("waiting peak", lambda _, of, __: units.count(of.waiting.peak)),
    ("KV*", lambda _, of, steady: units.percent((steady or of).kv.median_ratio)),
    ("KV peak", lambda _, of, __: units.percent(of.kv.peak_ratio)),
    ("preempted", lambda _, of, __: units.count(of.preemptions)),
    ("power*", lambda _, of, steady: units.watts(_power(steady or of))),
)


def phases(report: Report) -> Table:
    """The full table: a phase a row."""
    known = [(phase, phase.whole, phase.steady) for phase in report.phases if phase.whole is not None]
    columns = [(title, [cell(*one) for one in known]) for title, cell in PHASE_COLUMNS]
    columns = [(title, cells) for title, cells in columns if title not in RARE or {*cells} - {units.UNKNOWN}]
    counts = {title: cells for title, cells in columns if title in (PARTS_N, TTFT_N)}
    if counts[PARTS_N] == counts[TTFT_N]:
        columns = [(title, cells) for title, cells in columns if title not in counts]
    rows = tuple(zip((phase.label for phase, _, _ in known), *(cells for _, cells in columns), strict=True))
    notes = [
        "* median over the scrapes (readings) of the steady part, the middle 60 % of a phase; all else is of the whole "
        "phase, without its warm-up.",
        "Queue, prefill and frontend are means of the requests that finished between two scrapes (n of parts, where "
        "that is another number than of TTFT); they add up. Network is what the client "
        "saw beyond them.",
        "TTFT and ITL are those of vtop's own requests where its load ran, from sent; else the server's.",
        "A pair of bounds is the bucket of the server's histogram: of it no more is known, or there are too few own "
        "requests for the percentile (459 for p99, 4,603 for p99.9).",
    ]
    if any(title in RARE for title, _ in columns):
        notes.append("ITL p99.99 needs 46,050 gaps, of the server's histogram too.")
    if any(of.itl_is_chunks for _, of, _ in known):
        notes.append("ITL: some chunks held more tokens than the server says; these gaps are between chunks.")
    if len(report.devices) > 1:
        notes.append("Power: the sum of the GPUs' means.")
    return Table("Phase by phase", ("phase", *(title for title, _ in columns)), rows, tuple(notes))


def windows(report: Report) -> Table:
    """What each row above is about: from when to when, and how many of everything."""
    rows = []
    for phase in report.phases:
        of, steady = phase.whole, phase.steady
        if of is None:
            rows.append((phase.label, phase.name, _span(phase.begin_s, phase.end_s), *[units.UNKNOWN] * 7))
            continue
        rows.append(
            (
                phase.label,
                phase.name,
                _span(of.begin_s, of.end_s),
                f"{of.scrapes:,}",
                _span(steady.begin_s, steady.end_s) if steady is not None else units.UNKNOWN,
                f"{steady.scrapes:,}" if steady is not None else units.UNKNOWN,
                units.count(of.parts.n),
                _n(of.ttft),
                _n(of.itl),
                f"{of.power_w.n:,}" if of.power_w.n else units.UNKNOWN,
            )
        )
    head = (
        "phase", "what it is", "window", "scrapes", "steady part", "its scrapes", "n finished", "n TTFT", "n ITL",
        "readings",
    )  # fmt: skip
    whose = sorted({of.ttft.whose for phase in report.phases if (of := phase.whole) is not None and of.ttft})
    notes = (f"n TTFT and n ITL are of: {', '.join(whose)}.",) if whose else ()
    return Table("Windows and samples", head, tuple(rows), notes, words=(0, 1, 2, 4))


def account(report: Report) -> Table | None:
    """KV use against what so many requests of such lengths should take."""
    rows = []
    for phase in report.phases:
        of = phase.steady or phase.whole
        if of is None or of.account.nominal is None:
            continue
        for kind, one in (("in flight", of.account.nominal), ("running", of.account.effective)):
            if one is not None and not (kind == "running" and one.concurrency == of.account.nominal.concurrency):
                rows.append(_account_row(phase, of, kind, one))
    if not rows:
        return None
    head = (
        "phase", "of what is", "requests", "tokens each", "peak", "expected", "apart", "median", "expected mean",
        "apart", "need ÷ pool", "fit",
    )  # fmt: skip
    known = [of for phase in report.phases if (of := phase.steady or phase.whole) is not None]
    lengths = sorted({of.account.lengths_from for of in known if of.account.lengths_from is not None})
    notes = (
        "Expected peak: requests × the blocks of a request at its end; expected mean: half way through its output. "
        "Peak is held against the highest scrape of the steady part, mean against the median one; apart in points of "
        "a per cent.",
        f"Lengths from {' and '.join(lengths)}; a pool of {units.count(known[0].kv.pool_tokens)} tokens. Need: of all "
        "in flight; fit: how many of that length the pool holds.",
    )
    return Table("KV account", head, tuple(rows), notes, words=(0, 1))


def _account_row(phase: Phase, of: Numbers, kind: str, one: Expectation) -> tuple[str, ...]:
    account = of.account
    length = (account.input_tokens or 0.0) + (account.output_tokens or 0.0)
    return (
        phase.label,
        kind,
        units.number(one.concurrency),
        units.count(length),
        units.percent(of.kv.peak_ratio),
        units.percent(one.peak_ratio),
        _points(one.peak_error_ratio),
        units.percent(of.kv.median_ratio),
        units.percent(one.mean_ratio),
        _points(one.mean_error_ratio),
        units.number(account.oversubscription),
        units.number(account.predicted_residents),
    )


def preemptions(report: Report) -> Table | None:
    """Each preemption: when, what triggered it, what it freed."""
    events = report.staircase.events
    if not events:
        return None
    rows = tuple(
        (
            str(number),
            units.clock(one.at_s),
            units.count(one.count),
            one.dated_by,
            units.percent(one.kv_before_ratio),
            units.percent(one.kv_after_ratio),
            units.percent(one.freed_ratio),
            units.count(one.freed_tokens),
            f"{units.count(one.running_before)} → {units.count(one.running_after)}",
            f"{units.count(one.waiting_before)} → {units.count(one.waiting_after)}",
        )
        for number, one in enumerate(events[:EVENTS_SHOWN], start=1)
    )
    notes = ["Dated by the gauges where running fell and waiting rose and nothing finished, else by the counter."]
    if len(events) > EVENTS_SHOWN:
        every = report.run.preemptions if report.run is not None else None
        notes.append(f"{EVENTS_SHOWN} of {units.count(every)}; the JSON report has {len(events):,} of them.")
    head = ("", "at", "count", "dated by", "KV before", "KV after", "freed", "tokens freed", "running", "waiting")
    return Table("Preemptions", head, rows, tuple(notes), words=(3,))


def counters(report: Report) -> Table | None:
    """Counters that one would take for the same."""
    rows = tuple(
        (
            one.one,
            _value(one, one.one_value),
            one.other,
            _value(one, one.other_value),
            _signed(one, one.difference),
            f"{_plus(one.ratio * 100)} %" if one.ratio is not None else units.UNKNOWN,
            one.where,
            one.why,
        )
        for one in pairs(report)
    )
    if not rows:
        return None
    head = ("one", "is", "other", "is", "apart", "", "where", "why they differ")
    return Table("Counters against each other", head, rows, words=(0, 2, 6, 7))


def work(report: Report) -> Table | None:
    """Time, recompute, energy and arithmetic by phase."""
    known = [(phase, phase.whole) for phase in report.phases if phase.whole is not None]
    rows = tuple(
        (
            phase.label,
            units.seconds(of.wallclock.decode_s),
            units.seconds(of.wallclock.prefill_s),
            units.seconds(of.wallclock.recompute_s),
            units.seconds(of.wallclock.idle_s),
            units.seconds(of.wallclock.step_s),
            units.percent(of.wallclock.stolen_ratio),
            units.count(of.recompute.executed_tokens),
            units.count(of.recompute.tokens),
            units.joules(of.energy.joules),
            units.number(of.energy.per_output_token_j),
            units.percent(of.roofline.mfu_ratio),
            units.percent(of.roofline.bandwidth_ratio),
        )
        for phase, of in known
    )
    if not any(cell != units.UNKNOWN for row in rows for cell in row[1:]):
        return None
    head = (
        "phase", "decode", "prefill", "recompute", "idle", "decode step", "stolen", "executed tok", "recomputed tok",
        "energy", "J/output tok", "MFU", "bandwidth",
    )  # fmt: skip
    notes = (
        "Stolen: the share of a request's decoding that went to the prefill and recomputing of others.",
        "MFU and bandwidth: of the GPU's dense peaks, by the counters of --enable-mfu-metrics.",
    )
    return Table("Where the time and the energy went", head, rows, notes)


def _percentile(of: Numbers, name: str, quantile: str) -> str:
    value: Percentile = best(of, name, quantile)
    return percentile_words(value)


def _power(of: Numbers) -> float | None:
    return of.power_w.median if of.power_w.median is not None else of.power_w.mean


def _n(of: Times | None) -> str:
    return units.count(of.n) if of is not None else units.UNKNOWN


def _span(begin_s: float, end_s: float) -> str:
    return f"{units.clock(begin_s)}–{units.clock(end_s)}"


def _points(ratio: float | None) -> str:
    return units.UNKNOWN if ratio is None else f"{_plus(ratio * 100)} pp"


def _plus(value: float) -> str:
    """With its sign, one decimal; what rounds to nothing has none."""
    shown = f"{abs(value):.1f}"
    return shown if shown == "0.0" else f"{'+' if value > 0 else '−'}{shown}"


def _value(pair: Pair, value: float) -> str:
    return units.seconds(value) if pair.unit == "s" else units.number(value) if value % 1 else units.count(value)


def _signed(pair: Pair, value: float) -> str:
    sign = "−" if value < 0 else "+" if value > 0 else ""
    return sign + _value(pair, abs(value))
