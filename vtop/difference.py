"""Whether a difference between two numbers is one: the rule of every comparison, of recordings as of what-if.

A difference is real when its interval leaves out 0. What the interval is made of (noise between blocks or runs, the
error of a model) is the caller's, and so are the words for one that is not real.
"""

from __future__ import annotations

from typing import Literal

Judged = Literal["same", "within", "better", "worse", "higher", "lower", "no interval"]


def judged(difference: float, interval: tuple[float, float] | None, better: str | None) -> Judged:
    """`better`: which way is good, higher or lower; None: neither, and then the way itself is reported. `within`: the
    interval holds 0, so it may as well be none."""
    if difference == 0:
        return "same"
    if interval is None:
        return "no interval"
    if interval[0] <= 0 <= interval[1]:
        return "within"
    way: Literal["higher", "lower"] = "higher" if difference > 0 else "lower"
    if better is None:
        return way
    return "better" if way == better else "worse"
