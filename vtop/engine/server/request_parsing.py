"""What a completion or chat request asks for, read from its body; and what is wrong with it, in vLLM's words.

Source of the words: vLLM's renderers/params.py, exceptions.py, entrypoints/serve/exception_handling.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import msgspec

from vtop.engine.core.flags import Flags
from vtop.engine.server import vocabulary

COMPLETION_TOKENS = 16  # where max_tokens is not given
SHORTEST, SPREAD = 16, 497  # tokens of an answer that ends by itself


class Refusal(Exception):
    """A request that is not served: the status and the body that vLLM gives."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Body(msgspec.Struct):
    """Fields that make a difference here; vLLM takes many more, and so all others are passed over."""

    model: str | None = None
    max_tokens: int | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    ignore_eos: bool | None = None
    min_tokens: int | None = None
    return_token_ids: bool | None = None
    priority: int | None = None
    request_id: str | None = None


class _Completion(_Body):
    prompt: str | list[Any] | None = None


class _Chat(_Body):
    messages: list[dict[str, Any]] | None = None
    max_completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request as it was understood. max_tokens: None where the longest sequence alone bounds the answer."""

    prompts: tuple[Sequence[int], ...]
    max_tokens: int | None
    chat: bool = False
    model: str | None = None
    n: int = 1
    stream: bool = False
    usage: bool = False  # an event with it at the end of the stream
    running_usage: bool = False  # and in every other one
    ignore_eos: bool = False
    min_tokens: int = 0
    ids: bool = False  # return_token_ids
    priority: int = 0
    request_id: str | None = None


def read(body: bytes, *, chat: bool, force_usage: bool = False) -> ParsedRequest:
    """Raises Refusal. force_usage: the server was started with --enable-force-include-usage."""
    try:
        said: _Chat | _Completion = msgspec.json.decode(body, type=_Chat if chat else _Completion)
    except msgspec.ValidationError as error:
        raise _invalid("value_error", str(error).partition(" - at `$.")[2].rstrip("`"), str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _no_json(body) from None
    max_tokens = said.max_tokens
    if isinstance(said, _Chat):
        if not said.messages:
            raise _invalid("missing", "messages", "Field required")
        prompts: list[Sequence[int]] = [vocabulary.chat_ids(said.messages)]
        max_tokens = said.max_completion_tokens if said.max_completion_tokens is not None else max_tokens
    else:
        prompts = _prompts(said.prompt)
        max_tokens = COMPLETION_TOKENS if max_tokens is None else max_tokens
    options = said.stream_options
    usage = force_usage or bool(options and options.include_usage)
    n = 1 if said.n is None else said.n
    if n < 1:
        raise Refusal(400, f"n must be at least 1, got {n}.", "BadRequestError", "n")
    return ParsedRequest(
        chat=chat,
        model=said.model,
        prompts=tuple(prompts),
        max_tokens=max_tokens,
        n=n,
        stream=bool(said.stream),
        usage=usage,
        running_usage=usage and (force_usage or bool(options and options.continuous_usage_stats)),
        ignore_eos=bool(said.ignore_eos),
        min_tokens=said.min_tokens or 0,
        ids=bool(said.return_token_ids),
        priority=said.priority or 0,
        request_id=said.request_id,
    )


def check(asked: ParsedRequest, served: str, flags: Flags) -> None:
    """Raises Refusal for another model and for a request that is too long."""
    if asked.model not in (None, "", served):
        message = f"The model `{asked.model}` does not exist. Valid aliases: {served}."
        raise Refusal(404, message, "NotFoundError", "model")
    longest, most = flags.max_model_len, asked.max_tokens
    if most is not None and most > longest:
        raise _bad(
            f"max_tokens={most} cannot be greater than max_model_len={longest}. Please request fewer output tokens.",
            "max_tokens",
            most,
        )
    if most is not None and most < 1:
        raise _bad(f"max_tokens must be at least 1, got {most}.", "max_tokens", most)
    for prompt in asked.prompts:
        if len(prompt) > longest:
            qualifier = "at least " if len(prompt) == longest + 1 else ""
            raise _bad(
                f"This model's maximum context length is {longest} tokens. However, your prompt contains {qualifier}"
                f"{len(prompt)} input tokens, which exceeds this limit even without any output tokens. "
                "Please reduce the length of the input prompt.",
                "input_tokens",
                len(prompt),
            )
        if len(prompt) == longest:  # nothing is left for an answer
            raise _bad("max_tokens must be at least 1, got 0.", "max_tokens", 0)


def prefix_keys(prompt: Sequence[int], block_size: int) -> tuple[Hashable, ...]:
    """An identity of each full block, which stands for all that comes before it too."""
    keys: list[Hashable] = []
    before = 0
    for begin in range(0, len(prompt) - block_size + 1, block_size):
        before = hash((before, tuple(prompt[begin : begin + block_size])))
        keys.append(before)
    return tuple(keys)


def drawn(prompt: Sequence[int], seed: int, number: int) -> int:
    """A number for an answer: the same one for the same prompt, seed and place among its n answers."""
    return crc32(f"{seed} {number} {len(prompt)} {list(prompt[:64])}".encode())


def natural_tokens(draw: int) -> int:
    """How long an answer is that ends by itself: even between 16 and 512."""
    return SHORTEST + draw % SPREAD


def _prompts(prompt: str | list[Any] | None) -> list[Sequence[int]]:
    if isinstance(prompt, str):
        return [vocabulary.token_ids(prompt) or [vocabulary.START]]
    if not prompt:
        raise _invalid("missing", "prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
    if all(type(one) is int for one in prompt):
        return [prompt]
    if all(isinstance(one, str) for one in prompt):
        return [vocabulary.token_ids(one) or [vocabulary.START] for one in prompt]
    if all(isinstance(one, list) and one and all(type(id_) is int for id_ in one) for one in prompt):
        return list(prompt)
    raise _invalid("value_error", "prompt", "Input should be a valid string, list of integers or list of those")


def _bad(message: str, param: str, value: int) -> Refusal:
    return Refusal(400, f"{message} (parameter={param}, value={value})", "BadRequestError", param)


def _invalid(kind: str, field: str, why: str) -> Refusal:
    place = f"body.{field}" if field else "body"
    message = f"1 validation error:\n  {{'type': '{kind}', 'loc': '{place}', 'msg': {why!r}}}"
    return Refusal(400, message, "Bad Request", place)


def _no_json(body: bytes) -> Refusal:
    try:
        json.loads(body)
        why, place = "Input should be a valid dictionary", "body"
    except json.JSONDecodeError as error:
        why, place = error.msg, f"body.{error.pos}"
    except (UnicodeDecodeError, RecursionError) as error:
        why, place = str(error), "body"
    message = (
        f"1 validation error:\n  {{'type': 'json_invalid', 'loc': '{place}', 'msg': 'JSON decode error', "
        f"'input': '<dict of 0 items>', 'ctx': {{'error': {why!r}}}}}"
    )
    return Refusal(400, message, "Bad Request", place)
