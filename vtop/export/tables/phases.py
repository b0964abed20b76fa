"""The table of phases: a row for each phase of vtop's own load, with what was asked and what came of it.

What came of it is what the screen shows at the end of the phase; for one that had not ended, at the recording's end.
"""

from __future__ import annotations

from collections.abc import Iterator

from vtop.export.spans import whole
from vtop.export.tables.table import Cell, Row, TableColumn, TableLayout
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

PHASES = TableLayout(
    "phases",
    "a phase of vtop's own load",
    (
        TableColumn("phase", "count", "from 0"),
        TableColumn("server", "count", "index of the server"),
        TableColumn("spec", "text", "as it was asked for"),
        TableColumn("shape", "text", "closed, open"),
        TableColumn("begin_s", "number", "second of the session"),
        TableColumn("begin_unix_s", "number", "the same instant by the wall clock"),
        TableColumn("steady_s", "number", "the warm-up was over"),
        TableColumn("end_s", "number", "empty: it had not ended"),
        TableColumn("reason", "text", "why it ended"),
        TableColumn("concurrency", "count", "target of a closed loop at its end"),
        TableColumn("rate_per_s", "number", "target of an open one at its end"),
        TableColumn("arrival", "text", "poisson, constant, gamma:K, trace"),
        TableColumn("max_in_flight", "count", "cap of an open loop"),
        TableColumn("input_low_tokens", "count", "range of prompt lengths"),
        TableColumn("input_high_tokens", "count", ""),
        TableColumn("output_low_tokens", "count", "range of answer lengths"),
        TableColumn("output_high_tokens", "count", ""),
        TableColumn("planned_requests", "count", "warm-up left out"),
        TableColumn("planned_s", "number", ""),
        TableColumn("warmup_requests", "count", ""),
        TableColumn("seed", "count", ""),
        TableColumn("api", "text", "completions, chat"),
        TableColumn("workers", "count", "processes"),
        TableColumn("slo_ttft_s", "number", "bound that was asked for"),
        TableColumn("slo_tpot_s", "number", ""),
        TableColumn("slo_e2e_s", "number", ""),
        TableColumn("sent", "count", "requests, warm-up left out here and in all that follows"),
        TableColumn("done", "count", "succeeded"),
        TableColumn("failed", "count", ""),
        TableColumn("unfinished", "count", "broken off by vtop"),
        TableColumn("output_tokens", "count", "of those that succeeded"),
        TableColumn("output_per_s", "number", "tokens/s without ramp and drain"),
        TableColumn("cached_tokens", "count", "as the answers say"),
        TableColumn("prefix_hit_tokens", "count", "growth of the server's counter over the phase"),
        TableColumn("wrong_length", "count", "requests whose prompt the server counted otherwise than asked"),
        *(
            TableColumn(f"{name}_{of}_s", "number", says if of == "mean" else "inf: a failed request stands there")
            for name, says in _TIMES
            for of in _OF_TIMES
        ),
        TableColumn("late_p50_s", "number", "sent - due"),
        TableColumn("late_p99_s", "number", ""),
        TableColumn("kept_ratio", "number", "requests that kept every bound ÷ all that ended"),
        TableColumn("good_per_s", "number", "those requests ÷ time"),
        TableColumn("limited", "text", "why the numbers may be the client's"),
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
