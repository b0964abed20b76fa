"""When the requests of a phase are due, whose they are and how long: all known before the run, from its seed alone.

Request k of a phase is the same for any number of workers: each worker walks the one schedule and takes its own
requests from it. Instants are never moved, whatever the server does; the sender records how late it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from random import Random

from vtop.load.workload.phase import PlannedPhase, TokenRange


def due_times(
    phase: PlannedPhase,
    worker: int = 0,
    workers: int = 1,
    *,
    recorded_s: Sequence[float] = (),
    first: int = 0,
    start_s: float = 0.0,
    measured_s: float = 0.0,
) -> Iterator[tuple[int, float]]:
    """(k, seconds from the phase's start) of a worker's requests in an open loop, in order, made one by one.

    recorded_s: the instants of a trace, ascending. `first` and `start_s` go on with another rate after a change by
    hand: request `first` comes after start_s; measured_s is when the warm-up was over, if it was.
    """
    if phase.concurrency is not None:
        raise ValueError("the arrivals of a closed loop follow its answers")
    # each worker makes the whole schedule and takes every n-th: workers with a random stream of the same seed each
    # would send the same gaps n times over, and streams of their own would not add up to constant or gamma arrivals
    scheduled = _until_the_end(phase, _instants(phase, recorded_s, first, start_s), first, measured_s)
    return ((k, at_s) for k, at_s in scheduled if k % workers == worker)


def planned(
    phase: PlannedPhase,
    worker: int,
    workers: int,
    *,
    rates: Sequence[tuple[float, float]] = (),
    recorded_s: Sequence[float] = (),
) -> Iterator[tuple[int, float | None]]:
    """(k, seconds from the phase's start) of all that a worker was to send, in order; None in a closed loop.

    rates: (seconds from the phase's start, requests/s from then on), as changed by hand, in order.
    """
    if phase.concurrency is not None:
        yield from ((k, None) for k in closed_ids(phase, worker, workers))
        return
    first, start_s, measured_s = 0, 0.0, 0.0
    changes = list(rates)
    while True:
        schedule = due_times(phase, recorded_s=recorded_s, first=first, start_s=start_s, measured_s=measured_s)
        for k, due_s in schedule:
            if changes and changes[0][0] <= due_s:  # this request is the first at the new rate, at another instant
                first, (start_s, rate) = k, changes.pop(0)
                phase = replace(phase, rate_per_s=rate)
                break
            if k == phase.warmup - 1:
                measured_s = due_s
            if k % workers == worker:
                yield k, due_s
        else:
            return


def closed_ids(phase: PlannedPhase, worker: int = 0, workers: int = 1) -> Iterator[int]:
    """The requests of a worker in a closed loop, in order; without end where only the time is bounded.

    They are shared like the slots, so that the workers end together when the slots do not divide evenly.
    """
    slots = phase.concurrency
    if slots is None:
        raise ValueError("an open loop has due times")
    if not share(slots, worker, workers):
        return iter(())
    ids: Iterable[int] = count() if phase.total is None else range(phase.total)
    return (k for k in ids if k % slots % workers == worker)


def share(concurrency: int, worker: int, workers: int) -> int:
    """The slots of a worker; all workers' add up to the concurrency."""
    return concurrency // workers + (worker < concurrency % workers)


def lengths(phase: PlannedPhase, k: int) -> tuple[int | None, int | None]:
    """Prompt and output tokens of request k; None where a file says it."""
    if phase.input is None and phase.output is None:
        return None, None
    digest = blake2b(f"{phase.seed} lengths {k}".encode(), digest_size=16).digest()
    return _within(phase.input, digest[:8]), _within(phase.output, digest[8:])


def _within(tokens: TokenRange | None, digest: bytes) -> int | None:
    if tokens is None:
        return None
    return tokens.low + (int.from_bytes(digest, "big") * (tokens.high - tokens.low + 1) >> 64)


def _instants(phase: PlannedPhase, recorded_s: Sequence[float], first: int, start_s: float) -> Iterator[float]:
    rate = phase.rate_per_s
    if phase.arrival == "trace":
        before = max(first - 1, 0)  # the first instant of a trace may be any number
        return (start_s + (at_s - recorded_s[before]) / phase.speed for at_s in recorded_s[first:])
    assert rate is not None
    if phase.arrival == "constant":
        # the first one at once; after a change one gap later, or it would meet the last of the old rate
        return (start_s + (step + (first > 0)) / rate for step in count())
    if phase.arrival == "vllm":
        return iter(_normalised(phase, rate, first, start_s))
    random = Random(f"{phase.seed} arrivals {first}")
    if phase.arrival == "poisson":
        return _summed(start_s, lambda: random.expovariate(rate))
    shape = float((phase.arrival or "").removeprefix("gamma:"))
    return _summed(start_s, lambda: random.gammavariate(shape, 1 / (shape * rate)))


def _normalised(phase: PlannedPhase, rate: float, first: int, start_s: float) -> list[float]:
    """The instants of `vllm bench serve --seed S`, to be held against its results: gaps of numpy's legacy generator,
    scaled so that the last request comes at n / rate. Source: vLLM, benchmarks/serve.py, get_request."""
    import numpy as np

    assert phase.total is not None  # as the words were read
    many = phase.total - first
    gaps = np.random.RandomState(phase.seed).gamma(shape=1.0, scale=1 / rate, size=many)
    instants = np.cumsum(gaps)
    scale = many / rate / float(instants[-1]) if many else 1.0
    return [start_s + float(at_s) * scale for at_s in instants]


def _summed(start_s: float, gap: Callable[[], float]) -> Iterator[float]:
    # independent gaps, added up and nothing more: scaling them so that the last one lands on n / rate halves the
    # variance and flatters the queue
    at_s = start_s
    while True:
        at_s += gap()
        yield at_s


def _until_the_end(
    phase: PlannedPhase, instants: Iterator[float], first: int, measured_s: float
) -> Iterator[tuple[int, float]]:
    """The measured time begins with the last request of the warm-up, or with the phase."""
    from_s = measured_s if first >= phase.warmup else None
    for k, at_s in enumerate(instants, first):
        if phase.total is not None and k >= phase.total:
            return
        if at_s >= phase.limit_s:
            return
        if from_s is not None and phase.for_s is not None and at_s >= from_s + phase.for_s:
            return
        yield k, at_s
        if k == phase.warmup - 1:
            from_s = at_s
