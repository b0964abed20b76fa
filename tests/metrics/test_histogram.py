"""A histogram gives exact means, and quantiles only as exactly as its buckets know them."""

import math
from bisect import bisect_left
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtop.metrics.histogram import Histogram, Range

LE = (0.3, 0.5, 0.8, 1.0)


def observed(*values: float) -> Histogram:
    n = [0.0] * (len(LE) + 1)
    for value in values:
        n[bisect_left(LE, value)] += 1
    return Histogram(LE, tuple(n), sum(values))


@pytest.mark.parametrize("le", [(0.5, 0.3), (0.3, 0.3), (0.3, math.inf), (math.nan, 0.3)])
def test_bounds_must_be_finite_and_ascending(le: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="finite and ascending"):
        Histogram(le, (0.0, 0.0, 0.0), 0.0)


def test_there_is_one_count_more_than_bounds() -> None:
    with pytest.raises(ValueError, match="2 bounds need 3 counts, not 2"):
        Histogram((0.3, 0.5), (1.0, 1.0), 0.0)


@pytest.mark.parametrize("n", [-1.0, math.nan])
def test_a_bucket_does_not_hold_less_than_nothing(n: float) -> None:
    with pytest.raises(ValueError, match="0 observations or more"):
        Histogram((1.0,), (n, 2.0), 0.0)


def test_adding_two_engines_adds_counts_and_sums() -> None:
    assert observed(0.1, 0.4).add(observed(0.4, 9.0)) == observed(0.1, 0.4, 0.4, 9.0)


def test_different_bounds_do_not_combine() -> None:
    other = Histogram((1.0,), (0.0, 0.0), 0.0)
    with pytest.raises(ValueError, match="different bounds"):
        observed(0.1).add(other)


def test_an_empty_window_has_no_mean_and_no_quantile() -> None:
    empty = observed()
    assert empty.count == 0
    assert empty.mean is None
    assert empty.quantile(0.5) is None


@pytest.mark.parametrize("total", [math.nan, math.inf])
def test_a_sum_that_is_no_number_gives_no_mean(total: float) -> None:
    assert Histogram((1.0,), (1.0, 0.0), total).mean is None


def test_below_the_first_bound_a_quantile_begins_at_zero() -> None:
    fast = Histogram(LE, (100.0, 0.0, 0.0, 0.0, 0.0), 2.1)
    assert fast.quantile(0.99) == Range(0.0, 0.3)
    assert fast.mean == pytest.approx(0.021)


def test_above_the_last_bound_a_quantile_is_open() -> None:
    slow = Histogram((30.0, 60.0), (0.0, 10.0, 90.0), 18000.0)
    assert slow.quantile(0.99) == Range(60.0, None)
    assert slow.mean == 180.0


def test_a_quantile_is_the_bucket_and_never_a_number_inside_it() -> None:
    assert observed(0.4, 0.4, 0.4, 0.9).quantile(0.5) == Range(0.3, 0.5)


def test_a_value_on_a_bound_belongs_below_it() -> None:
    assert observed(0.5).quantile(0.5) == Range(0.3, 0.5)


def test_the_rank_is_the_smallest_with_enough_at_or_below() -> None:
    four = observed(0.1, 0.4, 0.7, 0.9)
    assert four.quantile(0.0) == Range(0.0, 0.3)
    assert four.quantile(0.25) == Range(0.0, 0.3)
    assert four.quantile(0.26) == Range(0.3, 0.5)
    assert four.quantile(0.5) == Range(0.3, 0.5)
    assert four.quantile(0.75) == Range(0.5, 0.8)
    assert four.quantile(1.0) == Range(0.8, 1.0)


def test_the_rank_does_not_slip_by_a_rounding_error() -> None:
    assert 0.07 * 100 > 7
    assert Histogram((1.0,), (7.0, 93.0), 0.0).quantile(0.07) == Range(0.0, 1.0)


def test_empty_buckets_are_passed_over() -> None:
    assert Histogram(LE, (0.0, 0.0, 0.0, 2.0, 0.0), 1.8).quantile(0.0) == Range(0.8, 1.0)


def test_without_bounds_every_value_is_somewhere_above_zero() -> None:
    assert Histogram((), (3.0,), 6.0).quantile(0.5) == Range(0.0, None)


def test_a_first_bound_not_above_zero_leaves_its_bucket_open_below() -> None:
    assert Histogram((0.0, 1.0), (1.0, 0.0, 0.0), 0.0).quantile(0.5) == Range(-math.inf, 0.0)


@pytest.mark.parametrize("q", [-0.1, 1.1, 99, math.nan])
def test_a_quantile_outside_zero_to_one_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        observed(0.1).quantile(q)


values = st.lists(st.floats(0, 3), min_size=1, max_size=200)


@given(values, st.integers(0, 1000))
@settings(deadline=None)
def test_the_range_holds_the_nearest_rank_value(seen: list[float], thousandths: int) -> None:
    q = Fraction(thousandths, 1000)
    nearest = sorted(seen)[max(1, math.ceil(q * len(seen))) - 1]
    found = observed(*seen).quantile(thousandths / 1000)
    assert found is not None
    assert found.low < nearest or nearest == found.low == 0
    assert found.high is None or nearest <= found.high
