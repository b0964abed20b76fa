"""Why an MLP needs one all-reduce only: columns of the first two matrices and rows of the third may be split.

    Y = (f(X Wg) * (X Wu)) Wd = sum over ranks r of (f(X Wg_r) * (X Wu_r)) Wd_r        for any f of single elements

Shown with the article's matrices, whole numbers throughout, f = max(0, .) in the place of SiLU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from vtop.errors import VtopError

Matrix = list[list[int]]

X: Final[Matrix] = [[1, -1, 2, 0], [0, 2, -1, 1]]  # 2 tokens x 4
GATE: Final[Matrix] = [[(row + 2 * column) % 5 - 2 for column in range(6)] for row in range(4)]
UP: Final[Matrix] = [[(2 * row + column) % 7 - 3 for column in range(6)] for row in range(4)]
DOWN: Final[Matrix] = [[(row - column) % 5 - 2 for column in range(4)] for row in range(6)]


@dataclass(frozen=True, slots=True)
class SplitIdentity:
    """dense: of one rank. parts: of each of p ranks. reduced: their sum."""

    p: int
    dense: Matrix
    parts: tuple[Matrix, ...]
    reduced: Matrix

    @property
    def holds(self) -> bool:
        return self.dense == self.reduced


def shown(p: int) -> SplitIdentity:
    """Raises VtopError where p does not divide the six columns."""
    width = len(DOWN)
    if width % p:
        raise VtopError(f"the example has {width} columns, which {p} ranks do not divide: 1, 2, 3 or 6")
    share = width // p
    parts = []
    for rank in range(p):
        columns = slice(rank * share, (rank + 1) * share)
        parts.append(_mlp([row[columns] for row in GATE], [row[columns] for row in UP], DOWN[columns]))
    reduced = parts[0]
    for part in parts[1:]:
        reduced = _each(reduced, part, lambda a, b: a + b)
    return SplitIdentity(p, _mlp(GATE, UP, DOWN), tuple(parts), reduced)


def _mlp(gate: Matrix, up: Matrix, down: Matrix) -> Matrix:
    return _product(_each(_product(X, gate), _product(X, up), lambda g, u: max(0, g) * u), down)


def _product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def _each(a: Sequence[Sequence[int]], b: Sequence[Sequence[int]], f: Callable[[int, int], int]) -> Matrix:
    return [[f(x, y) for x, y in zip(one, other, strict=True)] for one, other in zip(a, b, strict=True)]
