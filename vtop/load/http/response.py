"""What the answer to one request means: which of its events brought tokens and when, and whether it is a success.

No I/O and no clock: events and the instants they came at go in, by the one call `event`, and the state is what can be
read off. An event is not a token: tokens are counted by the server's `token_ids`, or its running usage, or else
one for each event that shows text, which is then known not to be exact.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from vtop.load.http.chunk import ChunkChoice, Usage, count, decode
from vtop.load.http.server_errors import message_of
from vtop.load.http.sse import StreamEvent
from vtop.recording.vocabulary import ErrorClass, TokensFrom

DONE: Final = b"[DONE]"
LONGEST_WORD: Final = 100  # characters of a reason, a name or a word that a server says
MOST_TIMINGS: Final = 2**16  # bytes of the event with them


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """What the answer is held against. output_tokens is max_tokens; exact: ignore_eos was asked for as well."""

    output_tokens: int | None = None
    exact: bool = False
    choices: int = 1
    echo: bool = False


class Reading:
    """The state of one answer. `at` is the stamp of the socket read that completed the event."""

    __slots__ = (
        "_asked",
        "_at",
        "_doubtful",
        "_echo",
        "_final",
        "_finished",
        "_guessed",
        "_ids",
        "_reasoned",
        "_running",
        "_tokens",
        "answer_s",
        "cached_tokens",
        "chunks",
        "done",
        "failure",
        "finish",
        "first_s",
        "prompt_tokens",
        "timings",
        "unread",
    )

    def __init__(self, asked: ExpectedAnswer) -> None:
        self._asked = asked
        self._echo = asked.echo  # the prompt is still to come back
        self.first_s: float | None = None
        self.answer_s: float | None = None  # the first token after reasoning
        self.chunks = 0  # events that brought tokens
        self.unread = 0  # events that are no JSON object
        self.done = False
        self.finish: str | None = None
        self.failure: str | None = None  # the message of an error inside the stream
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.timings: dict[str, Any] | None = None
        self._at = array("d")  # reads that brought tokens, and
        self._tokens = array("l")  # how many
        self._doubtful: list[int] = []  # reads with an empty event that may have been a token: usage decides at the end
        self._ids = 0  # tokens counted by token_ids
        self._guessed = 0  # events counted as one token each, for want of better
        self._running: dict[int, int] = {}  # choice -> usage.completion_tokens so far
        self._final: int | None = None  # of a usage event of its own
        self._finished = 0
        self._reasoned = False

    def event(self, event: StreamEvent, at: float) -> None:
        """Take in one event. Nothing that a server may send raises."""
        data = event.data
        if data == DONE:
            self.done = True
            return
        if event.name == b"error":
            self._fail(data)
            return
        chunk = decode(data)
        if chunk is None:
            self.unread += bool(data.strip())
            return
        if chunk.error:
            self._fail(data)
            return
        usage, choices = chunk.usage, chunk.choices
        running: int | None = None
        if usage is not None:
            running = count(usage.completion_tokens)
            self._take_usage(usage)
        if chunk.metrics:
            fits = len(data) <= MOST_TIMINGS and _can_be_recorded(chunk.metrics)
            self.timings = chunk.metrics if fits else None
        if not choices:
            if usage is None:
                self._take_bare(data)
            elif running is not None:
                self._final = running
            return
        alone = len(choices) == 1
        tokens = 0
        doubtful = False
        for choice in choices:
            counted = self._count(choice, running if alone else None, at)
            if counted is None:
                doubtful = True
            else:
                tokens += counted
            if choice.finish_reason is not None:
                self._finished += 1
                self.finish = choice.finish_reason[:LONGEST_WORD]
        if tokens:
            self._put(at, tokens)
            self.chunks += 1
            if self.first_s is None:
                self.first_s = at
        elif doubtful:
            self._put(at, 0)
            self._doubtful.append(len(self._at) - 1)

    def whole(self, body: bytes, at: float) -> None:
        """Take in an answer that is one JSON object, as servers that do not stream send it."""
        self.event(StreamEvent(body), at)

    def _put(self, at: float, tokens: int) -> None:
        if self._at and self._at[-1] == at:
            self._tokens[-1] += tokens
        else:
            self._at.append(at)
            self._tokens.append(tokens)

    def _count(self, choice: ChunkChoice, running: int | None, at: float) -> int | None:
        """Tokens that this choice brought; None where an empty event leaves it open."""
        before = self._running.get(choice.index, 0) if running is not None else 0
        if running is not None:
            self._running[choice.index] = running
        delta = choice.delta or choice.message
        shown = bool(choice.text)
        if delta is not None:
            answer = bool(delta.content or delta.tool_calls or delta.refusal)
            reasoning = bool(delta.reasoning or delta.reasoning_content)
            shown = answer or reasoning
            if self._echo and shown and not running and not choice.token_ids:
                self._echo = False  # vLLM's chat sends the prompt back in an event of its own
                return 0
            if answer and self._reasoned and self.answer_s is None:
                self.answer_s = at
            self._reasoned |= reasoning and not answer and self.answer_s is None
        if choice.token_ids is not None:
            self._ids += len(choice.token_ids)
            return len(choice.token_ids)
        # Usage in the last event only is no running count, and one that stays 0 while text comes is none either
        if running is not None and not self._guessed and (running or not shown):
            return max(0, running - before)
        if shown:
            self._guessed += 1
            return 1
        if choice.finish_reason is not None:
            return None
        if delta is None:  # a token that is no text by itself: part of a character
            empty = choice.text is not None
            self._guessed += empty
            return int(empty)
        channels = (delta.content, delta.reasoning, delta.reasoning_content)
        if delta.role is not None or self.first_s is None or all(channel is None for channel in channels):
            return 0
        return None

    def _take_usage(self, usage: Usage) -> None:
        if (prompt := count(usage.prompt_tokens)) is not None:
            self.prompt_tokens = prompt
        details = usage.prompt_tokens_details
        if details is not None and (cached := count(details.cached_tokens)) is not None:
            self.cached_tokens = cached

    def _take_bare(self, data: bytes) -> None:
        """An event without choices and usage: an error in an older form, or nothing of interest."""
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            return
        if said.get("object") == "error" or (isinstance(said.get("detail"), str | list) and "choices" not in said):
            self._fail(data)

    def _fail(self, data: bytes) -> None:
        if self.failure is None:
            self.failure = message_of(data)

    @property
    def _usage_tokens(self) -> int | None:
        """Output tokens by the server's usage."""
        usage = self._final
        if usage is None and self._running:
            usage = sum(self._running.values())
        return None if usage == 0 and self.chunks else usage

    def settle(self) -> None:
        """To be called once, when nothing more comes: usage decides whether the doubtful events were tokens."""
        usage = self._usage_tokens
        if usage is not None and self._doubtful:
            missing = usage - sum(self._tokens)
            # with fewer missing than doubtful the last ones are taken: it is at the start that servers send fillers
            for place in self._doubtful[-missing:] if missing > 0 else ():
                self._tokens[place] += 1
                self._guessed += 1
                self.chunks += 1
        self._doubtful.clear()
        brought = [(at, tokens) for at, tokens in zip(self._at, self._tokens, strict=True) if tokens]
        self._at = array("d", [at for at, _ in brought])
        self._tokens = array("l", [tokens for _, tokens in brought])
        if brought and self.first_s is None:
            self.first_s = brought[0][0]

    @property
    def output_tokens(self) -> int | None:
        """By the server's usage where there is one; None when no answer began."""
        usage = self._usage_tokens
        if usage is not None:
            return usage
        return sum(self._tokens) if self._at else None

    @property
    def tokens_from(self) -> TokensFrom | None:
        """ids, usage or chunks: what `output_tokens` was counted by."""
        usage = self._usage_tokens
        if self._ids and not self._guessed and usage in (None, sum(self._tokens)):
            return "ids"
        if usage is not None:
            return "usage"
        return "chunks" if self._at else None

    @property
    def by_ids(self) -> bool:
        """The server told the ids of tokens, which count them event by event."""
        return self._ids > 0

    @property
    def last_s(self) -> float | None:
        return self._at[-1] if self._at else None

    @property
    def gaps_us(self) -> tuple[int, ...]:
        """Between the reads that brought tokens, each rounded such that their sum does not drift."""
        if not self._at:
            return ()
        first = self._at[0]
        since_us = [round((at - first) * 1e6) for at in self._at]
        return tuple(b - a for a, b in pairwise(since_us))

    @property
    def read_tokens(self) -> tuple[int, ...]:
        """Tokens of each read that brought some. Exact when they add up to `output_tokens`; else they are events."""
        return tuple(self._tokens)

    def verdict(self, status: int | None, broke: ErrorClass | None, why: str) -> tuple[ErrorClass | None, str]:
        """The class of failure, None for a success, and its message.

        broke: how the conversation ended when not by the answer's end (stalled, timeout, connect, client_limit, reset,
        truncated, cancelled_at_end). What was answered completely before that is a success all the same.
        """
        if status is not None and not 200 <= status < 300:
            return "http_status", why
        if self.failure is not None:
            return "inband_error", self.failure
        usage = self._usage_tokens
        if self._finished >= self._asked.choices and (self.done or usage is not None):
            return self._held_against_asked(usage)
        if broke is not None:
            return broke, why
        if self._finished >= self._asked.choices:
            return "truncated", "it ended with neither usage nor [DONE]"
        if self._at or self.done or usage is not None:
            return "truncated", "it ended without a finish_reason"
        return "truncated", why or "the answer was empty"

    def _held_against_asked(self, usage: int | None) -> tuple[ErrorClass | None, str]:
        tokens = self.output_tokens
        if not tokens:
            return "short_output", "not one token came"
        asked = self._asked.output_tokens
        certain = usage is not None or not self._guessed
        if asked is None or not certain:
            return None, ""
        asked *= self._asked.choices
        if tokens > asked:
            return "long_output", f"{tokens} tokens, {asked} were asked for"
        if tokens < asked and self._asked.exact:
            return "short_output", f"{tokens} tokens, {asked} were asked for"
        return None, ""


def _can_be_recorded(timings: object, depth: int = 8) -> bool:
    """Whether the server's own timing object is neither nested deeply nor holds numbers beyond 64 bits."""
    if isinstance(timings, dict | list):
        inner = timings.values() if isinstance(timings, dict) else timings
        return depth > 0 and all(_can_be_recorded(one, depth - 1) for one in inner)
    return not isinstance(timings, int) or abs(timings) < 2**63
