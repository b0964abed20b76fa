"""How many rows a panel can use."""

from __future__ import annotations

from typing import NamedTuple


class Rows(NamedTuple):
    """Of a panel in its column: the fewest rows that are worth it, the most it can use, its share of what is over."""

    least: int
    most: int
    share: int = 1
