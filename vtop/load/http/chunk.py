"""One event of an answer, as far as it matters here: the JSON of OpenAI's completions and chat, with vLLM's additions.

Most events are what the types below say and are decoded in about a microsecond. What a server says in its own way, or
in JSON that is not quite JSON, is read as well as it can be: an event must not be lost for a field of no interest.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

MOST_TOKENS: Final = 10**9  # of one answer: a larger number is none


class Cached(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Cached | None = None


class Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None


class ChunkChoice(msgspec.Struct, gc=False):
    index: int = 0
    text: str | None = None
    delta: Delta | None = None
    message: Delta | None = None  # in place of delta where the answer is not a stream
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[ChunkChoice] | None = None
    usage: Usage | None = None
    error: Any = None
    metrics: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(Chunk).decode  # passes over what has no field here


def decode(data: bytes) -> Chunk | None:
    """The event; None when it is no JSON object. Nothing raises."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _lenient(data)


def _lenient(data: bytes) -> Chunk | None:
    """The event of a server that takes its own view of types or of JSON; None when it is no JSON object."""
    try:
        said = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    choices, metrics = said.get("choices"), said.get("metrics")
    return Chunk(
        choices=[_lenient_choice(c) for c in choices if isinstance(c, dict)] if isinstance(choices, list) else None,
        usage=_lenient_usage(said.get("usage")),
        error=said.get("error"),
        metrics=metrics if isinstance(metrics, dict) else None,
    )


def _lenient_choice(said: dict[str, Any]) -> ChunkChoice:
    ids, finish = said.get("token_ids"), said.get("finish_reason")
    return ChunkChoice(
        index=_number(said.get("index")) or 0,
        text=_text(said.get("text")),
        delta=_lenient_delta(said.get("delta")),
        message=_lenient_delta(said.get("message")),
        finish_reason=None if finish is None else str(finish),
        token_ids=[0] * len(ids) if isinstance(ids, list) else None,
    )


def _lenient_delta(said: Any) -> Delta | None:
    if not isinstance(said, dict):
        return None
    calls = said.get("tool_calls")
    return Delta(
        role=_text(said.get("role")),
        content=_text(said.get("content")),
        reasoning=_text(said.get("reasoning")),
        reasoning_content=_text(said.get("reasoning_content")),
        refusal=_text(said.get("refusal")),
        tool_calls=calls if isinstance(calls, list) else None,
    )


def _lenient_usage(said: Any) -> Usage | None:
    if not isinstance(said, dict):
        return None
    details = said.get("prompt_tokens_details")
    cached = _number(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Usage(_number(said.get("prompt_tokens")), _number(said.get("completion_tokens")), Cached(cached))


def count(said: int | None) -> int | None:
    """A number of tokens as a server says it; None where it can be none."""
    return said if said is not None and 0 <= said < MOST_TOKENS else None


def _number(said: Any) -> int | None:
    ok = isinstance(said, int | float) and not isinstance(said, bool) and abs(said) < 2**53
    return int(said) if ok else None


def _text(said: Any) -> str | None:
    """Text; of parts in a list it only matters whether there is any."""
    if said is None:
        return None
    return said if isinstance(said, str) else str(said or "")
