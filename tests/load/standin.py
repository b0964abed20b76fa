"""The scripted server of faults.py on a thread of its own, for load processes; every answer is complete at once.

`reply` says what is answered to a request. Without one, so many tokens are answered as were asked for.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.load.faults import DONE, Answer, Clock, Line, Server, at, event, token

Reply = Callable[[dict[str, Any]], Answer]
WITHIN_S = 20.0
MODELS = json.dumps({"object": "list", "data": [{"id": "tiny", "max_model_len": 4096}]}).encode()
JSON = ("content-type: application/json",)


def whole(body: dict[str, Any]) -> Answer:
    """All tokens that were asked for, and the prompt counted right."""
    tokens, prompt = body["max_tokens"], body.get("prompt", ())
    counts = {"prompt_tokens": len(prompt), "completion_tokens": tokens}
    said = (*(token() for _ in range(tokens - 1)), token(finish="length"))
    return Answer(at((0.0, b"".join((*said, event(choices=[], usage=counts), DONE)))), together=True)


def refusal(status: str, message: str) -> Answer:
    body = json.dumps({"error": {"message": message, "type": "BadRequestError", "code": int(status[:3])}}).encode()
    return Answer(at((0.0, body)), status=status, headers=JSON, framing="length", together=True)


def held(body: dict[str, Any]) -> Answer:
    """All of it, but not before the test says so."""
    return replace(whole(body), go_on=asyncio.Event())


def hanging(body: dict[str, Any]) -> Answer:
    """A token, and then nothing until the client goes."""
    return Answer(at((0.0, token())), "hang", together=True, unfinished=True)


class Standin(Server):
    """`bodies`: of the requests for tokens, as they came, with the server's clock at each."""

    def __init__(self, reply: Reply, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(Clock(), [])
        self.reply = reply
        self.tls = tls
        self.read_bytes = 1 << 60  # nobody tells what was read
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[bytes] = []  # of all requests
        self.models = Answer(at((0.0, MODELS)), headers=JSON, framing="length", together=True)
        self.trials = 0
        self.in_flight = self.most_in_flight = self.gone = 0
        self.go_on = asyncio.Event()
        self.hears.set()
        self.news = threading.Condition()

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def until(self, condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        with self.news:
            assert self.news.wait_for(condition, within_s), "waited for what never came"

    async def _converse(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        body = json.loads(await reader.readexactly(length) or b"null")
        path = head.split(b" ")[1]
        if path == b"/v1/models":
            answer = self.models
        elif path in (b"/v1/completions", b"/v1/chat/completions"):
            answer = self._take(body)
        else:
            answer = refusal("404 Not Found", "no such path")
        generates = body is not None and "max_tokens" in body
        try:
            if answer.go_on is not None:
                await self.go_on.wait()
            writer.write(b"".join(data for _, data in answer.wire()))
            await writer.drain()
            if answer.then == "hang":
                await reader.read()
                raise ConnectionResetError
        except ConnectionError:
            with self.news:
                self.gone += 1
            raise
        finally:
            with self.news:
                self.in_flight -= generates
                self.news.notify_all()
        return answer.then == "keep"

    def _take(self, body: dict[str, Any]) -> Answer:
        with self.news:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            asked = body.get("prompt")
            trial = asked == "hello" or "hello" in str(body.get("messages", "")) or (asked or "")[1:] == []
            self.trials += trial
            if not trial:
                self.bodies.append(body)
            answer = self.reply(body)
            self.news.notify_all()
        return whole(body) if trial and (answer.then == "hang" or answer.go_on is not None) else answer


class Host:
    """Where a standin listens: it can go and come back at the same port."""

    def __init__(self, standin: Standin) -> None:
        self.standin = standin
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._listening: asyncio.Server | None = None
        self._lines: set[Line] = set()

    def up(self) -> None:
        asyncio.run_coroutine_threadsafe(self._up(), self._loop).result(WITHIN_S)

    def down(self) -> None:
        """Nothing listens any more, and all connections are cut."""
        asyncio.run_coroutine_threadsafe(self._down(), self._loop).result(WITHIN_S)

    def answer(self) -> None:
        """What was held back is answered, and all from now on."""
        self._loop.call_soon_threadsafe(self.standin.go_on.set)

    def close(self) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WITHIN_S)
        self._loop.close()

    async def _up(self) -> None:
        self._listening = await self._loop.create_server(
            self._line, "127.0.0.1", self.standin.port, backlog=1024, reuse_address=True, ssl=self.standin.tls
        )
        self.standin.port = self._listening.sockets[0].getsockname()[1]

    def _line(self) -> Line:
        line = Line(self.standin)
        self._lines.add(line)
        return line

    async def _down(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._lines.clear()


@contextmanager
def standing_in(reply: Reply = whole, tls: ssl.SSLContext | None = None) -> Iterator[Host]:
    host = Host(Standin(reply, tls))
    host.up()
    try:
        yield host
    finally:
        host.close()
