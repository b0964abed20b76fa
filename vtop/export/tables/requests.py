"""The table of requests: a row for each request of vtop's own load, with every stamp that its lines hold.

Rows come in the order in which requests ended; those that never did come last. Reading needs no more room than the
requests in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from vtop.export.tables.table import Column, Row, Table
from vtop.recording import AnyEvent, Load, Request, Start
from vtop.session.load.request_latency import latency_of
from vtop.session.load.server_timings import timings_of

_STAMPS = (
    ("due_s", "by the schedule; in a closed loop its slot was free"),
    ("admitted_s", "it had a slot"),
    ("sent_s", "its last byte was handed to the kernel"),
    ("headers_s", "the answer's headers came"),
    ("first_s", "the read that brought the first token"),
    ("answer_s", "the first token that is not reasoning, where that differs"),
    ("last_s", "the read that brought the last token"),
    ("end_s", "the answer was complete, or had failed"),
)

REQUESTS = Table(
    "requests",
    "a request of vtop's own load, in the order in which they ended; those without an end last",
    (
        Column("phase", "count", "of the load, from 0; -1: a trial before the phases"),
        Column("id", "count", "within the phase"),
        Column("server", "count", "index of the server it went to"),
        Column("warmup", "yes/no", "in no number of the load"),
        *(Column(name, "number", f"second of the session: {says}") for name, says in _STAMPS),
        Column("sent_unix_s", "number", "sent_s by the wall clock"),
        Column("connect_s", "number", "how long its connection took; empty for one kept alive"),
        Column("ttft_s", "number", "first_s - sent_s"),
        Column("ttft_from_due_s", "number", "first_s - due_s"),
        Column("tpot_s", "number", "(last_s - first_s) ÷ (output tokens - those of the first read)"),
        Column("e2e_s", "number", "last_s - sent_s"),
        Column("asked_prompt_tokens", "count", ""),
        Column("asked_output_tokens", "count", ""),
        Column("prompt_tokens", "count", "by the server's usage"),
        Column("cached_tokens", "count", "of these, from the prefix cache, where the server tells"),
        Column("output_tokens", "count", ""),
        Column("tokens_from", "text", "what output_tokens was counted by: ids, usage, chunks"),
        Column("chunks", "count", "events that brought tokens"),
        Column("first_tokens", "count", "tokens of the first read; empty when one"),
        Column("gaps_us", "counts", "µs between reads that brought tokens"),
        Column("gap_tokens", "counts", "tokens that each gap brought; empty when one each"),
        Column("status", "count", "HTTP"),
        Column("error", "text", "class of the failure; empty with end_s set: it succeeded"),
        Column("detail", "text", "what was said of the failure"),
        Column("finish", "text", "finish reason"),
        Column("server_queue_s", "number", "its own timing (--enable-per-request-metrics): queued to scheduled"),
        Column("server_prefill_s", "number", "scheduled to first token; vLLM calls it time_to_first_token_ms"),
        Column("server_decode_s", "number", "first to last token"),
        Column("server_itl_mean_s", "number", "mean time between its tokens"),
        Column("timings", "text", "the server's timing object, word for word, as JSON"),
    ),
)


class JoinedRequests:
    """Puts the lines of each request together: `take` an event, and a row comes out where it ends a request."""

    def __init__(self, start: Start) -> None:
        self._unix_s = start.unix_s
        self._servers: dict[int, int] = {}  # by phase
        self._open: dict[tuple[int, int], Request] = {}

    def take(self, event: AnyEvent) -> Request | None:
        """The request that this line ends, with all that its lines said."""
        if isinstance(event, Load):
            self._servers[event.phase] = event.server
        if not isinstance(event, Request):
            return None
        key = (event.phase, event.id)
        known = self._open.pop(key, None)
        request = _filled(known, event) if known is not None else event
        if request.end_s is not None:
            return request
        self._open[key] = request
        return None

    def unended(self) -> list[Request]:
        """Those that were sent and have no end, in the order in which they were."""
        return list(self._open.values())

    def server(self, request: Request) -> int | None:
        return self._servers.get(request.phase)

    def row(self, request: Request) -> Row:
        took, said = latency_of(request), timings_of(request.timings)
        sent_s = request.sent_s
        return (
            request.phase,
            request.id,
            self.server(request),
            request.warmup,
            *(getattr(request, name) for name, _ in _STAMPS),
            self._unix_s + sent_s if sent_s is not None else None,
            request.connect_s,
            took.ttft_s,
            took.ttft_from_due_s,
            took.tpot_s,
            took.e2e_s,
            request.asked_prompt_tokens,
            request.asked_output_tokens,
            request.prompt_tokens,
            request.cached_tokens,
            request.output_tokens,
            request.tokens_from,
            request.chunks,
            request.first_tokens,
            request.gaps_us,
            request.gap_tokens,
            request.status,
            request.error,
            request.detail,
            request.finish,
            said.queue_s,
            said.prefill_s,
            said.decode_s,
            said.itl_mean_s,
            msgspec.json.encode(request.timings).decode() if request.timings else None,
        )


def requests(start: Start, events: Iterable[AnyEvent]) -> Iterator[Row]:
    """The rows of REQUESTS."""
    together = JoinedRequests(start)
    for event in events:
        ended = together.take(event)
        if ended is not None:
            yield together.row(ended)
    for request in together.unended():
        yield together.row(request)


def _filled(before: Request, now: Request) -> Request:
    """The later line, with what only the earlier one said."""
    blanks = {
        name: value
        for name in Request.__struct_fields__
        if getattr(now, name) is None and (value := getattr(before, name)) is not None
    }
    return msgspec.structs.replace(now, **blanks) if blanks else now
