"""Prices come from a process of their own, line by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from vtop.engine.whatif.beside import LivePrices, PricesBeside
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


def test_prices_of_a_session_that_goes_on_are_made_once_at_a_time_and_not_after_its_end() -> None:
    asked: list[Path] = []

    def copy_to(target: Path) -> Path | None:
        asked.append(target)
        return None  # its beginning is not at hand

    live = LivePrices(copy_to)
    for now_s in (10.0, 10.1, 4000.0):
        live.asked(now_s)
        assert live._working is not None
        live._working.join()
    assert len(asked) == 1
    assert (live.made, live.of(0)) == (0, None)
    live.stop()
    ended = LivePrices(copy_to)
    ended.stop()
    ended.asked(10.0)
    assert len(asked) == 1


@pytest.mark.slow
def test_a_load_that_is_under_way_is_priced_as_far_as_it_has_come(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with gzip.open(RECORDINGS / "repeat_first.jsonl.gz") as lines:
        path.write_bytes(b"".join(line for line in lines if msgspec.json.decode(line).get("t", 0.0) < 61.0))
    live = LivePrices(lambda target: path)
    live.asked(61.0)
    assert live._working is not None
    live._working.join(60.0)
    live.stop()
    found = live.of(1)
    assert found is not None
    assert [price.limit for price in found.prices][:3] == ["kv", "max-num-seqs", "token-budget"]
    assert found.suggestion is not None
    assert found.suggestion.flag == "--max-num-batched-tokens 2048"
