"""A percentile is told only where the observations carry it: the load's plan and the panel keep the same bound."""

from __future__ import annotations

import pytest

from vtop.load.workload.phase import highest_percentile
from vtop.samples import samples_needed
from vtop.session.load.exact_histogram import ExactHistogram

TAILS = [(0.9, 44), (0.95, 90), (0.99, 459), (0.999, 4603), (0.9999, 46050)]


@pytest.mark.parametrize(("percentile", "samples"), TAILS)
def test_with_so_many_the_longest_lies_above_the_percentile_99_times_in_100(percentile: float, samples: int) -> None:
    assert samples_needed(percentile) == samples
    assert 1 - percentile**samples >= 0.99 > 1 - percentile ** (samples - 1)


@pytest.mark.parametrize(("percentile", "samples"), TAILS)
def test_a_percentile_is_shown_from_that_many_on(percentile: float, samples: int) -> None:
    spread = ExactHistogram()
    spread.add(0.1, weight=samples - 1)
    assert spread.quantiles((percentile,)) == [None]
    spread.failed = 1  # a failure is an observation
    assert spread.quantiles((percentile,)) != [None]


def test_a_median_is_no_bound_and_shown_at_once() -> None:
    spread = ExactHistogram()
    spread.add(0.1)
    assert spread.quantiles((0.5, 0.9)) == [0.1, None]


@pytest.mark.parametrize(("percentile", "samples"), TAILS[:4])
def test_a_phase_promises_no_percentile_that_would_not_be_shown(percentile: float, samples: int) -> None:
    assert highest_percentile(samples) == percentile
    assert (highest_percentile(samples - 1) or 0) < percentile
