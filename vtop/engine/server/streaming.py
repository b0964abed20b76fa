"""Answers with tokens in them: streams and whole ones, and an end to what nobody waits for any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_hex

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from vtop.engine.server import request_parsing as requests
from vtop.engine.server.realtime import Pump
from vtop.engine.server.request_parsing import Refusal
from vtop.engine.server.response_format import Wording
from vtop.engine.server.simulated import Served

STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class Generate:
    """Completions, or chat: the answer goes out as it comes, or whole; with its client gone it is broken off."""

    def __init__(self, pump: Pump, wall: Callable[[], float], *, chat: bool) -> None:
        self._pump = pump
        self._wall = wall
        self._chat = chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pump = self._pump
        settings = pump.server.settings
        body = await _body(receive)
        if body is None:
            return
        try:
            asked = requests.read(body, chat=self._chat, force_usage=settings.enable_force_include_usage)
            with pump.changing() as now_s:
                served = pump.server.submit(asked, now_s)
        except Refusal as refusal:
            await JSONResponse(refusal.body, refusal.status)(scope, receive, send)
            return
        given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), None)
        wording = Wording(
            served,
            id=f"{'chatcmpl' if self._chat else 'cmpl'}-{given or asked.request_id or token_hex(8)}",
            model=settings.model,
            created_s=int(self._wall()),
            metrics=settings.enable_per_request_metrics,
            details=settings.enable_prompt_tokens_details,
        )
        gone = asyncio.ensure_future(_gone(receive))
        answer = Answering(pump, served, gone)
        try:
            if asked.stream:
                await answer.stream(wording, send)
            elif await answer.complete():
                await JSONResponse(wording.whole())(scope, receive, send)
        finally:
            gone.cancel()
            if not answer.finished:
                with pump.changing() as now_s:
                    pump.server.abort(served, now_s)


class Answering:
    """The wait for tokens, for the client's end and for the server's."""

    def __init__(self, pump: Pump, served: Served, gone: asyncio.Future[None]) -> None:
        self._pump = pump
        self._served = served
        self._gone = gone
        self._news = asyncio.Event()
        for choice in served.choices:
            choice.stream.wake = self._news.set
        gone.add_done_callback(lambda _: self._news.set())
        pump.server.restarted.append(self._news.set)

    @property
    def finished(self) -> bool:
        return all(choice.stream.finished for choice in self._served.choices)

    @property
    def _over(self) -> bool:
        """Nobody is there any more who asks, or who could answer."""
        return self._gone.done() or self._served.life != self._pump.server.life

    async def stream(self, wording: Wording, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            while not self._over:
                self._news.clear()
                events, finished = wording.news(), self.finished
                if finished:
                    events += wording.end()
                if events:
                    await send({"type": "http.response.body", "body": events, "more_body": not finished})
                if finished:
                    return
                await self._news.wait()
                await self._pump.silence()
        finally:
            self._pump.server.restarted.remove(self._news.set)

    async def complete(self) -> bool:
        """Wait for all of it; False when nobody does any more."""
        try:
            while not self.finished:
                if self._over:
                    return False
                self._news.clear()
                await self._news.wait()
            await self._pump.silence()
            return not self._over
        finally:
            self._pump.server.restarted.remove(self._news.set)


async def _body(receive: Receive) -> bytes | None:
    """None when the client went before it had said everything."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
