"""A server that does nothing but stream: vLLM's completion events of realistic size, from bytes made beforehand.

Run from the repository: python bench/load_mock.py [--port 0] [--itl-ms 20] [--tokens 64] [--burst 1] [--spread 1]. It
prints its port and serves until its stdin ends. Any POST under /v1/ is answered by --tokens events, --burst of them
each --itl-ms, all requests in step, or in --spread groups one after the other; with --itl-ms 0 the whole answer goes
out at once. A header x-tokens overrides --tokens for its request. GET /v1/models names one model; /health is well.

With --stamp the id of each event holds CLOCK_MONOTONIC in ns at the moment of its write: a client on this machine sees
how late it reads.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from itertools import cycle
from time import monotonic_ns, process_time
from typing import cast

HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 12:25:13 GMT\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
BEFORE = b'data: {"id":"cmpl-'
AFTER = (
    b'","object":"text_completion","created":1795955113,"model":"tiny","choices":[{"index":0,"text":" isinstance",'
    b'"logprobs":null,"finish_reason":%s,"stop_reason":null,"prompt_token_ids":null,"token_ids":%s}]%s}\n\n'
)
STAMP = b"%016d"
MODELS = b'{"object":"list","data":[{"id":"tiny","max_model_len":131072}]}'
FOUND = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(MODELS), MODELS)
WELL = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


def chunk(event: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(event), event)


class Wording:
    """The pieces of an answer."""

    def __init__(self, ids: bool) -> None:
        token_ids = b"[3539]" if ids else b"null"
        size = len(BEFORE + STAMP % 0 + AFTER % (b"null", token_ids, b""))
        self.before = b"%x\r\n%s" % (size, BEFORE)
        self.after = AFTER % (b"null", token_ids, b"") + b"\r\n"
        self.event = self.before + STAMP % 0 + self.after
        last = AFTER % (b'"length"', token_ids, b"")
        self.last = chunk(BEFORE + STAMP % 0 + last)

    def end(self, tokens: int) -> bytes:
        usage = (
            b'data: {"id":"cmpl-0","object":"text_completion","created":1795955113,"model":"tiny","choices":[],'
            b'"usage":{"prompt_tokens":5,"total_tokens":%d,"completion_tokens":%d}}\n\n' % (5 + tokens, tokens)
        )
        return self.last + chunk(usage) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Stream(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server = server
        self._rest = b""
        self.left = 0
        self.end = b""
        self.group: set[Stream] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.write = self.transport.write

    def connection_lost(self, exc: Exception | None) -> None:
        self.group.discard(self)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, blank, body = self._rest.partition(b"\r\n\r\n")
        lower = head.lower()
        length = int(lower.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if blank and len(body) >= length:
            self._rest = body[length:]
            if b"/v1/" not in head or head.startswith(b"GET"):
                self.write(FOUND if b"/v1/models " in head else WELL if b"/health " in head else NOT_FOUND)
                return
            asked = lower.partition(b"x-tokens:")[2].split(b"\r\n")[0]
            self._server.answer(self, int(asked) if asked else self._server.tokens)


class Server:
    def __init__(self, itl_s: float, tokens: int, burst: int, spread: int, *, stamp: bool, ids: bool) -> None:
        self.itl_s = itl_s
        self.tokens = tokens
        self._burst = burst
        self._stamp = stamp
        self._wording = Wording(ids)
        self._many = self._wording.event * burst
        self._ends: dict[int, bytes] = {}
        self._groups: list[set[Stream]] = [set() for _ in range(spread)]
        self._answers = 0
        self.events = 0

    def answer(self, stream: Stream, tokens: int) -> None:
        end = self._ends.get(tokens) or self._ends.setdefault(tokens, self._wording.end(tokens))
        self.events += tokens
        if self.itl_s == 0:
            stream.write(HEAD + self._wording.event * (tokens - 1) + end)
            return
        stream.write(HEAD)
        stream.left, stream.end = tokens - 1, end
        stream.group = self._groups[self._answers % len(self._groups)]
        stream.group.add(stream)
        self._answers += 1

    async def tick(self) -> None:
        """A step for each group: each stream gets its event by a write of its own, as from a real server."""
        loop = asyncio.get_running_loop()
        at = loop.time()
        before, after = self._wording.before, self._wording.after
        for streams in cycle(self._groups):
            at = max(at + self.itl_s / len(self._groups), loop.time())
            await asyncio.sleep(at - loop.time())
            ended = []
            for stream in streams:
                if stream.left < self._burst:
                    stream.write(self._wording.event * stream.left + stream.end)
                    ended.append(stream)
                elif self._stamp:
                    stream.left -= 1
                    stream.write(b"".join((before, STAMP % monotonic_ns(), after)))
                else:
                    stream.left -= self._burst
                    stream.write(self._many)
            streams.difference_update(ended)


async def serve(args: argparse.Namespace) -> None:
    server = Server(args.itl_ms / 1000, args.tokens, args.burst, args.spread, stamp=args.stamp, ids=args.ids)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Stream(server), "127.0.0.1", args.port, backlog=2048)
    print(listening.sockets[0].getsockname()[1], flush=True)
    over = asyncio.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(over.set)), daemon=True).start()
    ticking = asyncio.ensure_future(server.tick()) if server.itl_s else None
    await over.wait()
    if ticking is not None:
        ticking.cancel()
    listening.close()
    print(f"{server.events} events, {process_time():.2f} s of CPU", file=sys.stderr)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--itl-ms", type=float, default=20.0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--spread", type=int, default=1)
    parser.add_argument("--stamp", action="store_true")
    parser.add_argument("--ids", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(serve(arguments()))
