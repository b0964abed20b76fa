"""Where prompt tokens had their KV from: computed, found in this server's prefix cache, or brought by a KV connector.

Each prompt counts once, by what it found when it was first scheduled. Transfers that failed are those that the
connector counts itself. Source: vLLM v1/metrics/stats.py (PromptTokenStats).
"""

from __future__ import annotations

from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.tokens import COMPUTED, CONNECTOR, FailedTransfers, PromptSource
from vtop.session.history.window import Window

_WORDS: Final = {"local_compute": COMPUTED, "local_cache_hit": "local cache", "external_kv_transfer": CONNECTOR}


def prompt_sources(window: Window) -> tuple[PromptSource, ...]:
    """Over a window, in the order of _WORDS; nothing where no server tells them."""
    known = {part for one in window.ranges for part in one.server.parts(Quantity.PROMPT_TOKENS_BY_SOURCE)}
    grown = {part: window.delta(Quantity.PROMPT_TOKENS_BY_SOURCE, part) for part in known}
    tokens = {part: amount for part, amount in grown.items() if amount is not None}
    total = sum(tokens.values())
    order = [*(part for part in _WORDS if part in tokens), *sorted(set(tokens) - set(_WORDS))]
    return tuple(
        PromptSource(_WORDS.get(part, part), tokens[part], tokens[part] / total if total else None) for part in order
    )


def failed_transfers(window: Window) -> FailedTransfers | None:
    """Over a window; None where no server counts them."""
    count = window.count_of_parts(Quantity.FAILED_TRANSFERS)
    if count.in_window is None:
        return None
    return FailedTransfers(
        in_window=count.in_window,
        since_start=count.since_start,
        by_part=window.by_part(Quantity.FAILED_TRANSFERS, window.delta),
    )
