"""Prices come from a process of their own, line by line."""

from __future__ import annotations

from pathlib import Path

import msgspec

from vtop.engine.whatif.beside import PricesBeside
from vtop.session.frame.prices import Price, Prices, Suggestion, Worth

RECORDINGS = Path(__file__).parents[2] / "recordings"


def test_prices_are_the_same_on_the_other_side_of_the_pipe() -> None:
    worth = Worth(0.07, 0.06, 0.08)
    tried = Suggestion("kv", "--kv-tokens 2", worth, worth)
    one = Prices("c=64", 3, (Price("kv", 1, 2, worth, worth, 5),), tried, (), 1.0)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Prices) == one


def test_before_anything_is_simulated_nothing_is_known() -> None:
    beside = PricesBeside(RECORDINGS / "sweep_c64.jsonl.gz")
    assert beside.made == 0
    assert beside.of(None) is None
    beside.stop()
