"""Numbers for people: no number that a server or a damaged file may hold is too large, or too odd, to be written."""

from __future__ import annotations

import inspect
import math

import pytest

from vtop import units

ODD = (None, math.nan, math.inf, -math.inf, 1e306, -1e306, 1e17, 0.0, -0.0, 1e-320, 10**400, -(10**400), True, 5, -1)
WRITERS = [
    function
    for name, function in inspect.getmembers(units, inspect.isfunction)
    if name not in ("duration", "bounds") and not name.startswith("_")
]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: str(write.__name__))
def test_every_number_can_be_written_in_a_few_characters(write: object) -> None:
    assert callable(write)
    for value in ODD:
        assert 0 < len(write(value)) < 24


def test_bounds_of_any_two_numbers_can_be_written() -> None:
    for low in ODD[1:]:
        for high in ODD:
            assert 0 < len(units.bounds(low, high)) < 40


def test_an_infinite_percentile_is_written_as_such_and_what_is_no_number_as_not_known() -> None:
    assert (units.seconds(math.inf), units.seconds(math.nan), units.seconds(1e17)) == ("∞", "–", "1e+17")
    assert (units.count(math.inf), units.percent(math.nan), units.clock(1e306)) == ("∞", "–", "∞")


@pytest.mark.parametrize(
    "text", ["nan", "inf", "1e999", "inf:1", "1:nan", "9" * 400, "1e308h", "-1", "", ":", "1:2:3:4"]
)
def test_a_time_is_finite(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        units.duration(text)
