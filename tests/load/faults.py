"""A scripted server: it says exactly these bytes at exactly these seconds, with every fault known from the field.

Time is the script's: each piece carries the second at which the client is to read it, the one clock of client and
server is set to it, and the next piece goes out when the client has read all of this one. So one piece is one read
(unless `together`), nobody waits for a real clock, and stamps can be compared with `==`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from vtop.load.http.client import Client
from vtop.load.http.connection import LoadConnection
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer

DONE = b"data: [DONE]\n\n"
PAYLOAD = json.dumps({"model": "tiny", "prompt": "the secret garden of the king", "max_tokens": 4}).encode()

Pieces = tuple[tuple[float, bytes], ...]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# --- events as servers write them


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, ensure_ascii=False).encode() + b"\n\n"


def token(text: str = " x", finish: str | None = None, ids: list[int] | None = None, total: int | None = None) -> bytes:
    """A completions event; total: the running usage."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "token_ids": ids}
    usage = {} if total is None else {"usage": {"prompt_tokens": 5, "completion_tokens": total}}
    return event(id="cmpl-1", choices=[choice], **usage)


def chat(finish: str | None = None, **delta: Any) -> bytes:
    return event(id="chat-1", choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


def usage(tokens: int, **more: Any) -> bytes:
    return event(id="cmpl-1", choices=[], usage={"prompt_tokens": 5, "completion_tokens": tokens, **more})


def inband(message: str) -> bytes:
    return event(error={"message": message, "type": "InternalServerError", "code": 500})


def four(finish: str = "length") -> tuple[bytes, ...]:
    """Four tokens, finished."""
    return token(), token(), token(), token(finish=finish)


# --- answers


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to one request. then: keep, close (an orderly end), reset, hang (until the client goes)."""

    pieces: Pieces
    then: str = "keep"
    status: str = "200 OK"
    headers: tuple[str, ...] = ("content-type: text/event-stream",)
    framing: str = "chunked"  # chunked, length, none (ends with the connection), raw (the pieces are all there is)
    head_s: float = 0.0
    before: bytes = b""  # goes before the head
    together: bool = False  # head and pieces in one write: one read
    unfinished: bool = False  # the last chunk or bytes that were promised do not come
    go_on: asyncio.Event | None = None  # the pieces wait for the test

    def wire(self) -> Iterator[tuple[float, bytes]]:
        if self.framing == "raw":
            yield from self.pieces
            return
        length = sum(len(data) for _, data in self.pieces) + 9 * self.unfinished
        more = {"chunked": ("transfer-encoding: chunked",), "length": (f"content-length: {length}",)}.get(
            self.framing, ()
        )
        head = "\r\n".join((f"HTTP/1.1 {self.status}", *self.headers, *more, "", "")).encode()
        yield self.head_s, self.before + head
        for at, data in self.pieces:
            yield at, b"%x\r\n%s\r\n" % (len(data), data) if self.framing == "chunked" else data
        if self.framing == "chunked" and not self.unfinished:
            yield max((at for at, _ in self.pieces), default=self.head_s), b"0\r\n\r\n"


def at(*pieces: tuple[float, bytes]) -> Pieces:
    return pieces


def each(step_s: float, events: tuple[bytes, ...], start_s: float = 1.0) -> Pieces:
    """The events at start_s and then one each step."""
    return tuple((start_s + step_s * n, data) for n, data in enumerate(events))


def by_byte(pieces: Pieces) -> Pieces:
    return tuple((second, data[n : n + 1]) for second, data in pieces for n in range(len(data)))


def split(data: bytes, *cuts: int) -> tuple[bytes, ...]:
    edges = (0, *cuts, len(data))
    return tuple(data[a:b] for a, b in pairwise(edges))


# --- every fault, and what is right


@dataclass(frozen=True, slots=True)
class Expected:
    """What a fault should be read as. Only what is given here is looked at; None is a value."""

    error: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def success(**values: Any) -> Expected:
    return Expected(None, values)


def failure(error: str, **values: Any) -> Expected:
    return Expected(error, values)


_ROLE = chat(role="assistant", content="")
_TEXT = tuple(chat(content="a") for _ in range(3))
_END = (chat(finish="stop", content="a"), usage(4), DONE)
_PLAIN = (*four(), usage(4), DONE)
_LINE_SEPARATOR = 'data: {"choices":[{"index":0,"delta":{"content":"a\u2028b"},"finish_reason":null}]}\n\n'.encode()
_NEXT_LINE = 'data: {"choices":[{"index":0,"delta":{"content":"a\u0085b"},"finish_reason":null}]}\n\n'.encode()
_POEM = token("naïve – 日本 🙂")
_FIRST_AT_1 = {"first_s": 1.0, "output_tokens": 4, "chunks": 4, "last_s": 4.0, "gaps_us": (1_000_000,) * 3}
_REASONED = (*(chat(reasoning="hm") for _ in range(3)), chat(content="so"), chat(finish="stop", content="!"))
_FOUR_OF = b'{"error":{"message":"The engine is currently busy","type":"Service Unavailable","code":503}}'

FAULTS: dict[str, tuple[Answer, Expected]] = {
    "nothing is wrong": (
        Answer(each(1.0, _PLAIN)),
        success(**_FIRST_AT_1, tokens_from="usage", prompt_tokens=5, finish="length", gap_tokens=None),
    ),
    "C02: the role comes first, the text much later": (
        Answer(at((0.9, _ROLE), *each(0.25, (*_TEXT, *_END), 2.25))),
        success(first_s=2.25, last_s=3.0, chunks=4, gaps_us=(250_000,) * 3, answer_s=None),
    ),
    "tokens that are no text yet": (
        Answer(each(1.0, (token(""), token(""), token("é"), token(finish="length"), usage(4), DONE))),
        success(**_FIRST_AT_1),
    ),
    "C01: four tokens a chunk, counted by the server": (
        Answer(each(0.1, (*(token(total=4 * n) for n in range(1, 5)), token("", "length", total=20), usage(20), DONE))),
        success(output_tokens=20, chunks=5, gap_tokens=(4,) * 4, first_tokens=4, gaps_us=(100_000,) * 4, first_s=1.0),
    ),
    "C01: four tokens a chunk, usage at the end only": (
        Answer(each(0.1, (*(token() for _ in range(4)), token(finish="length"), usage(20), DONE))),
        success(output_tokens=20, chunks=5, tokens_from="usage", gap_tokens=None, gaps_us=(100_000,) * 4),
    ),
    "four tokens a chunk, by ids": (
        Answer(each(1.0, (token(ids=[1]), token(ids=[2, 3, 4]), token(finish="length", ids=[5]), usage(5), DONE))),
        success(output_tokens=5, chunks=3, tokens_from="ids", gap_tokens=(3, 1), first_tokens=None, last_s=3.0),
    ),
    "no usage at all": (
        Answer(each(1.0, (*four(), DONE))),
        success(**_FIRST_AT_1, tokens_from="chunks", prompt_tokens=None),
    ),
    "usage in the last event only": (
        Answer(each(1.0, (*four()[:3], token(finish="length", total=12), DONE))),
        success(output_tokens=12, chunks=4, tokens_from="usage", gap_tokens=None),
    ),
    "the last event holds no text, but a token": (
        Answer(each(1.0, (*four()[:3], token("", "stop"), usage(4), DONE))),
        success(**_FIRST_AT_1),
    ),
    "the last event holds no token": (
        Answer(each(1.0, (*four()[:3], token("", "stop"), usage(3), DONE))),
        success(output_tokens=3, chunks=3, last_s=3.0, gaps_us=(1_000_000,) * 2),
    ),
    "C03: reasoning, then the answer": (
        Answer(each(1.0, (_ROLE, *_REASONED, usage(5), DONE), 0.5)),
        success(first_s=1.5, answer_s=4.5, output_tokens=5, chunks=5),
    ),
    "C03: the cap ends within the reasoning": (
        Answer(each(1.0, (chat(reasoning_content="a"), chat("length", reasoning_content="b"), usage(128), DONE))),
        success(first_s=1.0, answer_s=None, output_tokens=128, chunks=2, finish="length"),
    ),
    "C03: both channels in one event": (
        Answer(each(1.0, (chat(reasoning="a", content="b"), chat("stop", content="c"), usage(2), DONE))),
        success(first_s=1.0, answer_s=None, chunks=2),
    ),
    "a tool call": (
        Answer(each(1.0, (_ROLE, chat(tool_calls=[{"index": 0}]), chat("tool_calls"), usage(1), DONE))),
        success(first_s=2.0, chunks=1, output_tokens=1),
    ),
    "C14: an error after three tokens": (
        Answer(each(1.0, (*four()[:3], inband("it broke"), DONE))),
        failure("inband_error", detail="it broke", output_tokens=3, status=200, first_s=1.0, last_s=3.0),
    ),
    "C14: event: error": (
        Answer(each(1.0, (token(), b'event: error\ndata: {"message": "out of memory"}\n\n'))),
        failure("inband_error", detail="out of memory", chunks=1),
    ),
    "an error in the form of old servers": (
        Answer(each(1.0, (token(), event(object="error", message="too old", code=400), DONE))),
        failure("inband_error", detail="too old"),
    ),
    "an error before any token, answered with 200": (
        Answer(each(1.0, (inband("no room"), DONE))),
        failure("inband_error", detail="no room", output_tokens=None, first_s=None, chunks=None, gaps_us=None),
    ),
    "C15: an empty 200": (Answer((), framing="length"), failure("truncated", output_tokens=None, headers_s=0.0)),
    "C15: an empty stream": (Answer(()), failure("truncated", detail="the answer was empty")),
    "C15: the socket closes after three tokens": (
        Answer(each(1.0, four()[:3]), "close", unfinished=True),
        failure("truncated", output_tokens=3, detail="the server closed the connection, 3 events with tokens had come"),
    ),
    "the stream ends well, the answer does not": (
        Answer(each(1.0, four()[:3])),
        failure("truncated", output_tokens=3, detail="it ended without a finish_reason"),
    ),
    "finished, with neither usage nor [DONE]": (Answer(each(1.0, four())), failure("truncated", output_tokens=4)),
    "only [DONE]": (Answer(each(1.0, (DONE,))), failure("truncated")),
    "[DONE] without a finish_reason": (Answer(each(1.0, (token(), DONE))), failure("truncated", chunks=1)),
    "cut in the middle of an event": (
        Answer(at((1.0, token()), (2.0, token()[:60])), "close", unfinished=True),
        failure("truncated", chunks=1, last_s=1.0),
    ),
    "a whole answer, but the last chunk is missing": (
        Answer(each(1.0, _PLAIN), "close", unfinished=True),
        success(**_FIRST_AT_1),
    ),
    "reset after two tokens": (
        Answer(each(1.0, four()[:2]), "reset", unfinished=True),
        failure("reset", output_tokens=2),
    ),
    "C15: usage says 859 tokens, one event came": (
        Answer(each(1.0, (token(finish="stop"), usage(859), DONE))),
        success(output_tokens=859, chunks=1, gaps_us=(), tokens_from="usage"),
    ),
    "finished without a token": (
        Answer(each(1.0, (chat("stop"), usage(0), DONE))),
        failure("short_output", output_tokens=0, first_s=None),
    ),
    "C17: comments for long before the first token": (
        Answer(
            at(
                *each(10.0, (b":\n\n", b": keep-alive\n\n", b"data:\n\n", b"data: : PROCESSING\n\n")),
                *each(1.0, _PLAIN, 50.0),
            )
        ),
        success(first_s=50.0, output_tokens=4, chunks=4, gaps_us=(1_000_000,) * 3),
    ),
    "C17: comments and ids between the tokens": (
        Answer(
            each(
                1.0,
                (
                    b"id: 7\n" + token(),
                    b": ping\n\n" + token(),
                    b": ping\n\n",
                    *four()[2:],
                    usage(4),
                    b"retry: 9\n" + DONE,
                ),
            )
        ),
        success(output_tokens=4, chunks=4, gaps_us=(1_000_000, 2_000_000, 1_000_000)),
    ),
    "C18: CR LF": (Answer(each(1.0, tuple(e.replace(b"\n", b"\r\n") for e in _PLAIN))), success(**_FIRST_AT_1)),
    "C18: CR only": (Answer(each(1.0, tuple(e.replace(b"\n", b"\r") for e in _PLAIN))), success(**_FIRST_AT_1)),
    "C18: CR and LF in different packets": (
        Answer(
            tuple(
                (second, part)
                for second, data in each(1.0, _PLAIN)
                for part in data.replace(b"\n", b"\r\n").splitlines(keepends=True)
                for part in (part[:-1], part[-1:])
            )
        ),
        success(**_FIRST_AT_1),
    ),
    "C18: no space after data:": (
        Answer(each(1.0, tuple(e.replace(b"data: ", b"data:") for e in _PLAIN))),
        success(**_FIRST_AT_1),
    ),
    "C18: byte by byte": (Answer(by_byte(each(1.0, _PLAIN))), success(**_FIRST_AT_1)),
    "C18: cut within a character": (
        Answer(
            tuple(
                (second, part)
                for second, data in each(1.0, (_POEM, *_PLAIN[1:]))
                for part in split(data, len(data) - 70)
            )
        ),
        success(**_FIRST_AT_1),
    ),
    "a cut right after data:": (
        Answer(tuple((second, part) for second, data in each(1.0, _PLAIN) for part in split(data, 5))),
        success(**_FIRST_AT_1),
    ),
    "C18: all events in one read": (
        Answer(each(1.0, _PLAIN), together=True),
        success(first_s=5.0 + 1.0, last_s=6.0, output_tokens=4, chunks=4, gaps_us=(), gap_tokens=None, first_tokens=4),
    ),
    "C18: two events a read": (
        Answer(at((1.0, token() + token()), (3.0, token() + token(finish="length") + usage(4) + DONE))),
        success(output_tokens=4, chunks=4, gaps_us=(2_000_000,), gap_tokens=(2,), first_tokens=2),
    ),
    "data on two lines": (
        Answer(
            each(
                1.0,
                (*four()[:3], b'data: {"choices":[{"text":"a",\ndata: "finish_reason":"stop"}]}\n\n', usage(4), DONE),
            )
        ),
        success(**_FIRST_AT_1),
    ),
    "C20: U+2028 and U+0085 in the text": (
        Answer(each(1.0, (_LINE_SEPARATOR, _NEXT_LINE, chat(content="c"), *_END))),
        success(**_FIRST_AT_1),
    ),
    "half a character in the JSON": (
        Answer(
            each(1.0, (token(), b'data: {"choices":[{"text":"\\ud83d","index":0}]}\n\n', *four()[2:], usage(4), DONE))
        ),
        success(**_FIRST_AT_1),
    ),
    "bytes that are no UTF-8": (
        Answer(
            each(1.0, (token(), b'data: {"choices":[{"text":"\xff\xfe","index":0}]}\n\n', *four()[2:], usage(4), DONE))
        ),
        success(**_FIRST_AT_1),
    ),
    "a byte order mark": (Answer(each(1.0, (b"\xef\xbb\xbf" + token(), *_PLAIN[1:]))), success(**_FIRST_AT_1)),
    "no blank line at the very end": (
        Answer(each(1.0, (*four(), usage(4)[:-2]), 1.0)),
        success(**_FIRST_AT_1, tokens_from="usage"),
    ),
    "C21: usage half a second late": (
        Answer(at(*each(1.0, four()), (4.5, usage(4) + DONE))),
        success(**_FIRST_AT_1, end_s=4.5),
    ),
    "C21: reasoning tokens are within the completion's": (
        Answer(each(1.0, (*four(), usage(100, completion_tokens_details={"reasoning_tokens": 80}), DONE))),
        success(output_tokens=100),
    ),
    "C24: one token": (
        Answer(each(1.0, (token(finish="length"), usage(1), DONE))),
        success(output_tokens=1, first_s=1.0, last_s=1.0, gaps_us=()),
    ),
    "C30: the server's own timings": (
        Answer(
            each(
                1.0,
                (
                    *four(),
                    event(
                        choices=[],
                        usage={
                            "prompt_tokens": 64,
                            "completion_tokens": 4,
                            "prompt_tokens_details": {"cached_tokens": 32},
                        },
                        metrics={"queue_time_ms": 2000.25, "time_to_first_token_ms": 85, "new": [1, {"a": None}]},
                    ),
                    DONE,
                ),
            )
        ),
        success(
            **_FIRST_AT_1,
            prompt_tokens=64,
            cached_tokens=32,
            timings={"queue_time_ms": 2000.25, "time_to_first_token_ms": 85, "new": [1, {"a": None}]},
        ),
    ),
    "503 with a body": (
        Answer(
            at((1.0, _FOUR_OF)),
            status="503 Service Unavailable",
            headers=("content-type: application/json",),
            framing="length",
        ),
        failure("http_status", status=503, detail="The engine is currently busy", first_s=None, output_tokens=None),
    ),
    "502 with a page": (
        Answer(at((1.0, b"<html><title>502 Bad Gateway</title><b>x</b></html>")), status="502 Bad Gateway"),
        failure("http_status", status=502, detail="502 Bad Gateway"),
    ),
    "a body that never ends well": (
        Answer(at((1.0, _FOUR_OF[:-9])), "close", status="500 Oh", framing="length", unfinished=True),
        failure("http_status", status=500),
    ),
    "a message that quotes the prompt": (
        Answer(
            at(
                (
                    1.0,
                    b'{"detail":[{"loc":["body","prompt"],"msg":"no: the secret garden of the kin","input":"the se"}]}',
                )
            ),
            status="422 No",
            framing="length",
        ),
        failure("http_status", status=422, detail="body.prompt: no: …"),
    ),
    "a redirect": (
        Answer((), status="307 Temporary", headers=("location: https://u:p@elsewhere/v1?key=1",), framing="length"),
        failure("http_status", status=307, detail="it redirects to elsewhere/v1, which is not followed"),
    ),
    "an answer that is compressed": (
        Answer(at((1.0, b"\x1f\x8b")), headers=("content-type: text/event-stream", "content-encoding: gzip")),
        failure("truncated", detail="the answer is compressed (gzip), which was not asked for"),
    ),
    "a page instead of a stream": (
        Answer(at((1.0, b"<html>hello</html>")), headers=("content-type: text/html",), framing="length"),
        failure("truncated", detail="the answer is text/html, not an event stream"),
    ),
    "an answer that is no stream": (
        Answer(
            at((1.0, event(choices=[{"text": "abcd", "finish_reason": "length"}], usage={"completion_tokens": 4})[6:])),
            headers=("content-type: application/json",),
            framing="length",
        ),
        success(output_tokens=4, chunks=1, first_s=1.0, first_tokens=4, gaps_us=()),
    ),
    "100 Continue before the answer": (
        Answer(each(1.0, _PLAIN), before=b"HTTP/1.1 100 Continue\r\n\r\n"),
        success(**_FIRST_AT_1, status=200),
    ),
    "a stream of known length": (Answer(each(1.0, _PLAIN), framing="length"), success(**_FIRST_AT_1)),
    "a stream that the connection's end ends": (
        Answer(each(1.0, _PLAIN), "close", framing="none"),
        success(**_FIRST_AT_1, end_s=6.0),
    ),
    "a close that ends too little": (Answer(each(1.0, four()[:2]), "close", framing="none"), failure("truncated")),
    "C10: closed without a byte": (
        Answer((), "close", framing="raw"),
        failure(
            "reset", status=None, detail="the connection was cut after 0.0 s of silence, nothing of an answer had come"
        ),
    ),
    "reset without a byte": (Answer((), "reset", framing="raw"), failure("reset", status=None)),
    "no HTTP": (Answer(at((1.0, b"SSH-2.0-OpenSSH_9.6\r\n")), "hang", framing="raw"), failure("reset", status=None)),
}

# --- the server


class Line(asyncio.StreamReaderProtocol):
    """A connection of the server that notices at once when the client goes."""

    def __init__(self, server: Server) -> None:
        reader = asyncio.StreamReader()
        self._server = server
        self.client_gone = False
        super().__init__(reader, lambda reader, writer: server.serve(self, reader, writer))

    def eof_received(self) -> bool | None:
        self._gone()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        super().connection_lost(exc)

    def _gone(self) -> None:
        self.client_gone = True
        self._server.moved.set()


@dataclass(slots=True)
class Server:
    """Answers the requests in turn by `answers`; the last one stays."""

    clock: Clock
    answers: list[Answer]
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    accepted: int = 0
    now_open: int = 0
    most_open: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)  # the client read something, or went
    hanging: asyncio.Event = field(default_factory=asyncio.Event)  # all of a hanging answer was read
    client_gone: asyncio.Event = field(default_factory=asyncio.Event)
    hears: asyncio.Event = field(default_factory=asyncio.Event)  # requests are read only when it is set
    asked: asyncio.Condition = field(default_factory=asyncio.Condition)
    sent_bytes: int = 0
    read_bytes: int = 0  # by the client

    def client_read(self, nbytes: int) -> None:
        self.read_bytes += nbytes
        self.moved.set()

    async def requests_in(self, number: int) -> None:
        async with self.asked:
            await self.asked.wait_for(lambda: len(self.requests) >= number)

    async def serve(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.now_open += 1
        self.most_open = max(self.most_open, self.now_open)
        try:
            await self.hears.wait()
            while await self._converse(line, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            self.client_gone.set()
        except asyncio.CancelledError:  # the test is over
            return
        finally:
            self.now_open -= 1
            writer.close()

    async def _converse(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        async with self.asked:
            self.requests.append(head + body)
            self.asked.notify_all()
        if answer.together:
            second, _ = list(answer.wire())[-1]
            await self._send(line, writer, second, b"".join(data for _, data in answer.wire()))
        else:
            for number, (second, data) in enumerate(answer.wire()):
                if number == 1 and answer.go_on is not None:
                    await answer.go_on.wait()
                await self._send(line, writer, second, data)
        if answer.then == "hang":
            self.hanging.set()
            await reader.read()
            self.client_gone.set()
        elif answer.then == "reset":
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return answer.then == "keep"

    async def _send(self, line: Line, writer: asyncio.StreamWriter, second: float, data: bytes) -> None:
        self.clock.now = max(self.clock.now, second)
        if not data:
            return
        self.sent_bytes += len(data)
        writer.write(data)
        while self.read_bytes < self.sent_bytes:
            if line.client_gone:
                self.sent_bytes = self.read_bytes
                raise ConnectionResetError
            self.moved.clear()
            await self.moved.wait()


@asynccontextmanager
async def serving(
    patch: Callable[[object, str, object], None], *answers: Answer, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """The server of these answers; `patch` is pytest's monkeypatch.setattr, to see what the client has read."""
    server = Server(Clock(), list(answers))
    server.hears.set()
    updated = LoadConnection.buffer_updated

    def buffer_updated(self: LoadConnection, nbytes: int) -> None:
        updated(self, nbytes)
        server.client_read(nbytes)

    patch(LoadConnection, "buffer_updated", buffer_updated)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Line(server), "127.0.0.1", 0, ssl=tls, backlog=1024)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


async def ask(client: Client, asked: ExpectedAnswer | None = None, payload: bytes = PAYLOAD) -> Exchange:
    exchange = Exchange(client.lay("/v1/completions", payload), asked or ExpectedAnswer())
    await client.run(exchange)
    return exchange
