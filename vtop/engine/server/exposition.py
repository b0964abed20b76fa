"""Counters, gauges and histograms, and the Prometheus text that they make, as prometheus_client writes it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

Labels = Mapping[str, str]
INF: Final = float("inf")


def number(value: float) -> str:
    """As prometheus_client's floatToGoString: 12.0, 1.795955e+09, +Inf, NaN."""
    if value == INF:
        return "+Inf"
    if math.isnan(value):
        return "NaN"
    text = repr(float(value))
    point = text.find(".")
    if value > 0 and point > 6 and "e" not in text:
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text


def series(name: str, labels: Labels) -> str:
    """The text before a sample's number, labels in the order of the alphabet."""
    if not labels:
        return name
    told = ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))
    return f"{name}{{{told}}}"


def head(name: str, kind: str, help: str) -> str:
    return f"# HELP {name} {help}\n# TYPE {name} {kind}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Value:
    """One number of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, more: float) -> None:
        self.value += more


class Buckets:
    """One histogram: counts per bucket, not cumulative, +Inf last."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)


class Family:
    """All series of one name. Rows appear when they are first asked for, in that order, and stay.

    created_s: the Unix time at which a row was first there, which the text tells of each but a gauge's; None: not told.
    bounds: of a histogram's finite buckets; () for the other kinds.
    """

    def __init__(self, name: str, kind: str, help: str, bounds: Sequence[float] = ()) -> None:
        self.name = name
        self.kind = kind
        self.bounds = tuple(float(bound) for bound in bounds)
        self._head = head(name, kind, help)
        self._created = name.removesuffix("_total") if kind == "counter" else name
        self._created_head = head(f"{self._created}_created", "gauge", help)
        self._values: dict[tuple[tuple[str, str], ...], Value] = {}
        self._buckets: dict[tuple[tuple[str, str], ...], Buckets] = {}
        self._texts: dict[tuple[tuple[str, str], ...], list[str]] = {}
        self._created_s: dict[tuple[tuple[str, str], ...], float] = {}

    def row(self, labels: Labels, created_s: float = 0.0) -> Value:
        key = tuple(labels.items())
        if key not in self._values:
            self._values[key] = Value()
            self._texts[key] = [series(self.name, labels)]
            self._created_s[key] = created_s
        return self._values[key]

    def histogram(self, labels: Labels, created_s: float = 0.0) -> Buckets:
        """The row of a histogram, or of a summary, which is one without buckets."""
        key = tuple(labels.items())
        if key not in self._buckets:
            self._buckets[key] = Buckets(self.bounds)
            shown = (*self.bounds, INF) if self.kind == "histogram" else ()
            texts = [series(f"{self.name}_bucket", {**labels, "le": number(bound)}) for bound in shown]
            self._texts[key] = [*texts, series(f"{self.name}_count", labels), series(f"{self.name}_sum", labels)]
            self._created_s[key] = created_s
        return self._buckets[key]

    def lines(self, *, nan: bool = False) -> Iterator[str]:
        """nan: gauges and sums are not a number, as of a server whose arithmetic broke."""
        yield self._head
        for key, value in self._values.items():
            broken = nan and self.kind == "gauge"
            yield f"{self._texts[key][0]} {'NaN' if broken else number(value.value)}"
        for key, buckets in self._buckets.items():
            numbers = _cumulative(buckets.counts) if self.kind == "histogram" else []
            numbers += [float(buckets.count), math.nan if nan else buckets.sum]
            for text, value_of in zip(self._texts[key], numbers, strict=True):
                yield f"{text} {number(value_of)}"
        if self.kind != "gauge" and self._created_s:
            yield self._created_head
            for key, created_s in self._created_s.items():
                yield f"{series(f'{self._created}_created', dict(key))} {number(created_s)}"


def _cumulative(counts: Iterable[int]) -> list[float]:
    total, found = 0, []
    for count in counts:
        total += count
        found.append(float(total))
    return found
