"""The exit code: what got worse beyond the bound and beyond its noise fails, what cannot be judged is reported."""

from __future__ import annotations

import pytest

from tests.report.loops import Loop, run
from vtop.errors import VtopError
from vtop.report.compare import compare
from vtop.report.compare.compared_numbers import NUMBERS
from vtop.report.compare.gate import judge, names_of
from vtop.report.compare.parts import Comparison


@pytest.fixture(scope="module")
def slower() -> Comparison:
    """10 % longer between tokens, known to about 2 %."""
    return compare.of([run(seed=1), run(Loop(itl_s=0.055), seed=2)])


def test_what_is_surely_worse_by_more_fails(slower: Comparison) -> None:
    (one,) = judge(slower, 0.05, ["itl.mean_s"]).failed
    assert one.startswith("c=4, ITL mean, B against A: worse by more than 5 %: +10")


def test_what_may_be_less_does_not_fail(slower: Comparison) -> None:
    (number,) = [number for number in slower.phases[0].numbers if number.name == "itl.mean_s"]
    (difference,) = number.differences
    assert difference.low_ratio is not None
    assert difference.ratio is not None
    assert judge(slower, difference.low_ratio - 1e-6, ["itl.mean_s"]).failed
    between = (difference.low_ratio + difference.ratio) / 2  # the difference is more, its interval not surely
    assert not judge(slower, between, ["itl.mean_s"]).failed


def test_less_of_what_should_be_more_is_worse(slower: Comparison) -> None:
    assert judge(slower, 0.03, ["output_per_s"]).failed
    faster = compare.of([run(Loop(itl_s=0.055), seed=2), run(seed=1)])
    assert not judge(faster, 0.0).failed


def test_the_same_never_fails() -> None:
    of = run(seed=1)
    judged = judge(compare.of([of, of]), 0.0)
    assert judged.failed == judged.open == ()
    assert judged.judged == 4


def test_failures_are_held_against_the_bound_in_points() -> None:
    found = compare.of([run(seed=1), run(Loop(failing=0.4), seed=2)])
    assert judge(found, 0.05, ["failed_ratio"]).failed
    assert not judge(found, 0.95, ["failed_ratio"]).failed


def test_what_has_no_interval_is_said_and_nothing_at_all_is_an_error() -> None:
    short = compare.of([run(Loop(n=4), seed=1), run(Loop(n=4, itl_s=0.1), seed=2)])
    with pytest.raises(VtopError, match=r"no difference of itl\.mean_s can be judged"):
        judge(short, 0.05, ["itl.mean_s"])
    judged = judge(short, 0.05)  # that none failed is known: it is the same
    assert "c=4, ITL mean, B against A: noise not known" in judged.open


def test_a_phase_that_one_side_lacks_is_said() -> None:
    found = compare.of([run(Loop(c=2, n=40), Loop(c=4, n=40)), run(Loop(c=2, n=40))])
    assert judge(found, 0.5).open[0] == "c=4 is in A only"


def test_names_are_those_of_numbers_that_can_be_worse() -> None:
    assert names_of(" output_per_s , ttft.p99_s") == ("output_per_s", "ttft.p99_s")
    with pytest.raises(VtopError, match="--on speed: no such number; there are output_per_s, "):
        names_of("speed")
    with pytest.raises(VtopError, match=r"--on power_w\.mean: neither more nor less"):
        names_of("power_w.mean")
    with pytest.raises(VtopError, match="names no number"):
        names_of(",")
    assert len({number.name for number in NUMBERS}) == len(NUMBERS)
