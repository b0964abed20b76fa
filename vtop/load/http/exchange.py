"""One request and its answer: every stamp that was taken on the way, and what a recording keeps of it.

All instants are seconds of the session, from the clock that the client was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vtop.load.http.response import ExpectedAnswer, Reading
from vtop.load.http.server_errors import clean, message_of, refused_field
from vtop.load.http.sse import LIMIT_BYTES, EventStream
from vtop.recording.events import Request
from vtop.recording.vocabulary import ErrorClass

BODY_LIMIT: Final = 8 * 2**20  # bytes read of an answer that is no event stream
ERROR_LIMIT: Final = 64 * 2**10  # of one that says no
STREAM_LIMIT: Final = 64 * 2**20  # of a stream, and for each token asked for
TOKEN_LIMIT: Final = 64 * 2**10
ENDLESS: Final = 10  # times the tokens asked for, and some: it will not end by itself

Seen = Callable[["Exchange"], None]


class Exchange:
    """Made before its time, from bytes laid ready, and filled by the client.

    seen: called when the request was sent and when its first token came; both are worth a line of the recording.
    """

    __slots__ = (
        "_asked",
        "_body",
        "_came",
        "_events",
        "admitted_s",
        "connect_s",
        "detail",
        "due_s",
        "end_s",
        "error",
        "headers_s",
        "kept",
        "reading",
        "refused",
        "retried",
        "secrets",
        "seen",
        "sent_s",
        "status",
        "wire",
    )

    def __init__(
        self, wire: bytes, asked: ExpectedAnswer, *, due_s: float | None = None, seen: Seen | None = None
    ) -> None:
        self.wire = wire
        self.seen = seen
        self.secrets: tuple[str, ...] = ()
        self._asked = asked
        self.reading = Reading(asked)
        self._events: EventStream | None = None  # where the answer is one
        self._body = bytearray()  # where it is none
        self._came = 0  # bytes of the body
        self.due_s = due_s
        self.admitted_s: float | None = None
        self.connect_s: float | None = None
        self.sent_s: float | None = None
        self.headers_s: float | None = None
        self.end_s: float | None = None
        self.status: int | None = None
        self.error: ErrorClass | None = None
        self.detail: str | None = None
        self.refused: str | None = None  # the field of the request that the server would not take
        self.kept = False  # its connection had been open before
        self.retried = False  # a kept connection turned out to be closed, the request went out anew

    def begin(self, at: float, status: int, content_type: bytes) -> None:
        """The headers of the answer have come."""
        self.headers_s = at
        self.status = status
        if 200 <= status < 300 and b"json" not in content_type:
            self._events = EventStream()

    def take(self, body: bytes, at: float) -> str | None:
        """A piece of the answer's body has come. Why no more of it is to be read, in words; None: go on."""
        self._came += len(body)
        if self._events is None:
            said_no = self.status is not None and self.status >= 300
            limit = ERROR_LIMIT if said_no else BODY_LIMIT
            self._body += body[: limit - len(self._body)]
            return None if self._came <= limit else f"an answer of more than {limit >> 10:,} KiB is not read further"
        for event in self._events.feed(body):
            self.reading.event(event, at)
        asked = (self._asked.output_tokens or 0) * self._asked.choices
        if self._events.too_large:
            return f"a line or an event of more than {LIMIT_BYTES >> 20} MiB is not read"
        if asked and self.reading.chunks > ENDLESS * asked + 1000:
            return f"it does not end: {self.reading.chunks:,} events with tokens came, {asked:,} tokens were asked for"
        limit = STREAM_LIMIT + TOKEN_LIMIT * asked if asked else 16 * STREAM_LIMIT
        return None if self._came <= limit else f"an answer of more than {limit >> 20:,} MiB is not read further"

    def finish(self, at: float, last_read_s: float, broke: ErrorClass | None = None, why: str = "") -> None:
        """Nothing more comes. broke and why: see `Reading.verdict`; None when the answer came to its end."""
        if self.end_s is not None:
            return
        self.end_s = at
        body = bytes(self._body)
        if self._events is not None:
            for event in self._events.end():
                self.reading.event(event, last_read_s)
        elif self.status is not None and 200 <= self.status < 300:
            self.reading.whole(body, last_read_s)
        elif self.status is not None:
            self.refused = refused_field(body) if self.status in (400, 422) else None
            why = why or message_of(body)
        self.reading.settle()
        self.error, message = self.reading.verdict(self.status, broke, why)
        if self.error is not None:
            payload = self.wire.partition(b"\r\n\r\n")[2]
            self.detail = clean(message, payload, self.secrets) or None

    def fail(self, at: float, why: str) -> None:
        """A fault of vtop's own ended it: what was understood of the answer is not to be relied on."""
        self.reading = Reading(self._asked)
        self.end_s, self.error, self.detail = at, "fault", why

    def record(self, *, id: int, phase: int, warmup: bool = False, asked_prompt_tokens: int | None = None) -> Request:
        """What is known by now, as a line of the recording."""
        known: dict[str, Any] = {}
        reading = self.reading
        if self.end_s is not None:
            read_tokens = reading.read_tokens
            gap_tokens = read_tokens[1:]
            known = {
                "end_s": self.end_s,
                "last_s": reading.last_s,
                "answer_s": reading.answer_s,
                "prompt_tokens": reading.prompt_tokens,
                "cached_tokens": reading.cached_tokens,
                "output_tokens": reading.output_tokens,
                "tokens_from": reading.tokens_from,
                "chunks": reading.chunks if read_tokens else None,
                "gaps_us": reading.gaps_us if read_tokens else None,
                "gap_tokens": gap_tokens if any(tokens != 1 for tokens in gap_tokens) else None,
                "first_tokens": read_tokens[0] if read_tokens and read_tokens[0] != 1 else None,
                "timings": reading.timings,
                "error": self.error,
                "detail": self.detail,
                "finish": reading.finish,
            }
        return Request(
            id=id,
            phase=phase,
            warmup=warmup,
            due_s=self.due_s,
            admitted_s=self.admitted_s,
            sent_s=self.sent_s,
            connect_s=self.connect_s,
            headers_s=self.headers_s,
            first_s=reading.first_s,
            status=self.status,
            asked_prompt_tokens=asked_prompt_tokens,
            asked_output_tokens=self._asked.output_tokens,
            **known,
        )
