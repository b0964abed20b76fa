"""Arrivals are what they are called, the same from the same seed, and the same for any number of workers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from statistics import mean, variance

import numpy as np
import pytest

from vtop.load.workload.arrivals import closed_ids, due_times, lengths, planned, share
from vtop.load.workload.phase import PlannedPhase, TokenRange
from vtop.load.workload.spec import phases

WORKERS = [1, 2, 3, 4, 7]


def one(text: str) -> PlannedPhase:
    (phase,) = phases([text])
    return phase


def merged(phase: PlannedPhase, workers: int = 1, recorded_s: Sequence[float] = ()) -> list[tuple[int, float]]:
    """The whole schedule, in order of time, as that many workers send it."""
    each = (due_times(phase, worker, workers, recorded_s=recorded_s) for worker in range(workers))
    return sorted((pair for worker in each for pair in worker), key=lambda pair: (pair[1], pair[0]))


def instants(phase: PlannedPhase, workers: int = 1) -> list[float]:
    return [at_s for _, at_s in merged(phase, workers)]


def gaps(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise([0.0, *times])]


def ks_distance(values: Sequence[float], rate: float) -> float:
    """Kolmogorov and Smirnov's: the largest distance of the values' distribution from the exponential."""
    ordered, n = sorted(values), len(values)
    law = [1 - math.exp(-rate * value) for value in ordered]
    return max(max((i + 1) / n - f, f - i / n) for i, f in enumerate(law))


def chi_square_bounds(freedom: int, z: float = 3.29) -> tuple[float, float]:
    """Where a chi-square variable lies with 99.9 % (Wilson and Hilferty)."""
    third = 2 / (9 * freedom)
    low, high = (freedom * (1 - third + sign * z * math.sqrt(third)) ** 3 for sign in (-1, 1))
    return low, high


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_poisson_gaps_are_exponential(workers: int, seed: int) -> None:
    times = instants(one(f"rate=200 n=20000 seed={seed}"), workers)
    assert ks_distance(gaps(times), 200) < 1.95 / math.sqrt(len(times))  # 99.9 %


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("per_window", [0.5, 5, 20, 100])
def test_poisson_counts_are_as_dispersed_as_poisson(workers: int, per_window: float) -> None:
    times = instants(one("rate=200 n=40000 seed=5"), workers)
    windows = int(times[-1] * 200 / per_window)
    counts = [0] * (windows + 1)
    for at_s in times:
        counts[int(at_s * 200 / per_window)] += 1
    counts.pop()  # the last window is not whole
    dispersion = variance(counts) / mean(counts)
    low, high = chi_square_bounds(windows - 1)
    assert low < dispersion * (windows - 1) < high


@pytest.mark.parametrize("workers", [1, 4])
def test_one_gap_says_nothing_of_the_next(workers: int) -> None:
    values = gaps(instants(one("rate=200 n=20000 seed=3"), workers))
    centre = mean(values)
    for lag in (1, 2, 4, 8):
        covariance = mean((a - centre) * (b - centre) for a, b in zip(values, values[lag:], strict=False))
        assert abs(covariance / variance(values)) < 3.29 / math.sqrt(len(values))


def test_the_schedule_is_never_rescaled_to_its_end() -> None:
    # were the last of 100 arrivals pinned to n / rate, the first half would hold 50 with a variance of 25, not of 50
    halves, ends = [], []
    for seed in range(400):
        times = instants(one(f"rate=1 for=100s seed={seed}"))
        halves.append(sum(at_s < 50 for at_s in times))
        ends.append(instants(one(f"rate=1 n=100 seed={seed}"))[-1])
    assert variance(halves) == pytest.approx(50, abs=3.5 * 3.3)
    assert variance(ends) == pytest.approx(100, abs=7.1 * 3.3)


def test_the_number_of_arrivals_in_a_time_is_not_pinned_either() -> None:
    totals = [len(instants(one(f"rate=1 for=100s seed={seed}"))) for seed in range(400)]
    assert mean(totals) == pytest.approx(100, abs=1.7)
    assert variance(totals) == pytest.approx(100, abs=7.1 * 3.3)


@pytest.mark.parametrize("arrival", ["poisson", "constant", "gamma:0.5"])
@pytest.mark.parametrize("workers", WORKERS)
def test_any_number_of_workers_sends_the_one_schedule(arrival: str, workers: int) -> None:
    phase = one(f"rate=50 arrival={arrival} n=500 warmup=3")
    assert merged(phase, workers) == list(due_times(phase))
    for worker in range(workers):
        assert all(k % workers == worker for k, _ in due_times(phase, worker, workers))


def test_same_seed_same_schedule_other_seed_other_schedule() -> None:
    assert instants(one("rate=8 seed=1")) == instants(one("rate=8 seed=1"))
    first, second = instants(one("rate=8 seed=1")), instants(one("rate=8 seed=2"))
    assert not set(first) & set(second)


def test_a_schedule_does_not_change_from_one_version_to_the_next() -> None:
    first = [at_s for _, at_s in islice(due_times(one("rate=8 seed=1")), 3)]
    assert first == pytest.approx([0.12788422755067455, 0.42272923689916997, 0.43526507917332374])


def test_constant_is_exact() -> None:
    times = instants(one("rate=1000 arrival=constant n=100000"))
    assert times == [k / 1000 for k in range(100000)]


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("workers", [1, 4])
def test_gamma_keeps_the_rate_and_has_its_variance(shape: float, workers: int) -> None:
    values = gaps(instants(one(f"rate=20 arrival=gamma:{shape} n=40000"), workers))
    spread = 1 / math.sqrt(shape)  # of a gap, in mean gaps
    assert mean(values) * 20 == pytest.approx(1, abs=4 * spread / math.sqrt(40000))
    # the variance of a sample's variance, from the fourth moment of gamma: (2 + 6 / K) / n
    assert variance(values) * 400 / spread**2 == pytest.approx(1, abs=4 * math.sqrt((2 + 6 / shape) / 40000))


def test_a_trace_is_replayed_at_its_times_from_its_first() -> None:
    recorded_s = [3600.0, 3600.5, 3600.5, 3604.0]
    assert merged(one("trace=t"), recorded_s=recorded_s) == [(0, 0.0), (1, 0.5), (2, 0.5), (3, 4.0)]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_trace_can_be_replayed_faster_and_slower(workers: int) -> None:
    recorded_s = [0.0, 1.0, 3.0]
    assert merged(one("trace=t speed=2"), workers, recorded_s) == [(0, 0.0), (1, 0.5), (2, 1.5)]
    assert merged(one("trace=t speed=0.5"), workers, recorded_s) == [(0, 0.0), (1, 2.0), (2, 6.0)]


def test_a_trace_ends_by_number_or_by_time() -> None:
    recorded_s = [0.0, 1.0, 3.0, 9.0]
    assert len(merged(one("trace=t n=2"), recorded_s=recorded_s)) == 2
    assert len(merged(one("trace=t for=3s"), recorded_s=recorded_s)) == 2
    assert len(merged(one("trace=t n=99"), recorded_s=recorded_s)) == 4


def test_the_warm_up_comes_before_what_is_asked_for() -> None:
    assert len(instants(one("rate=10 arrival=constant n=20 warmup=5"))) == 25
    times = instants(one("rate=10 arrival=constant for=2s warmup=5"))
    assert times[4] == 0.4  # the last of the warm-up
    assert [at_s for at_s in times if at_s > 0.4] == [k / 10 for k in range(5, 24)]


def test_whichever_end_is_met_first_ends_it() -> None:
    assert len(instants(one("rate=10 arrival=constant n=20 for=1s"))) == 10
    assert len(instants(one("rate=10 arrival=constant n=5 for=1s"))) == 5


def test_a_long_schedule_is_made_as_it_is_walked() -> None:
    hour = due_times(one("rate=1000000 for=1h"), 3, 4)
    assert [k for k, _ in islice(hour, 3)] == [3, 7, 11]


def test_after_a_change_by_hand_the_numbers_and_the_end_go_on() -> None:
    phase = one("rate=10 arrival=constant for=10s warmup=2")
    faster = replace(phase, rate_per_s=20.0)
    changed = list(due_times(faster, first=30, start_s=3.0, measured_s=0.1))
    assert changed[0] == (30, 3.05)
    assert changed[-1][1] == pytest.approx(10.05)
    assert len(changed) == 141
    poisson = replace(faster, arrival="poisson")
    before = gaps(instants(replace(phase, arrival="poisson")))
    after = [at_s for _, at_s in due_times(poisson, first=30, start_s=3.0, measured_s=0.1)]
    assert not {round(gap * 10, 9) for gap in before} & {round(gap * 20, 9) for gap in gaps(after)}


def test_a_trace_goes_on_faster_after_a_change_by_hand() -> None:
    phase = one("trace=t speed=2")
    assert list(due_times(phase, recorded_s=[7.0, 8.0, 10.0], first=1, start_s=0.5)) == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("concurrency", [1, 3, 4, 10])
def test_slots_and_requests_of_a_closed_loop_are_shared_alike(concurrency: int, workers: int) -> None:
    phase = PlannedPhase(concurrency=concurrency, requests=40, warmup=3)
    slots = [share(concurrency, worker, workers) for worker in range(workers)]
    ids = [list(closed_ids(phase, worker, workers)) for worker in range(workers)]
    assert sum(slots) == concurrency
    assert sorted(k for own in ids for k in own) == list(range(43))
    for own, held in zip(ids, slots, strict=True):
        assert bool(own) == bool(held)
        assert abs(len(own) - 43 * held / concurrency) < held + 1


def test_a_closed_loop_bounded_by_time_never_runs_out_of_requests() -> None:
    assert list(islice(closed_ids(one("c=4 for=9s"), 1, 2), 3)) == [1, 3, 5]
    assert list(closed_ids(one("c=1 for=9s"), 1, 2)) == []


def test_a_loop_is_asked_for_what_it_has() -> None:
    with pytest.raises(ValueError, match="follow its answers"):
        next(due_times(one("c=4")))
    with pytest.raises(ValueError, match="due times"):
        next(closed_ids(one("rate=4")))


def test_exact_lengths_are_exact() -> None:
    assert {lengths(one("c=1 in=100 out=20"), k) for k in range(99)} == {(100, 20)}


def test_lengths_come_from_the_seed_and_the_request_alone() -> None:
    phase = one("c=1 in=512~2048 out=1~3 seed=1")
    drawn = [lengths(phase, k) for k in range(6000)]
    assert drawn == [lengths(one("rate=3 in=512~2048 out=1~3 seed=1 workers=4"), k) for k in range(6000)]
    assert drawn != [lengths(replace(phase, seed=2), k) for k in range(6000)]
    inputs = [tokens for tokens, _ in drawn if tokens is not None]
    assert (min(inputs), max(inputs)) == pytest.approx((512, 2048), abs=3)
    assert mean(inputs) == pytest.approx(1280, abs=4 * 444 / math.sqrt(6000))
    assert {tokens for _, tokens in drawn} == {1, 2, 3}


def test_prompt_and_answer_lengths_are_independent() -> None:
    phase = PlannedPhase(concurrency=1, input=TokenRange(1, 1000), output=TokenRange(1, 1000))
    pairs = [lengths(phase, k) for k in range(4000)]
    products = [((a or 0) - 500.5) * ((b or 0) - 500.5) for a, b in pairs]
    assert abs(mean(products)) / (1000**2 / 12) < 4 / math.sqrt(4000)


def test_a_file_says_what_the_phase_does_not() -> None:
    assert lengths(one("trace=t"), 5) == (None, None)
    assert lengths(one("c=1 dataset=d out=9"), 5) == (None, 9)


def test_vllms_arrivals_are_those_of_its_own_benchmark() -> None:
    """vLLM, benchmarks/serve.py: np.random.gamma a request, added up, scaled to end at n / rate."""
    (phase,) = phases(["rate=4 n=50 seed=7 arrival=vllm"])
    state = np.random.RandomState(7)
    delays = np.cumsum([state.gamma(shape=1.0, scale=1 / 4.0) for _ in range(50)])
    expected = delays * (50 / 4.0 / delays[-1])
    found = [at_s for _, at_s in due_times(phase)]
    assert found == pytest.approx(list(expected))
    assert found[-1] == pytest.approx(12.5)


@pytest.mark.parametrize("text", ["rate=9 n=50", "rate=9 for=5s warmup=3 arrival=gamma:0.5", "c=5 n=23 warmup=2"])
def test_what_each_worker_was_to_send_is_together_the_whole_schedule(text: str) -> None:
    phase = one(text)
    whole = list(planned(phase, 0, 1))
    for workers in WORKERS:
        each = [list(planned(phase, worker, workers)) for worker in range(workers)]
        assert sorted(pair for part in each for pair in part) == whole
    if phase.concurrency is None:
        assert whole == merged(phase)


def test_what_a_worker_was_to_send_follows_a_rate_that_was_changed_by_hand() -> None:
    phase = one("rate=10 arrival=constant n=40")
    found = list(planned(phase, 0, 1, rates=[(1.0, 20.0), (2.0, 5.0)]))
    assert [k for k, _ in found] == list(range(40))
    dues_s = [round(due_s or 0.0, 6) for _, due_s in found]
    assert dues_s[8:12] == [0.8, 0.9, 1.05, 1.1]  # the first at the new rate comes a gap of it after the change
    assert dues_s[27:31] == [1.9, 1.95, 2.2, 2.4]
    halves = [list(planned(phase, worker, 2, rates=[(1.0, 20.0), (2.0, 5.0)])) for worker in range(2)]
    assert sorted(halves[0] + halves[1]) == found
