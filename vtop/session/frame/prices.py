"""The price of each limit, as it is shown: what a tenth more of it would be worth to a load, and which flag to try.

The session cannot know it: the simulated engine does (vtop/engine/whatif/prices.py), and it comes beside the frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

GAIN, SOONER = 0.005, 0.02  # of output tokens/s and of mean TTFT: a limit that is worth less does not bind
LABELS: Final = {
    "kv": "KV pool",
    "max-num-seqs": "max-num-seqs",
    "token-budget": "token budget",
    "gpu": "GPU speed",
    "launch": "launch speed",
}
LEAST: Final = 0.005  # per cent: less is not said
WIDE: Final = 5.0  # per cent, of half an interval
FLAGS: Final = ("kv", "max-num-seqs", "token-budget")  # limits that a flag sets; the others are the host's and GPU's


@dataclass(frozen=True, slots=True)
class Worth:
    """By how much a number changes, as a share of it: the mean over plausible servers, and its 90 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Price:
    """Of one limit. before, after: of the flag, in tokens or requests; None of a speed. servers: simulated pairs; of a
    change that changes nothing one is enough."""

    limit: str  # kv, max-num-seqs, token-budget, gpu, launch
    before: int | None
    after: int | None
    output: Worth  # of output tokens/s
    ttft: Worth  # of mean TTFT
    servers: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A flag at another value, and what it would bring."""

    limit: str
    flag: str  # as it is typed: --max-num-seqs 20
    output: Worth
    ttft: Worth
    more: bool = True  # of the limit; False: less of it


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one load."""

    run: str
    phase: int | None  # of vtop's own load, from 0
    prices: tuple[Price, ...]
    suggestion: Suggestion | None
    remarks: tuple[str, ...]
    span_s: float  # of virtual time that was simulated

    @property
    def binding(self) -> Price | None:
        """The limit that binds: of the flags the one of which more is worth most, else of the speeds. None where none
        is worth anything."""
        flags = [price for price in self.prices if price.limit in FLAGS]
        return _most(flags) or _most([price for price in self.prices if price.limit not in FLAGS])


def _most(prices: list[Price]) -> Price | None:
    """By output tokens/s, else by how much sooner the first token comes."""
    gains = [price for price in prices if price.output.low > 0.0 and price.output.ratio >= GAIN]
    if gains:
        return max(gains, key=lambda price: price.output.ratio)
    sooner = [price for price in prices if price.ttft.high < 0.0 and price.ttft.ratio <= -SOONER]
    return min(sooner, key=lambda price: price.ttft.ratio) if sooner else None


def brings(of: Suggestion) -> str:
    return f"{of.flag} would bring {_promised(of.output)} output tokens/s, mean TTFT {_promised(of.ttft)}"


def _promised(of: Worth) -> str:
    """+26.2 % (+2.5 to +55.3) where it is wide, and so uneven."""
    if of.high == inf or (of.high - of.low) / 2 * 100 < WIDE:
        return worth(of)
    low, ratio, high = (f"{100 * value:+.1f}".replace("-", "−") for value in (of.low, of.ratio, of.high))
    return f"{ratio} % ({low} to {high})"


def worth(of: Worth) -> str:
    """+7.37 ± 0.01 %; 0 where nothing came of it."""
    if of.ratio == of.low == of.high == 0.0:
        return "0"
    if of.high == inf:
        return "not known"
    half = (of.high - of.low) / 2 * 100
    return f"{_signed(of.ratio * 100)} ± {half:.2f} %" if half >= LEAST else f"{_signed(of.ratio * 100)} %"


def _signed(percents: float) -> str:
    return f"{percents:+.2f}".replace("-", "−") if abs(percents) >= LEAST else "0.00"
