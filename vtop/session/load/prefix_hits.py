"""What the server's prefix cache gave during a phase of vtop's own load."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from vtop.metrics.quantity import Quantity
from vtop.session.frame.load import LoadPart
from vtop.session.history.server import ServerHistory


def prefix_hits(part: LoadPart, servers: Sequence[ServerHistory], now_s: float) -> float | None:
    """Prompt tokens from the scrape before the phase to the one after it; None where the server does not tell."""
    if part.server >= len(servers):
        return None
    server = servers[part.server]
    scrapes = server.visible(now_s)
    parts = [part for part in server.parts(Quantity.PROMPT_TOKENS_BY_SOURCE) if part != "local_compute"]
    hits = [server.total(Quantity.PROMPT_TOKENS_BY_SOURCE, part) for part in parts]
    hits = hits or [server.total(Quantity.PREFIX_HITS)]
    first = max(0, bisect_right(server.at_s, part.begin_s, 0, scrapes) - 1)
    last = min(scrapes, bisect_right(server.at_s, part.begin_s + part.elapsed_s, 0, scrapes) + 1) - 1
    grown = [track.grown(first, last) for track in hits if track is not None] if last >= first else []
    known = [tokens for tokens in grown if tokens is not None]
    return sum(known) if known else None
