"""A frame with the prices of its load, which the simulated engine made beside it: what to try comes from them.

A flag that the simulations suggest stands in the place of the verdict's own where that names none, or another one. The
pool is no flag of its own, so there the verdict's flag stays, and what a larger pool would bring is its reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vtop.session.frame.frame import Frame
from vtop.session.frame.prices import Prices, brings
from vtop.session.frame.vocabulary import VerdictLimit

ABOUT: Final[frozenset[VerdictLimit]] = frozenset({"kv", "max-num-seqs", "token-budget", "gpu", "power", "none"})


def with_prices(frame: Frame, prices: Prices | None) -> Frame:
    """prices: of the load at the frame's instant; None where there are none."""
    if prices is None:
        return frame
    found, tried = frame.verdict, prices.suggestion
    if tried is not None and found.limit in ABOUT:
        why = f"by simulation {brings(tried)}"
        if tried.limit == "kv":
            found = replace(found, why=why) if found.flag is not None else found
        else:
            found = replace(found, flag=tried.flag, why=why, command=None)
    return replace(frame, prices=prices, verdict=found)
