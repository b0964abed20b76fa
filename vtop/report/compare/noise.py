"""Noise: how far two numbers may lie apart although nothing changed, and the interval that follows for a difference.

Without repeats the noise is that within a run. Both phases are cut into the same number of blocks, which are drawn
anew with replacement, the same places in both, so that what belongs to a place in the phase (a start with empty
queues) does not count as noise. The spread of the difference over these draws is its standard error; few blocks
know it badly, for which Student's t and sqrt(k / (k - 1)) make up. With repeats the noise is that between runs, and a
number is the mean over runs: the bootstrap of a mean has the closed form that is used here.

    blocks: half = t(k - 1) x sqrt(k / (k - 1)) x sd(B* - A*)
    runs:   half = t(a + b - 2) x s x sqrt(1 / a + 1 / b)          s: pooled over both sides

Times, rates and counts above 0 are judged by their ratio: all of this is of their logarithms, and the interval is
exp(log(B / A) ± half) - 1. What grows 70-fold with a spread of as much is then no noise. Shares are judged in points.

All intervals of a comparison hold together with its confidence, so of two like runs a difference is called one in at
most 1 - confidence of the comparisons, however many figures there are and however they hang together (Bonferroni). One
half of that is for the first numbers, which are few, the other for all else: each of m is at 1 - (1 - confidence) / 2m.

The draws are the same in every process and for every numpy (its RandomState is frozen).
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 8; Hesterberg, What Teachers Should Know
About the Bootstrap (2015), on few observations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vtop.samples import student

Numbers = NDArray[np.float64]
Curve = NDArray[np.float64]  # rows of (value, how many at or below), ascending

TOGETHER: Final = 0.95  # confidence of all intervals of a comparison together, unless asked otherwise
DRAWS: Final = 1000
LEAST_BLOCKS: Final = 2  # of which t makes an interval that is wide, and true
FEW_BLOCKS: Final = 8  # of fewer t is large: more requests would tell much more
EDGES: Final = 2048  # at which a distribution is looked at while it is drawn anew
_ALL: Final = 0.98  # of the draws that must give a number


@lru_cache(maxsize=64)
def draws(blocks: int) -> Numbers:
    """How often each block is drawn, for each of the draws."""
    drawn = np.random.RandomState(blocks).multinomial(blocks, [1 / blocks] * blocks, size=DRAWS)
    return np.asarray(drawn, dtype=np.float64)


def of_sums(above: Sequence[float], below: Sequence[float]) -> Numbers:
    """A ratio of two sums over blocks, drawn anew: a mean, a rate."""
    drawn = draws(len(above))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((drawn @ np.asarray(above)) / (drawn @ np.asarray(below)))


@dataclass(frozen=True, slots=True, eq=False)
class DrawnDistribution:
    """A distribution over blocks, drawn anew: how many lie at or below each of some values, in each of the draws."""

    values: Numbers
    next: NDArray[np.bool_]  # whether a value is the next after the one before it, or others lie between
    counted: Numbers  # draws x values
    totals: Numbers  # draws, with those that failed

    def quantile(self, q: float) -> Numbers:
        """One for each draw, by nearest rank; on a line where values lie between; inf where a failed one stands."""
        if not len(self.values):
            return np.full(DRAWS, math.nan)
        rank = q * self.totals
        reached = self.counted >= rank[:, None] - 1e-9
        place, row = reached.argmax(axis=1), np.arange(DRAWS)
        before = np.where(place > 0, self.counted[row, place - 1], 0.0)
        step = self.counted[row, place] - before
        part = np.divide(rank - before, step, out=np.ones(DRAWS), where=step > 0).clip(0.0, 1.0)
        share = np.where(self.next[place], 1.0, part)
        low = self.values[np.maximum(place - 1, 0)]
        return np.where(reached[:, -1], low + share * (self.values[place] - low), math.inf)


def of_curves(curves: Sequence[Curve], totals: Sequence[float]) -> DrawnDistribution:
    """Of the curve and the total of each block."""
    drawn, (values, following) = draws(len(curves)), _edges(curves)
    below = np.stack([_at(curve, values) for curve in curves])
    return DrawnDistribution(values, following, drawn @ below, drawn @ np.asarray(totals))


def _edges(curves: Sequence[Curve]) -> tuple[Numbers, NDArray[np.bool_]]:
    """All values, or some of them, which lie the denser the nearer to an end; and which of them follow one another."""
    values = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    if len(values) <= EDGES:
        return values, np.ones(len(values), dtype=np.bool_)
    counts = np.sum([_at(curve, values) for curve in curves], axis=0)
    ends = math.log(counts[-1])
    ranks = counts[-1] / (1 + np.exp(-np.linspace(-ends, ends, EDGES)))
    found = np.searchsorted(counts, ranks).clip(0, len(values) - 1)
    places = np.union1d(found, [0, len(values) - 1])
    return values[places], np.diff(places, prepend=-1) == 1


def _at(curve: Curve, edges: Numbers) -> Numbers:
    """How many lie at or below each of some values."""
    if not len(curve):
        return np.zeros(len(edges))
    place = np.searchsorted(curve[:, 0], edges, side="right")
    return np.asarray(np.concatenate([[0.0], curve[:, 1]])[place])


@dataclass(frozen=True, slots=True)
class StandardError:
    """Of a difference, or of the logarithm of a ratio; and how well it is known (degrees of freedom)."""

    value: float
    df: int

    def of_counts(self, a: float, b: float) -> StandardError:
        """Of the logarithm of a ratio of two rates, which are so many events each: at either edge of its time a count
        is off by part of an event, however alike the blocks are."""
        edges = math.sqrt((1 / a**2 + 1 / b**2) / 6)
        return StandardError(math.hypot(self.value, edges), self.df)

    def half(self, confidence: float) -> float:
        """Half the interval."""
        return student(self.df, confidence) * self.value


def between_blocks(a: Numbers, b: Numbers, blocks: int, *, log: bool = False) -> StandardError | None:
    """Of two numbers drawn anew; None where too many draws gave none (or none above 0, of logarithms)."""
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = np.log(a), np.log(b)
    both = np.isfinite(a) & np.isfinite(b)
    difference = b[both] - a[both]
    if blocks < LEAST_BLOCKS or len(difference) < _ALL * DRAWS:
        return None
    return StandardError(math.sqrt(blocks / (blocks - 1)) * float(np.std(difference)), blocks - 1)


def between_runs(a: Sequence[float], b: Sequence[float], *, log: bool = False) -> StandardError | None:
    """Of two means over runs; a side with one run is taken to vary as the other. None of logarithms of values that are
    not all above 0."""
    df = len(a) + len(b) - 2
    if not a or not b or df < 1 or (log and min(*a, *b) <= 0):
        return None
    sides = [np.log(side) if log else np.asarray(side) for side in (a, b)]
    squares = sum(float(np.sum((side - np.mean(side)) ** 2)) for side in sides)
    return StandardError(math.sqrt(squares / df * (1 / len(a) + 1 / len(b))), df)


def each(confidence: float, intervals: int, others: int) -> float:
    """The confidence of each of so many intervals that hold together with `others` with one; half of what may go wrong
    is for each of the two groups, all of it where the other is empty."""
    return 1 - (1 - confidence) / max(1, intervals) / (2 if others else 1)
