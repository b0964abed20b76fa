"""Where on a server's /metrics page what stands: which positions are which number, bucket by bucket.

A label that vtop does not know is dropped unread, and series that then coincide are taken together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from vtop.metrics.exposition import SeriesKey
from vtop.metrics.quantity import Quantity
from vtop.metrics.series_names import SeriesNames

MOST_VALUES = 512  # of a label, in the life of a server
OTHER = "other"
BEYOND = 2.0**63  # a number of a page that reaches it is none: no reader of a recording takes it
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(slots=True)
class PageScalar:
    positions: list[int]
    counter: bool
    start: bool  # of the process: another value is a restart
    largest: bool  # series that coincide: the largest, not the sum


@dataclass(slots=True)
class PageBuckets:
    family: str
    bounds: dict[float, list[int]] = field(default_factory=dict)  # positions by upper bound, as they come
    le: list[float] = field(default_factory=list)  # finite, ascending
    positions: list[list[int]] = field(default_factory=list)  # per bound, +Inf last
    sum_positions: list[int] = field(default_factory=list)
    count_positions: list[int] = field(default_factory=list)
    of: Callable[[Sequence[float]], Sequence[float]] = tuple  # the cumulative counts on a page

    def lay_out(self) -> None:
        """Once all of its positions are known."""
        bounds = sorted(self.bounds)
        self.le = bounds[:-1]
        self.positions = positions = [self.bounds[bound] for bound in bounds]
        if all(len(one) == 1 for one in positions) and len(positions) > 1:
            self.of = itemgetter(*[one[0] for one in positions])
        else:
            self.of = lambda page: tuple([added_up(page, one) for one in positions])


@dataclass(slots=True)
class PageLayout:
    """Where on the page what stands. It holds as long as the page has the same series in the same order."""

    series: tuple[SeriesKey, ...]
    model: str | None
    scalars: dict[str, PageScalar]
    histograms: dict[str, PageBuckets]
    # left out, and counted as bad lines: buckets whose bound is no number, series that stand there a second time
    left_out: tuple[SeriesKey, ...] = ()
    owners: dict[int, str] = field(default_factory=dict)  # by position: whose number it is part of

    def own(self) -> None:
        """Once all of its positions are known."""
        self.owners = {at: key for key, scalar in self.scalars.items() for at in scalar.positions}
        for key, buckets in self.histograms.items():
            for positions in (*buckets.positions, buckets.sum_positions, buckets.count_positions):
                self.owners.update(dict.fromkeys(positions, key))


class LabelValues:
    """The values of labels seen so far, of each label the first MOST_VALUES: the others are taken together as OTHER.

    A server that makes a value of each request or user would fill memory and recording with series.
    """

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}
        self.full: set[str] = set()  # labels that have more

    def told(self, label: str, value: str) -> str:
        """The value that is recorded."""
        known = self._known.setdefault(label, set())
        if value in known:
            return value
        if label == "le" or len(known) < MOST_VALUES:
            known.add(value)
            return value
        self.full.add(label)
        return OTHER


def added_up(page: Sequence[float], positions: Sequence[int]) -> float:
    if len(positions) == 1:
        return page[positions[0]]
    return sum([page[position] for position in positions])


def lay_out(
    names: SeriesNames,
    series: tuple[SeriesKey, ...],
    types: Mapping[str, str],
    model: str | None,
    values: LabelValues,
) -> PageLayout:
    """`model`: the one left out so far; it stays left out when others come beside it, so that no series is renamed."""
    kept = [(position, one) for position, one in enumerate(series) if names.recorded(one.name)]
    models = {value for _, one in kept for label, value in one.labels if label == "model_name"}
    if model not in models:
        model = next(iter(models)) if len(models) == 1 else None
    bounds = {position: _bound(one) for position, one in kept}
    histogram_names = {name for name, kind in types.items() if kind == "histogram"}
    histogram_names |= {one.name.removesuffix("_bucket") for position, one in kept if bounds[position] is not None}
    layout = PageLayout(series, model, {}, {})
    process_start = names.exported_as(Quantity.PROCESS_START)
    left_out: list[SeriesKey] = []
    seen: set[SeriesKey] = set()
    for position, one in kept:
        if one in seen:
            left_out.append(one)
            continue
        seen.add(one)
        base, suffix = _histogram_sample(one.name, histogram_names)
        if base is None:
            counter = types.get(one.name, types.get(one.name.removesuffix("_total"))) == "counter"
            scalar = layout.scalars.setdefault(
                _key(names, one, model, values),
                PageScalar([], counter, one.name == process_start, names.never_summed(one.name)),
            )
            scalar.positions.append(position)
            continue
        buckets = layout.histograms.setdefault(
            _key(names, SeriesKey(base, one.labels), model, values), PageBuckets(base)
        )
        if suffix == "_sum":
            buckets.sum_positions.append(position)
        elif suffix == "_count":
            buckets.count_positions.append(position)
        else:
            bound = bounds[position]
            if bound is None:
                left_out.append(one)
            else:
                buckets.bounds.setdefault(bound, []).append(position)
    layout.left_out = tuple(left_out)
    for buckets in layout.histograms.values():
        if buckets.count_positions:  # the bucket of all may have been dropped on the way
            buckets.bounds.setdefault(math.inf, buckets.count_positions)
    layout.histograms = {key: b for key, b in layout.histograms.items() if math.inf in b.bounds}
    for buckets in layout.histograms.values():
        buckets.lay_out()
    layout.own()
    return layout


def _bound(series: SeriesKey) -> float | None:
    """The upper bound of a bucket; None where it is no bucket or its bound no number."""
    if series.name.endswith("_bucket"):
        for label, value in series.labels:
            if label == "le":
                try:
                    bound = math.nan if "_" in value else float(value)  # Python's 1_000 is no number there
                except ValueError:
                    return None
                return bound if -BEYOND < bound < BEYOND or bound == math.inf else None
    return None


def _histogram_sample(name: str, histogram_names: set[str]) -> tuple[str | None, str]:
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and base in histogram_names:
            return base, suffix
    return None, ""


def _key(names: SeriesNames, series: SeriesKey, model: str | None, values: LabelValues) -> str:
    name = series.name
    kept = [
        f'{label}="{values.told(label, value).translate(_ESCAPES)}"'
        for label, value in series.labels
        if names.keeps_label(label) and not (label == "model_name" and value == model)
    ]
    return f"{name}{{{','.join(kept)}}}" if kept else name
