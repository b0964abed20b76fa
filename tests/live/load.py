"""Requests to a vLLM server from the live tests: plain streaming completions, all at once.

Prompts are token ids, and no two of a run begin alike, so that nothing is answered from the prefix cache.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from tests.live.vllm_server import VllmServer

_seeds = itertools.count()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a stream gave. `finish` is None when it broke off, or when the client hung up."""

    chunks: int
    prompt_tokens: int
    output_tokens: int
    finish: str | None


def send(
    server: VllmServer,
    count: int,
    *,
    prompt: int = 100,
    output: int = 400,
    hang_up_after: int | None = None,
    when_all_run: Callable[[], None] = lambda: None,
) -> list[Answer]:
    """All requests at once, to their ends. `when_all_run` is called when each has had its first chunk."""
    bodies = [_body(prompt, output) for _ in range(count)]
    return asyncio.run(_send(server, bodies, hang_up_after, when_all_run))


async def _send(
    server: VllmServer, bodies: list[dict[str, Any]], hang_up_after: int | None, when_all_run: Callable[[], None]
) -> list[Answer]:
    begun = itertools.count(1)

    def first_chunk() -> None:
        if next(begun) == len(bodies):
            when_all_run()

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=120.0, limits=limits, trust_env=False, headers=server.headers) as client:
        url = server.url + "/v1/completions"
        return await asyncio.gather(*(_stream(client, url, body, hang_up_after, first_chunk) for body in bodies))


def _body(prompt: int, output: int) -> dict[str, Any]:
    ids = random.Random(next(_seeds)).choices(range(2, 4096), k=prompt)
    return {
        "model": "tiny",
        "prompt": ids,
        "max_tokens": output,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _stream(
    client: httpx.AsyncClient,
    url: str,
    body: dict[str, Any],
    hang_up_after: int | None,
    first_chunk: Callable[[], None],
) -> Answer:
    chunks = prompt_tokens = output_tokens = 0
    finish: str | None = None
    try:
        async with client.stream("POST", url, json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    break
                if event.get("usage"):
                    prompt_tokens = event["usage"]["prompt_tokens"]
                    output_tokens = event["usage"]["completion_tokens"]
                for choice in event["choices"]:
                    finish = choice["finish_reason"] or finish
                    chunks += 1
                    if chunks == 1:
                        first_chunk()
                if hang_up_after is not None and chunks >= hang_up_after:
                    break
    except httpx.TransportError:
        finish = None
    return Answer(chunks, prompt_tokens, output_tokens, finish)
