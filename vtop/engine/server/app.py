"""The HTTP face of a simulated vLLM server: what it answers under which path, and to whom."""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import compare_digest

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vtop.engine.server import vocabulary
from vtop.engine.server.metric_families import SIMULATED
from vtop.engine.server.realtime import Pump
from vtop.engine.server.request_parsing import Refusal
from vtop.engine.server.simulated import Settings, SimulatedServer
from vtop.engine.server.streaming import Generate

METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Face:
    """All routes of one server; `app` is what speaks ASGI. wall: the Unix time, for the instants that answers tell."""

    def __init__(self, pump: Pump, wall: Callable[[], float] = time.time) -> None:
        self._pump = pump
        self._wall = wall
        routes = [
            Route("/metrics", self._metrics),
            Route("/health", self._health),
            Route("/ping", self._health, methods=["GET", "POST"]),
            Route("/version", self._version),
            Route("/load", self._load),
            Route("/v1/models", self._models),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route("/v1/completions", Generate(pump, wall, chat=False), methods=["POST"]),
            Route("/v1/chat/completions", Generate(pump, wall, chat=True), methods=["POST"]),
        ]
        self._paths = {route.path for route in routes}
        self.app: ASGIApp = Guard(self, Starlette(routes=routes, exception_handlers={404: _refused, 405: _refused}))

    @property
    def pump(self) -> Pump:
        return self._pump

    @property
    def server(self) -> SimulatedServer:
        return self._pump.server

    @property
    def settings(self) -> Settings:
        return self.server.settings

    def count(self, scope: Scope, status: int, began_s: float, answered: int) -> None:
        """A request was answered: for http_*."""
        path = scope["path"] if scope["path"] in self._paths else "none"
        sent = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
        took_s = self._pump.now() - began_s
        self.server.http.answered(
            path, scope["method"], status, took_s, sent=sent, answered=answered, unix_s=self._wall()
        )

    async def _metrics(self, _: Request) -> Response:
        with self._pump.changing() as now_s:
            return Response(self.server.page(now_s), headers={"content-type": METRICS_TYPE})

    async def _health(self, _: Request) -> Response:
        return Response()

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": SIMULATED})

    async def _load(self, _: Request) -> Response:
        return JSONResponse({"server_load": 0})

    async def _models(self, _: Request) -> Response:
        model = {
            "id": self.settings.model,
            "object": "model",
            "created": int(self._wall()),
            "owned_by": "vllm",
            "root": self.settings.model,
            "parent": None,
            "max_model_len": self.settings.flags.max_model_len,
            "permission": [],
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def _tokenize(self, request: Request) -> Response:
        try:
            body = await request.json()
            chat = body.get("messages") if isinstance(body, dict) else None
            ids = vocabulary.chat_ids(chat) if chat else vocabulary.token_ids(body["prompt"])
        except (ValueError, KeyError, TypeError, AttributeError):
            refusal = Refusal(400, "1 validation error:\n  prompt or messages: Field required", "Bad Request", "body")
            return JSONResponse(refusal.body, refusal.status)
        longest = self.settings.flags.max_model_len
        return JSONResponse({"count": len(ids), "max_model_len": longest, "tokens": ids, "token_strs": None})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code)


class Guard:
    """Before all routes: a stall, the key under /v1, and the counting of what was answered."""

    def __init__(self, face: Face, app: ASGIApp) -> None:
        self._face = face
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        face = self._face
        began_s = face.pump.now()
        await face.pump.silence()
        status, answered = 0, 0

        async def told(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = next((int(v) for name, v in message.get("headers", ()) if name == b"content-length"), 0)
            await send(message)

        if self._may(scope):
            await self._app(scope, receive, told)
        else:
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, told)
        face.count(scope, status, began_s, answered)

    def _may(self, scope: Scope) -> bool:
        key = self._face.settings.api_key
        if key is None or not scope["path"].startswith("/v1"):
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return compare_digest(bytes(given), f"Bearer {key}".encode())
