"""Speculative decoding: how many drafted tokens were accepted, by draft and by position, and what a step gave for it.

A draft is what one step of one request verifies; accepted are its first tokens up to the first that the model would not
have chosen. The step gives one token more than it accepts. Source: vLLM v1/spec_decode/metrics.py.
"""

from __future__ import annotations

from vtop.metrics.quantity import Quantity
from vtop.session.frame.tokens import AcceptedAt, Speculation
from vtop.session.history.window import Window


def speculation(window: Window) -> Speculation | None:
    """Over a window; None where no server counts drafts."""
    drafts = window.count(Quantity.SPEC_DRAFTS)
    if drafts.in_window is None:
        return None
    n = drafts.in_window
    drafted, accepted = window.delta(Quantity.SPEC_DRAFT_TOKENS), window.delta(Quantity.SPEC_ACCEPTED_TOKENS)
    per_draft = accepted / n if n and accepted is not None else None
    return Speculation(
        drafts=n,
        drafts_per_s=drafts.per_s,
        draft_tokens=drafted,
        accepted_tokens=accepted,
        accepted_ratio=accepted / drafted if drafted and accepted is not None else None,
        drafted_per_draft=drafted / n if n and drafted is not None else None,
        accepted_per_draft=per_draft,
        tokens_per_step=None if per_draft is None else 1 + per_draft,
        by_position=_by_position(window, n),
    )


def _by_position(window: Window, drafts: float) -> tuple[AcceptedAt, ...]:
    positions = {part for one in window.ranges for part in one.server.parts(Quantity.SPEC_ACCEPTED_BY_POSITION)}
    found = []
    for position in sorted(int(part) for part in positions if part.isdecimal()):
        accepted = window.delta(Quantity.SPEC_ACCEPTED_BY_POSITION, str(position))
        if drafts and accepted is not None:
            found.append(AcceptedAt(position + 1, accepted / drafts))
    return tuple(found)
