"""From the samples of one server to its pages: all that carries one time was scraped at once.

A sample whose time is no scrape's is a recording rule's, or another writer's, and is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from vtop.metrics.exposition import SeriesKey
from vtop.metrics.quantity import Quantity, SeriesKind
from vtop.sources.prometheus.api import SharedTimes, StoredSeries
from vtop.sources.prometheus.who import LabelSet, own_labels

UP: Final = "up"
TOOK: Final = "scrape_duration_seconds"
_SHARE: Final = 0.25  # of the series, without `up`: so many at one time are a page
_WITH_BUCKETS: Final = frozenset({Quantity.TTFT, Quantity.ITL, Quantity.TPOT, Quantity.E2E, Quantity.QUEUE})
_SUFFIXES: Final = ("_bucket", "_sum", "_count")
_TYPES: Final = {SeriesKind.COUNTER: "counter", SeriesKind.HISTOGRAM: "histogram"}


@dataclass(frozen=True, slots=True)
class Scraped:
    """One scrape: without series where it failed. unix_s: when it began; took_s None where that is not stored."""

    unix_s: float
    took_s: float | None
    series: tuple[SeriesKey, ...] = ()
    numbers: Sequence[float] = ()


@dataclass(slots=True)
class _Column:
    key: SeriesKey
    times: list[float]
    values: list[float]


@dataclass(slots=True)
class PageReader:
    """Makes the pages of one label set, piece after piece; remembers what its series are called."""

    label_set: LabelSet
    core: bool = False
    rules: set[str] = field(default_factory=set)  # series with times of their own, left out
    native: set[str] = field(default_factory=set)  # histograms that cannot be read
    _keys: dict[tuple[tuple[str, str], ...], SeriesKey | None] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    _times_read: SharedTimes = field(default_factory=SharedTimes)

    @property
    def selector(self) -> str:
        return self.label_set.selector(names_of(self.label_set, core=self.core))

    def pages(self, piece: Sequence[StoredSeries], after_s: float) -> Iterator[Scraped]:
        """The scrapes of a piece that are later than after_s, in order of time."""
        up, took = _by_time(piece, UP), _by_time(piece, TOOK)
        columns = [one for series in piece if (one := self._column(series, after_s)) is not None]
        columns.sort(key=lambda one: one.key)
        times = [at for at in self._times(columns, up) if at > after_s]
        present = [at for at in times if up.get(at, 1.0) != 0.0]
        rows = iter(self._rows(columns, present))
        for at in times:
            if up.get(at, 1.0) == 0.0:
                yield Scraped(at, took.get(at))
            else:
                series, numbers = next(rows)
                if series:
                    yield Scraped(at, took.get(at), series, numbers)

    def _times(self, columns: Sequence[_Column], up: dict[float, float]) -> list[float]:
        """When it was scraped."""
        if up:
            return sorted(up)
        counts: dict[float, int] = {}
        for column in columns:
            for at in column.times:
                counts[at] = counts.get(at, 0) + 1
        enough = max(counts.values(), default=0) * _SHARE
        return sorted(at for at, count in counts.items() if count >= enough)

    def _rows(
        self, columns: Sequence[_Column], times: list[float]
    ) -> Iterator[tuple[tuple[SeriesKey, ...], Sequence[float]]]:
        """The series at each time, and their numbers."""
        wanted = set(times)
        whole: list[_Column] = []
        partial: list[tuple[int, dict[float, float]]] = []
        kept: list[_Column] = []
        for column in columns:
            if column.times != times:
                at = dict(zip(column.times, column.values, strict=True))
                if wanted.isdisjoint(at):
                    if times:
                        self.rules.add(column.key.name)
                    continue
                partial.append((len(kept), at))
            else:
                whole.append(column)
            kept.append(column)
        keys = tuple(column.key for column in kept)
        if not partial:
            for row in zip(*(column.values for column in whole), strict=True):
                yield keys, row
            return
        gaps = dict(partial)
        for place, time in enumerate(times):
            found = [
                gaps[number].get(time) if number in gaps else column.values[place] for number, column in enumerate(kept)
            ]
            there = [(key, value) for key, value in zip(keys, found, strict=True) if value is not None]
            yield tuple([key for key, _ in there]), [value for _, value in there]

    def _column(self, series: StoredSeries, after_s: float) -> _Column | None:
        name = series.metric["__name__"]
        if series.is_native:
            self.native.add(name)
            return None
        if name in (UP, TOOK):
            return None
        labels = tuple(series.metric.items())
        if labels not in self._keys:
            self._keys[labels] = self._key(series.metric)
        key = self._keys[labels]
        if key is None:
            return None
        times, values = series.columns(self._times_read)
        if times and times[0] <= after_s:
            first = bisect_right(times, after_s)
            times, values = times[first:], values[first:]
        return _Column(key, times, values) if times else None

    def _key(self, metric: dict[str, str]) -> SeriesKey | None:
        """What the server's own page calls it; None for what is not recorded."""
        names = self.label_set.kind.series
        name, prefix = metric["__name__"], self.label_set.prefix
        if prefix not in names.prefixes and name.startswith(prefix):
            name = names.prefixes[0] + name.removeprefix(prefix)
        if not names.recorded(name):
            return None
        self.types |= self._type_of(name)
        where, own = dict(self.label_set.labels), own_labels(self.label_set.kind, metric)
        kept = [
            (own.get(label, label), value)
            for label, value in metric.items()
            if label != "__name__" and (label in own or label not in where)
        ]
        return SeriesKey(name, tuple(kept))

    def _type_of(self, name: str) -> dict[str, str]:
        names = self.label_set.kind.series
        kind = names.kind_of(name)
        if kind is SeriesKind.HISTOGRAM:
            for suffix in _SUFFIXES:
                name = name.removesuffix(suffix)
        elif kind is None and name.endswith("_total"):
            kind = SeriesKind.COUNTER
        return {name: _TYPES[kind]} if kind in _TYPES else {}


def names_of(label_set: LabelSet, *, core: bool) -> str:
    """A regular expression of the names to ask for: all that is recorded of a page, or only what vtop reads of it, with
    buckets of the five latencies alone. With `up`, where that has the same labels."""
    names = label_set.kind.series
    foreign = [f"{name}(_total|_bucket|_sum|_count)?" for name in names.foreign]
    about = [UP, TOOK] if label_set.with_up else []
    if not core:
        return "|".join([_escaped(label_set.prefix) + ".+", *foreign, *about])
    found = []
    for family, meaning in names.families.items():
        suffix = ""
        if meaning.kind is SeriesKind.HISTOGRAM:
            suffix = "(_total)?_(sum|count|bucket)" if meaning.quantity in _WITH_BUCKETS else "(_total)?_(sum|count)"
        elif meaning.kind is SeriesKind.COUNTER:
            suffix = "_total"
        found.append(f"{family}{suffix}")
    process = [name for name in foreign if "http" not in name]
    return "|".join([f"{_escaped(label_set.prefix)}({'|'.join(found)})", *process, *about])


def _escaped(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_:" else f"\\{c}" for c in text)


def _by_time(piece: Sequence[StoredSeries], name: str) -> dict[float, float]:
    own = [series.columns() for series in piece if series.metric["__name__"] == name]
    return {at: value for times, values in own for at, value in zip(times, values, strict=True)}
