"""From a server's /metrics pages to the lines of a recording: what is kept, and what changed since the last page.

Kept are the server's own families and a few beside them, under their own names, with the labels that vtop knows; a
label it does not know is dropped unread (it may hold a key or a name), and series that then coincide are taken
together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import gt, itemgetter, sub

import msgspec

from vtop.metrics.exposition import MAX_EXCERPT_CHARS, Parser, SeriesKey
from vtop.metrics.quantity import Quantity
from vtop.metrics.series_names import SeriesNames
from vtop.recording import HistogramCounts, Scrape

FULL_EVERY_S = 60.0  # a line with every series, so that a reader can start there

MOST_VALUES = 512  # of a label, in the life of a server
OTHER = "other"
_MOST = 2.0**53  # a float counts no further
_BEYOND = 2.0**63  # a number of a page that reaches it is none: no reader of a recording takes it
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class NotMetrics(ValueError):
    """The page is no Prometheus text at all; the message says what it looks like."""


@dataclass(slots=True)
class _Scalar:
    positions: list[int]
    counter: bool
    start: bool  # of the process: another value is a restart
    largest: bool  # series that coincide: the largest, not the sum


@dataclass(slots=True)
class _Buckets:
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
            self.of = lambda page: tuple([_total(page, one) for one in positions])


@dataclass(slots=True)
class _Layout:
    """Where on the page what stands. It holds as long as the page has the same series in the same order."""

    series: tuple[SeriesKey, ...]
    model: str | None
    scalars: dict[str, _Scalar]
    histograms: dict[str, _Buckets]
    # left out, and counted as bad lines: buckets whose bound is no number, series that stand there a second time
    left_out: tuple[SeriesKey, ...] = ()


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


class Folder:
    """Turns the pages of one server into lines: full ones, and between them only what changed.

    names_of: what a server calls its series, by the names on its page; asked when they change.
    """

    def __init__(self, names_of: Callable[[Iterable[str]], SeriesNames]) -> None:
        self._names_of = names_of
        self._parser = Parser()
        self._layout: _Layout | None = None
        self._values: dict[str, float | None] = {}
        self._histograms: dict[str, tuple[Sequence[float], float | None, float]] = {}  # cumulative, sum, count
        self._full_at_s = -math.inf
        self._forgotten = True
        self.values = LabelValues()

    def forget(self) -> None:
        """Make the next line full: what happened meanwhile is not known."""
        self._forgotten = True

    def scrape(self, text: str, *, server: int, at_s: float, took_s: float, bytes: int, health: int | None) -> Scrape:
        """The line for one page. Raises NotMetrics for a page without a single sample."""
        page = self._parser.parse(text)
        if not page.samples:
            seen = f"it begins {page.first_bad!r}" if page.first_bad else "it is empty"
            raise NotMetrics(f"not a metrics page: {seen}")
        series = tuple([sample[0] for sample in page.samples])
        numbers = [sample[1] for sample in page.samples]
        scrape = self.fold(series, numbers, page.types, server=server, at_s=at_s, took_s=took_s)
        left_out = self._layout.left_out if self._layout is not None else ()
        return msgspec.structs.replace(
            scrape,
            bytes=bytes,
            health=health,
            bad_lines=page.bad_lines + len(left_out),
            first_bad=_harmless(page.first_bad) or scrape.first_bad,
        )

    def fold(
        self,
        series: tuple[SeriesKey, ...],
        numbers: Sequence[float],
        types: Mapping[str, str],
        *,
        server: int,
        at_s: float,
        took_s: float,
    ) -> Scrape:
        """The line for a page that is known as series and their numbers; types: of families, as a page tells them."""
        full = self._forgotten or at_s - self._full_at_s >= FULL_EVERY_S
        if self._layout is None or series != self._layout.series:
            names = self._names_of(dict.fromkeys(one.name for one in series))
            model = self._layout.model if self._layout is not None else None
            self._layout = _lay_out(names, series, types, model, self.values)
            full = True
        values, fell = self._changed_values(numbers, self._layout)
        hists, hists_fell = self._changed_histograms(numbers, self._layout)
        if full or fell or hists_fell:
            full = True
            self._full_at_s = at_s
            values = dict(self._values)
            hists = {key: _counts(*counts) for key, counts in self._histograms.items()}
        self._forgotten = False
        return Scrape(
            server=server,
            at_s=at_s,
            took_s=took_s,
            full=full,
            values=values,
            hists=hists,
            le={b.family: tuple(b.le) for b in self._layout.histograms.values()} if full else {},
            model=self._layout.model if full else None,
            bad_lines=len(self._layout.left_out),
            first_bad=self._layout.left_out[0].name if self._layout.left_out else "",
        )

    def _changed_values(self, page: Sequence[float], layout: _Layout) -> tuple[dict[str, float | None], bool]:
        """The scalars that changed, and whether a counter fell (a restart)."""
        before = self._values
        now: dict[str, float | None] = {}
        changed: dict[str, float | None] = {}
        fell = False
        for key, scalar in layout.scalars.items():
            positions = scalar.positions
            if len(positions) == 1:
                number = page[positions[0]]
            else:
                number = (max if scalar.largest else sum)([page[position] for position in positions])
            value = number if -_BEYOND < number < _BEYOND else None
            now[key] = value
            old = before.get(key)
            if value != old:
                changed[key] = value
                fell = fell or (scalar.counter and value is not None and old is not None and value < old)
                fell = fell or (scalar.start and old is not None)
        self._values = now
        return changed, fell

    def _changed_histograms(self, page: Sequence[float], layout: _Layout) -> tuple[dict[str, HistogramCounts], bool]:
        """The histograms that changed, and whether a count fell (a restart)."""
        before = self._histograms
        now: dict[str, tuple[Sequence[float], float | None, float]] = {}
        changed: dict[str, HistogramCounts] = {}
        fell = False
        for key, buckets in layout.histograms.items():
            cumulative = buckets.of(page)
            total = _total(page, buckets.sum_positions) if buckets.sum_positions else math.nan
            count = _total(page, buckets.count_positions) if buckets.count_positions else math.nan
            count = count if 0 <= count <= _MOST else float(_whole(cumulative[-1], 0))
            now[key] = counts = (cumulative, total if -_BEYOND < total < _BEYOND else None, count)
            old = before.get(key)
            if counts != old:
                changed[key] = _counts(*counts)
                fell = fell or (old is not None and count < old[2])
        self._histograms = now
        return changed, fell


def _counts(cumulative: Sequence[float], total: float | None, count: float) -> HistogramCounts:
    return HistogramCounts(sum=total, count=count, n=_per_bucket(cumulative))


def _total(page: Sequence[float], positions: Sequence[int]) -> float:
    if len(positions) == 1:
        return page[positions[0]]
    return sum([page[position] for position in positions])


def _per_bucket(cumulative: Sequence[float]) -> tuple[int, ...]:
    """Counts per bucket. A page is no atomic snapshot: a bucket that would be negative is 0."""
    if cumulative[0] >= 0 and cumulative[-1] <= _MOST and not any(map(gt, cumulative, cumulative[1:])):
        try:
            whole = list(map(int, cumulative))  # the usual case
            return (whole[0], *map(sub, whole[1:], whole))
        except ValueError:  # not a number
            pass
    below, counts = 0, []
    for number in cumulative:
        at_most = _whole(number, below)
        counts.append(max(0, at_most - below))
        below = max(below, at_most)
    return tuple(counts)


def _whole(number: float, otherwise: int) -> int:
    """A count as a whole number that any reader can hold."""
    return int(min(max(number, 0.0), _MOST)) if math.isfinite(number) else otherwise


def _harmless(bad_line: str) -> str:
    """What may be told of a line that could not be read: never what stood, or may have stood, in a label."""
    name, opened, _ = bad_line.partition("{")
    if opened:
        return name + "{…" if _NAME.fullmatch(name) else ""
    whole = len(bad_line) < MAX_EXCERPT_CHARS and not any(mark in bad_line for mark in '"}')
    return bad_line if whole else ""


def _lay_out(
    names: SeriesNames,
    series: tuple[SeriesKey, ...],
    types: Mapping[str, str],
    model: str | None,
    values: LabelValues,
) -> _Layout:
    """`model`: the one left out so far; it stays left out when others come beside it, so that no series is renamed."""
    kept = [(position, one) for position, one in enumerate(series) if names.recorded(one.name)]
    models = {value for _, one in kept for label, value in one.labels if label == "model_name"}
    if model not in models:
        model = next(iter(models)) if len(models) == 1 else None
    bounds = {position: _bound(one) for position, one in kept}
    histogram_names = {name for name, kind in types.items() if kind == "histogram"}
    histogram_names |= {one.name.removesuffix("_bucket") for position, one in kept if bounds[position] is not None}
    layout = _Layout(series, model, {}, {})
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
                _Scalar([], counter, one.name == process_start, names.never_summed(one.name)),
            )
            scalar.positions.append(position)
            continue
        buckets = layout.histograms.setdefault(_key(names, SeriesKey(base, one.labels), model, values), _Buckets(base))
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
                return bound if -_BEYOND < bound < _BEYOND or bound == math.inf else None
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
