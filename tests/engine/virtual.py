"""A simulated server asked in virtual time: a loop that jumps to its next timer, and a client that speaks ASGI."""

from __future__ import annotations

import asyncio
import json
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vtop.engine.core.flags import Flags
from vtop.engine.server.app import Face
from vtop.engine.server.realtime import Pump
from vtop.engine.server.simulated import Settings, SimulatedServer

T = TypeVar("T")
UNIX_S = 1_795_955_000.0
FLAGS = Flags(num_gpu_blocks=5431, enable_prefix_caching=False)


class _Jumping(selectors.SelectSelector):
    now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            assert timeout is not None, "everybody waits for what never comes"
            self.now_s += max(1e-9, timeout)  # asyncio runs a timer that is less than its clock's nanosecond away
        return events


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def virtually(scenario: Coroutine[Any, Any, T]) -> T:
    loop = _Loop()
    try:
        return loop.run_until_complete(scenario)
    finally:
        loop.close()


@dataclass(slots=True)
class Answer:
    """What came back, each piece of the body with the server's time."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended: bool = False  # as HTTP ends an answer; False: it was broken off

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """Of a stream, without its [DONE], which must be there."""
        *events, done, rest = self.body.split(b"\n\n")
        assert (done, rest) == (b"data: [DONE]", b"")
        return [json.loads(event.removeprefix(b"data: ")) for event in events]

    @property
    def tokens(self) -> int:
        return sum(len(choice["token_ids"]) for event in self.events for choice in event["choices"])


def no_process(born_unix_s: float) -> Iterator[str]:
    yield f"process_start_time_seconds {born_unix_s!r}"


class Served:
    """A server and its face, to be made inside `virtually`."""

    def __init__(self, flags: Flags = FLAGS, **settings: Any) -> None:
        self.simulated = SimulatedServer(Settings(flags, **settings), UNIX_S, no_process)
        self.pump = Pump(self.simulated)
        self.app = Face(self.pump, lambda: UNIX_S + self.pump.now()).app

    async def until(self, now_s: float) -> None:
        await asyncio.sleep(max(0.0, now_s - self.pump.now()))

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, b"", headers)

    async def post(self, path: str, body: Any, *, leave_s: float | None = None, **headers: str) -> Answer:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", path, payload, headers, leave_s=leave_s)

    async def page(self) -> dict[str, float]:
        """Series to number, without the model's name."""
        text = (await self.get("/metrics")).body.decode()
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        model = f'model_name="{self.simulated.settings.model}"'
        return {series.replace(f",{model}", "").replace('{engine="0"}', ""): float(value) for series, _, value in lines}

    async def ask(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], *, leave_s: float | None = None
    ) -> Answer:
        """leave_s: the client goes away at that second of the server."""
        answer = Answer()
        said = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if said:
                return said.pop()
            await (asyncio.Event().wait() if leave_s is None else self.until(leave_s))
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
                return
            if message.get("body"):
                answer.pieces.append((self.pump.now(), message["body"]))
            answer.ended = not message.get("more_body", False)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [
                (b"content-length", str(len(body)).encode()),
                *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()),
            ],
        }
        app: Callable[[Any, Any, Any], Awaitable[None]] = self.app
        await app(scope, receive, send)
        return answer
