"""The table of phases: a row for each phase of vtop's own load, with what was asked and what came of it.

What came of it is what the screen shows at the end of the phase; for one that had not ended, at the recording's end.
"""

from __future__ import annotations

from collections.abc import Iterator

from vtop.export.spans import whole
from vtop.export.tables.table import Cell, Column, Row, Table
from vtop.session.frame.frame import View
from vtop.session.frame.load import LoadPart, Quantiles
from vtop.session.session import Session

_TIMES = (
    ("ttft", "first token - sent"),
    ("ttft_from_due", "first token - due, of an open loop"),
    ("itl", "between tokens"),
    ("tpot", "a request's mean between tokens"),
    ("e2e", "last token - sent"),
)
_OF_TIMES = ("mean", "p50", "p90", "p99", "p999")

PHASES = Table(
    "phases",
    "a phase of vtop's own load",
    (
        Column("phase", "count", "from 0"),
        Column("server", "count", "index of the server"),
        Column("spec", "text", "as it was asked for"),
        Column("shape", "text", "closed, open"),
        Column("begin_s", "number", "second of the session"),
        Column("begin_unix_s", "number", "the same instant by the wall clock"),
        Column("steady_s", "number", "the warm-up was over"),
        Column("end_s", "number", "empty: it had not ended"),
        Column("reason", "text", "why it ended"),
        Column("concurrency", "count", "target of a closed loop at its end"),
        Column("rate_per_s", "number", "target of an open one at its end"),
        Column("arrival", "text", "poisson, constant, gamma:K, trace"),
        Column("max_in_flight", "count", "cap of an open loop"),
        Column("input_low_tokens", "count", "range of prompt lengths"),
        Column("input_high_tokens", "count", ""),
        Column("output_low_tokens", "count", "range of answer lengths"),
        Column("output_high_tokens", "count", ""),
        Column("planned_requests", "count", "warm-up left out"),
        Column("planned_s", "number", ""),
        Column("warmup_requests", "count", ""),
        Column("seed", "count", ""),
        Column("api", "text", "completions, chat"),
        Column("workers", "count", "processes"),
        Column("slo_ttft_s", "number", "bound that was asked for"),
        Column("slo_tpot_s", "number", ""),
        Column("slo_e2e_s", "number", ""),
        Column("sent", "count", "requests, warm-up left out here and in all that follows"),
        Column("done", "count", "succeeded"),
        Column("failed", "count", ""),
        Column("unfinished", "count", "broken off by vtop"),
        Column("output_tokens", "count", "of those that succeeded"),
        Column("output_per_s", "number", "tokens/s without ramp and drain"),
        Column("cached_tokens", "count", "as the answers say"),
        Column("prefix_hit_tokens", "count", "growth of the server's counter over the phase"),
        Column("wrong_length", "count", "requests whose prompt the server counted otherwise than asked"),
        *(
            Column(f"{name}_{of}_s", "number", says if of == "mean" else "inf: a failed request stands there")
            for name, says in _TIMES
            for of in _OF_TIMES
        ),
        Column("late_p50_s", "number", "sent - due"),
        Column("late_p99_s", "number", ""),
        Column("kept_ratio", "number", "requests that kept every bound ÷ all that ended"),
        Column("good_per_s", "number", "those requests ÷ time"),
        Column("limited", "text", "why the numbers may be the client's"),
    ),
)


def phases(session: Session) -> Iterator[Row]:
    """The rows of PHASES."""
    for number, phase in session.load.phases.items():
        latest, end = phase.state(session.end_s)
        part = session.frame(end.t if end is not None else session.end_s, View(window_s=1.0, columns=1)).load
        shown = part if part is not None and part.phase == number else None
        steady_s = next((change.t for change in phase.changes if change.state == "steady"), None)
        asked = phase.begin
        yield (
            number,
            asked.server,
            asked.spec,
            asked.shape,
            asked.t,
            session.start.unix_s + asked.t,
            steady_s,
            end.t if end is not None else None,
            end.reason if end is not None else None,
            latest.concurrency,
            latest.rate_per_s,
            asked.arrival,
            asked.max_in_flight,
            *(asked.input_tokens or (None, None)),
            *(asked.output_tokens or (None, None)),
            asked.requests,
            asked.for_s,
            asked.warmup,
            asked.seed,
            asked.api,
            asked.workers,
            *((asked.slo or {}).get(name) for name in ("ttft", "tpot", "e2e")),
            *(_came(shown) if shown is not None else (None,) * _CAME),
        )


def _came(part: LoadPart) -> tuple[Cell, ...]:
    return (
        part.sent,
        part.done,
        part.failed,
        part.unfinished,
        part.output_tokens,
        part.output_per_s,
        part.cached_tokens,
        whole(part.prefix_hit_tokens) if part.prefix_hit_tokens is not None else None,
        part.wrong_length,
        *_times(part.ttft),
        *_times(part.ttft_from_due),
        *_times(part.itl),
        *_times(part.tpot),
        *_times(part.e2e),
        part.late_p50_s,
        part.late_p99_s,
        part.slo.attainment_ratio if part.slo is not None else None,
        part.slo.good_per_s if part.slo is not None else None,
        part.limited,
    )


_CAME = len(PHASES.columns) - PHASES.header.index("sent")


def _times(found: Quantiles | None) -> tuple[Cell, ...]:
    if found is None:
        return (None,) * len(_OF_TIMES)
    return found.mean_s, found.p50_s, found.p90_s, found.p99_s, found.p999_s
