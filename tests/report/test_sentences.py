"""Each number in the sentences of a report is a value of its JSON (bench/sentences.py does this for all recordings)."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.report.reports import report_of

BENCH = Path(__file__).parents[2] / "bench" / "sentences.py"


@cache
def bench() -> ModuleType:
    found = importlib.util.spec_from_file_location("sentences", BENCH)
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    sys.modules["sentences"] = made  # its dataclasses ask for it
    found.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", ["killed", "overload_loaded", "sweep"])
def test_every_number_in_a_sentence_is_a_value_of_the_json(name: str) -> None:
    found = bench().claims(report_of(name))
    assert len(found) > 100
    assert [(one.number, one.sentence) for one in found if one.path is None] == []


def test_a_wrong_number_is_no_value() -> None:
    explained = bench().Explained(report_of("overload_loaded"))
    (right,) = explained.claims("finding", "98.8 % of it is queueing.")
    (wrong,) = explained.claims("finding", "97.9 % of it is queueing.")
    assert str(right.path).endswith("queue_of_ttft_ratio")
    assert not str(wrong.path).endswith("queue_of_ttft_ratio")
    assert explained.path("51.3 s") is None


def test_most_numbers_that_are_off_by_a_twelfth_are_seen() -> None:
    explained = bench().Explained(report_of("sweep"))
    found = [bench().changed(one.number) for one in bench().claims(report_of("sweep"))]
    assert sum(explained.path(number) is None for number in found) > 0.7 * len(found)


def test_names_units_and_clocks_are_told_apart() -> None:
    said = "At 0:09–0:53 p99.9 was 1,597 ms of 4.64 GiB with --max-num-seqs 48 in c=64, 5.4 ×"
    assert bench().numbers(said) == ["0:09", "0:53", "1,597 ms", "4.64 GiB", "48", "5.4 ×"]
