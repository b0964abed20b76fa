"""Noise and intervals: as wide as chance makes them, the same in every process, and Student's t by another way."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from vtop.report.compare import noise
from vtop.report.compare.noise import between_blocks, between_runs, of_curves, of_sums
from vtop.samples import student

BLOCKS = 12


def half_of(error: noise.StandardError | None) -> float | None:
    return error.half(0.99) if error is not None else None


def test_t_is_where_its_density_holds_the_confidence() -> None:
    for df in (1, 2, 3, 4, 7, 10, 31):
        for confidence in (0.9, 0.95, 0.99):
            t = np.linspace(0, student(df, confidence), 200_001)
            density = (1 + t * t / df) ** (-(df + 1) / 2)
            scale = math.gamma((df + 1) / 2) / math.gamma(df / 2) / math.sqrt(df * math.pi)
            area = float(np.sum((density[1:] + density[:-1]) / 2) * (t[1] - t[0]))
            assert 2 * scale * area == pytest.approx(confidence, abs=1e-6), (df, confidence)


def test_the_draws_never_change() -> None:
    drawn = noise.draws(5)
    assert drawn[:3].tolist() == [[0, 2, 0, 3, 0], [1, 1, 2, 1, 0], [0, 0, 0, 3, 2]]
    assert (drawn.sum(axis=1) == 5).all()


def test_the_error_of_a_mean_over_blocks_is_the_one_of_the_textbook() -> None:
    luck = Random(1)
    a, b = ([luck.gauss(10, 1) for _ in range(BLOCKS)] for _ in range(2))
    half = half_of(between_blocks(of_sums(a, [1.0] * BLOCKS), of_sums(b, [1.0] * BLOCKS), BLOCKS))
    apart = np.subtract(b, a)
    assert half == pytest.approx(student(BLOCKS - 1, 0.99) * apart.std(ddof=1) / math.sqrt(BLOCKS), rel=0.06)


def test_what_belongs_to_a_place_in_the_phase_is_no_noise() -> None:
    luck = Random(2)
    rising = [float(k) for k in range(BLOCKS)]
    a, b = ([value + luck.gauss(0, 0.01) for value in rising] for _ in range(2))
    half = half_of(between_blocks(of_sums(a, [1.0] * BLOCKS), of_sums(b, [1.0] * BLOCKS), BLOCKS))
    assert half is not None
    assert half < 0.05


def _mean(luck: Random) -> tuple[float, noise.Numbers]:
    blocks = [[luck.lognormvariate(0, 0.3) for _ in range(20)] for _ in range(BLOCKS)]
    return sum(map(sum, blocks)) / (20 * BLOCKS), of_sums(list(map(sum, blocks)), [20.0] * BLOCKS)


def _median(luck: Random) -> tuple[float, noise.Numbers]:
    blocks = [sorted(luck.lognormvariate(0, 0.3) for _ in range(9)) for _ in range(BLOCKS)]
    everyone = sorted(value for block in blocks for value in block)
    curves = [np.array([(value, k + 1.0) for k, value in enumerate(block)]) for block in blocks]
    drawn = of_curves(curves, [9.0] * BLOCKS).quantile(0.5)
    return everyone[math.ceil(0.5 * len(everyone)) - 1], drawn


@pytest.mark.parametrize("number", [_mean, _median])
def test_noise_alone_is_found_beyond_the_noise_as_seldom_as_said(
    number: Callable[[Random], tuple[float, noise.Numbers]],
) -> None:
    beyond, tries = 0, 120
    for seed in range(tries):
        (a, drawn_a), (b, drawn_b) = number(Random(2 * seed)), number(Random(2 * seed + 1))
        error = between_blocks(drawn_a, drawn_b, BLOCKS)
        assert error is not None
        beyond += abs(b - a) > error.half(0.95)
    assert 0.01 < beyond / tries < 0.075  # 5 % is reported; too wide would be no merit either


def test_a_quantile_of_very_many_values_is_drawn_close_to_the_exact_one() -> None:
    luck = Random(3)
    blocks = [sorted(luck.lognormvariate(0, 1) for _ in range(2000)) for _ in range(BLOCKS)]
    curves = [np.array([(value, k + 1.0) for k, value in enumerate(block)]) for block in blocks]
    for q in (0.5, 0.99, 0.999):
        drawn = of_curves(curves, [2000.0] * BLOCKS).quantile(q)
        exact = []
        for times in noise.draws(BLOCKS)[:50]:
            values = np.sort(np.concatenate([np.repeat(block, int(n)) for block, n in zip(blocks, times, strict=True)]))
            exact.append(values[math.ceil(q * len(values)) - 1])
        assert drawn[:50] == pytest.approx(np.array(exact), rel=0.01)


def test_a_quantile_where_failed_ones_stand_has_no_interval() -> None:
    curves = [np.array([(1.0, 8.0)]) for _ in range(BLOCKS)]
    failing = of_curves(curves, [10.0] * BLOCKS).quantile(0.9)
    fine = of_curves(curves, [8.0] * BLOCKS).quantile(0.9)
    assert np.isinf(failing).all()
    assert half_of(between_blocks(fine, failing, BLOCKS)) is None


def test_too_few_blocks_know_no_noise() -> None:
    alone = of_sums([1.0], [1.0])
    assert between_blocks(alone, alone, 1) is None


def test_two_blocks_know_a_noise_that_is_as_wide_as_t_says() -> None:
    a, b = of_sums([1.0, 2.0], [1.0] * 2), of_sums([1.5, 2.0], [1.0] * 2)
    found = between_blocks(a, b, 2)
    assert found is not None
    assert found.df == 1
    assert found.value == pytest.approx(0.25, rel=0.05)  # of 0.5 and 0, their mean's
    assert found.half(0.99) == pytest.approx(63.66 * found.value, rel=1e-3)


def test_a_ratio_is_judged_by_its_logarithm() -> None:
    """Seventyfold with a spread of as much is no noise, where the difference alone would be."""
    luck = Random(5)
    a = [luck.lognormvariate(0.0, 0.7) for _ in range(BLOCKS)]
    b = [70 * luck.lognormvariate(0.0, 0.7) for _ in range(BLOCKS)]
    drawn = of_sums(a, [1.0] * BLOCKS), of_sums(b, [1.0] * BLOCKS)
    found = between_blocks(*drawn, BLOCKS, log=True)
    assert found is not None
    assert math.log(70) - found.half(0.9999) > 0
    assert between_blocks(of_sums([0.0] * BLOCKS, [1.0] * BLOCKS), drawn[1], BLOCKS, log=True) is None


def test_counts_that_are_alike_in_every_block_are_still_counts() -> None:
    nothing = noise.StandardError(0.0, 2)
    assert nothing.of_counts(24, 24).value == pytest.approx(math.sqrt(2 / 6) / 24)


def test_all_intervals_hold_together() -> None:
    assert noise.each(0.95, 1, 0) == pytest.approx(0.95)
    assert noise.each(0.95, 50, 0) == pytest.approx(0.999)
    assert noise.each(0.95, 5, 50) == pytest.approx(0.995)
    assert noise.each(0.95, 0, 3) == pytest.approx(0.975)
    for first, others in ((5, 50), (35, 300), (0, 7), (1, 0)):
        wrong = first * (1 - noise.each(0.95, first, others)) + others * (1 - noise.each(0.95, others, first))
        assert wrong <= 0.05 + 1e-12


def test_runs_pool_what_both_sides_vary() -> None:
    a, b = [10.0, 10.2, 9.8], [11.0, 11.2, 10.8]
    both, one = between_runs(a, b), between_runs(a, [11.0])
    assert both is not None
    assert one is not None
    assert (both.df, one.df) == (4, 2)
    assert both.value == pytest.approx(0.2 * math.sqrt(2 / 3))
    assert one.value == pytest.approx(0.2 * math.sqrt(1 / 3 + 1))
    assert between_runs([10.0], [11.0]) is None
    assert between_runs([0.0, 1.0], [11.0], log=True) is None
