"""The metrics that vtop serves: the name of each, what it says, and the field of a frame that it is read from.

Names follow Prometheus' rules: base units, a unit as the suffix, `_total` for what only grows. Nothing is computed
here. A number that is not known gives no sample; a server whose data are old gives those of ABOUT_READING alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from vtop.session.frame.frame import Frame
from vtop.session.frame.vocabulary import VERDICT_LIMITS, QueueTrend
from vtop.session.rolling import SinceAttached

PREFIX: Final = "vtop_"
Labelled = tuple[tuple[str, ...], float | None]  # the values of a metric's own labels, and the number


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """One server at an instant: a frame of it alone, over WINDOW_S, and its counts since vtop attached."""

    frame: Frame
    counts: SinceAttached


@dataclass(frozen=True, slots=True)
class Metric:
    name: str  # without vtop_ in front; of a counter without _total
    kind: Literal["gauge", "counter"]
    help: str
    read: Callable[[ServerMetrics], Iterable[Labelled]]
    labels: tuple[str, ...] = ()  # beside server


def _one(read: Callable[[Frame], float | None]) -> Callable[[ServerMetrics], Iterable[Labelled]]:
    return lambda of: [((), read(of.frame))]


def _parts(read: Mapping[str, Callable[[Frame], float | None]]) -> Callable[[ServerMetrics], Iterable[Labelled]]:
    return lambda of: [((part,), one(of.frame)) for part, one in read.items()]


def _count(read: Callable[[SinceAttached], float | None]) -> Callable[[ServerMetrics], Iterable[Labelled]]:
    return lambda of: [((), read(of.counts))]


def _state(words: Sequence[str], read: Callable[[Frame], str | None]) -> Callable[[ServerMetrics], Iterable[Labelled]]:
    """1 for the word that holds and 0 for each other; nothing where none is known."""

    def states(of: ServerMetrics) -> Iterator[Labelled]:
        holds = read(of.frame)
        if holds is not None:
            yield from (((word,), float(word == holds)) for word in words)

    return states


def _server_labels(of: ServerMetrics) -> Iterable[Labelled]:
    (server,) = of.frame.servers
    yield (", ".join(server.models), server.version or "", server.kind, server.side or ""), 1.0


def _last_scrape(frame: Frame) -> float | None:
    (server,) = frame.servers
    return None if server.age_s is None else frame.unix_s - server.age_s


def _prices(of: ServerMetrics) -> Iterable[Labelled]:
    if of.frame.prices is not None:
        for price in of.frame.prices.prices:
            for bound in ("ratio", "low", "high"):
                yield (price.limit, "mean" if bound == "ratio" else bound), getattr(price.output, bound)


ABOUT_READING: Final = (
    Metric("up", "gauge", "1 where the latest scrape of the server is fresh and the server healthy, else 0.",
           _one(lambda frame: float(frame.status.fresh))),
    Metric("server_info", "gauge", "Who the server is: always 1.", _server_labels,
           ("model_name", "version", "kind", "side")),
    Metric("last_scrape_timestamp_seconds", "gauge", "Unix time of vtop's latest scrape of the server.",
           _one(_last_scrape)),
    Metric("verdict", "gauge", "1 for the limit that binds now, 0 for each other.",
           _state(VERDICT_LIMITS, lambda frame: frame.verdict.limit), ("limit",)),
)  # fmt: skip
OF_FRESH: Final = (
    Metric("window_seconds", "gauge", "Span that the means below are over, up to the latest scrape.",
           _one(lambda frame: frame.window_s)),
    Metric("ttft_part_seconds", "gauge", "Mean part of TTFT of the requests that finished in the window.",
           _parts({"queue": lambda frame: frame.ttft.queue_s, "prefill": lambda frame: frame.ttft.prefill_s,
                   "other": lambda frame: frame.ttft.frontend_s}), ("part",)),
    Metric("ttft_part_requests", "gauge", "Requests that finished in the window: those that the parts are means of.",
           _one(lambda frame: frame.ttft.finished)),
    Metric("queue_now_seconds", "gauge", "Wait of a request that comes now, by Little's law.",
           _one(lambda frame: frame.ttft.queue_now_s)),
    Metric("queue_trend", "gauge", "1 for what waiting requests do (Mann-Kendall), 0 for each other.",
           _state(get_args(QueueTrend), lambda frame: frame.queueing.trend), ("trend",)),
    Metric("preemptions", "counter", "Preemptions since vtop attached, restarts of the server included.",
           _count(lambda counts: counts.preemptions)),
    Metric("recomputed_tokens", "counter", "Tokens run through the model again after preemptions.",
           _count(lambda counts: counts.recomputed_tokens)),
    Metric("recompute_time_ratio", "gauge", "Share of the window's busy time that recomputing took.",
           _one(lambda frame: frame.recompute.time_ratio)),
    Metric("engine_time_seconds", "gauge", "Where the window's time went.",
           _parts({"decode": lambda frame: frame.wallclock.decode_s, "prefill": lambda frame: frame.wallclock.prefill_s,
                   "recompute": lambda frame: frame.wallclock.recompute_s,
                   "idle": lambda frame: frame.wallclock.idle_s}), ("activity",)),
    Metric("kv_room_tokens", "gauge", "Tokens that the KV pool still has room for.",
           _one(lambda frame: frame.kv.room_tokens)),
    Metric("kv_full_in_seconds", "gauge", "Until the KV pool is full, at the rate it fills since it last fell.",
           _one(lambda frame: frame.account.full_in_s)),
    Metric("kv_oversubscription_ratio", "gauge", "KV that the requests in flight ask for at their end / the pool.",
           _one(lambda frame: frame.account.oversubscription)),
    Metric("limit_price_output_ratio", "gauge",
           "Change of output tokens/s by a tenth more of a limit, simulated; bounds of its 90 % interval.",
           _prices, ("limit", "bound")),
    Metric("outages", "counter", "Stretches without an answer since vtop attached.",
           _count(lambda counts: counts.outages)),
    Metric("restarts", "counter", "Restarts of the server that vtop saw.", _count(lambda counts: counts.restarts)),
)  # fmt: skip
METRICS: Final = (*ABOUT_READING, *OF_FRESH)


def samples(of: ServerMetrics) -> Iterator[tuple[Metric, tuple[str, ...], float]]:
    """All that is known of a server: metric, values of its own labels, number."""
    for metric in METRICS if of.frame.status.fresh else ABOUT_READING:
        for labels, value in metric.read(of):
            if value is not None:
                yield metric, labels, value
