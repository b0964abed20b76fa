"""Prefill and decode servers of one deployment: each request passes both, so nothing of it may be added up over them.

A prefill server gives one token to a request; a decode server computes next to nothing of its prompts, the rest comes
through a KV connector (vLLM: v1/metrics/stats.py, PromptTokenStats).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.vocabulary import Side
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import Window

ENOUGH: Final = 5  # finished requests, before a server's part is known
ONE_TOKEN: Final = 1.05  # generated tokens a finished request, at most: some are under way
LAST_TOKENS: Final = 0.05  # of the prompt tokens, computed where the others come from elsewhere


@dataclass(frozen=True, slots=True)
class Sides:
    """The servers of each side. What is neither counts on both."""

    prefill: frozenset[ServerHistory] = frozenset()
    decode: frozenset[ServerHistory] = frozenset()

    def prefilling(self, window: Window) -> Window:
        """What tells of prompts, the queue before them and first tokens."""
        return Window(tuple(one for one in window.ranges if one.server not in self.decode))

    def decoding(self, window: Window) -> Window:
        """What tells of output tokens and of requests that are through."""
        return Window(tuple(one for one in window.ranges if one.server not in self.prefill))

    def of(self, server: ServerHistory) -> Side | None:
        return "prefill" if server in self.prefill else "decode" if server in self.decode else None


def sides(servers: Sequence[ServerHistory], now_s: float) -> Sides:
    """As the servers' counters tell it, model by model; none where not both sides are among a model's servers."""
    if len(servers) < 2:
        return Sides()
    found: dict[tuple[str, ...], dict[Side, set[ServerHistory]]] = {}
    for server in servers:
        last = server.visible(now_s) - 1
        if (side := side_of(server, last)) is not None:
            found.setdefault(server.models(last), {}).setdefault(side, set()).add(server)
    both = [by for by in found.values() if len(by) == 2]
    return Sides(frozenset().union(*(by["prefill"] for by in both)), frozenset().union(*(by["decode"] for by in both)))


def side_of(server: ServerHistory, last: int) -> Side | None:
    """What a server's own counters tell of it at a scrape: which side it would be, if there is another."""
    if last < 0:
        return None
    ends = [server.value(Quantity.FINISHED, last, part) or 0.0 for part in server.parts(Quantity.FINISHED)]
    if sum(ends) < ENOUGH:
        return None
    sources = {part: server.value(Quantity.PROMPT_TOKENS_BY_SOURCE, last, part) for part in _SOURCES}
    computed, elsewhere = sources["local_compute"] or 0.0, sources["external_kv_transfer"] or 0.0
    if elsewhere and computed <= LAST_TOKENS * (computed + elsewhere):
        return "decode"
    generated = server.value(Quantity.GENERATION_TOKENS, last)
    return "prefill" if generated is not None and computed and generated <= ONE_TOKEN * sum(ends) else None


_SOURCES: Final = ("local_compute", "external_kv_transfer")
