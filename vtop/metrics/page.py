"""From a server's /metrics pages to the lines of a recording: what is kept, and what changed since the last page.

Kept are the server's own families and a few beside them, under their own names, with the labels that vtop knows; a
label it does not know is dropped unread (it may hold a key or a name), and series that then coincide are taken
together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import sub

import msgspec

from vtop.metrics.exposition import MAX_EXCERPT_CHARS, Page, Parser, SeriesKey
from vtop.metrics.page_layout import BEYOND, LabelValues, PageBuckets, PageLayout, PageScalar, added_up, lay_out
from vtop.metrics.series_names import SeriesNames
from vtop.recording import HistogramCounts, Scrape

FULL_EVERY_S = 60.0  # a line with every series, so that a reader can start there

_MOST = 2.0**53  # a float counts no further
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class NotMetrics(ValueError):
    """The page is no Prometheus text at all; the message says what it looks like."""


_Cumulative = tuple[Sequence[float], float | None, float]  # cumulative counts, sum, count


class Folder:
    """Turns the pages of one server into lines: full ones, and between them only what changed.

    names_of: what a server calls its series, by the names on its page; asked when they change.
    """

    def __init__(self, names_of: Callable[[Iterable[str]], SeriesNames]) -> None:
        self._names_of = names_of
        self._parser = Parser()
        self._layout: PageLayout | None = None
        self._values: dict[str, float | None] = {}
        self._histograms: dict[str, _Cumulative] = {}
        self._page: Page | None = None  # the latest that was read whole
        self._numbers: list[float] = []  # of its samples, as the latest page has them
        self._full_at_s = -math.inf
        self._forgotten = True
        self.values = LabelValues()

    def forget(self) -> None:
        """Make the next line full: what happened meanwhile is not known."""
        self._forgotten = True

    def scrape(self, text: str, *, server: int, at_s: float, took_s: float, bytes: int, health: int | None) -> Scrape:
        """The line for one page. Raises NotMetrics for a page without a single sample."""
        changes = self._parser.changes(text) if self._page is not None else None
        page = self._page
        if changes is None or page is None:
            self._page = None  # until this one is known to be good
            page = self._parser.parse(text)
            if not page.samples:
                seen = f"it begins {page.first_bad!r}" if page.first_bad else "it is empty"
                raise NotMetrics(f"not a metrics page: {seen}")
            series = tuple([sample[0] for sample in page.samples])
            numbers = [sample[1] for sample in page.samples]
            scrape = self.fold(series, numbers, page.types, server=server, at_s=at_s, took_s=took_s)
            self._page, self._numbers = page, numbers
        else:
            for place, number in changes:
                self._numbers[place] = number
            scrape = self._fold_changes([place for place, _ in changes], page, server, at_s, took_s)
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
        full = self._full_is_due(at_s)
        if self._layout is None or series != self._layout.series:
            names = self._names_of(dict.fromkeys(one.name for one in series))
            model = self._layout.model if self._layout is not None else None
            self._layout = lay_out(names, series, types, model, self.values)
            self._values = {key: self._values[key] for key in self._layout.scalars if key in self._values}
            self._histograms = {
                key: self._histograms[key] for key in self._layout.histograms if key in self._histograms
            }
            full = True
        changed = self._changed(numbers, self._layout.scalars, self._layout.histograms)
        return self._line(self._layout, full, *changed, server=server, at_s=at_s, took_s=took_s)

    def _fold_changes(self, places: Sequence[int], page: Page, server: int, at_s: float, took_s: float) -> Scrape:
        """The same, of a page on which only the numbers at some places are others than before."""
        layout = self._layout
        assert layout is not None
        keys = dict.fromkeys([layout.owners[place] for place in places if place in layout.owners])
        scalars = {key: layout.scalars[key] for key in keys if key in layout.scalars}
        histograms = {key: layout.histograms[key] for key in keys if key in layout.histograms}
        changed = self._changed(self._numbers, scalars, histograms)
        return self._line(layout, self._full_is_due(at_s), *changed, server=server, at_s=at_s, took_s=took_s)

    def _full_is_due(self, at_s: float) -> bool:
        return self._forgotten or at_s - self._full_at_s >= FULL_EVERY_S

    def _line(
        self,
        layout: PageLayout,
        full: bool,
        values: dict[str, float | None],
        hists: dict[str, HistogramCounts],
        fell: bool,
        *,
        server: int,
        at_s: float,
        took_s: float,
    ) -> Scrape:
        if full or fell:
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
            le={b.family: tuple(b.le) for b in layout.histograms.values()} if full else {},
            model=layout.model if full else None,
            bad_lines=len(layout.left_out),
            first_bad=layout.left_out[0].name if layout.left_out else "",
        )

    def _changed(
        self, page: Sequence[float], scalars: Mapping[str, PageScalar], histograms: Mapping[str, PageBuckets]
    ) -> tuple[dict[str, float | None], dict[str, HistogramCounts], bool]:
        """Those that changed, and whether a counter or a count fell (a restart)."""
        values, fell = self._changed_values(page, scalars)
        hists, hists_fell = self._changed_histograms(page, histograms)
        return values, hists, fell or hists_fell

    def _changed_values(
        self, page: Sequence[float], scalars: Mapping[str, PageScalar]
    ) -> tuple[dict[str, float | None], bool]:
        known = self._values
        changed: dict[str, float | None] = {}
        fell = False
        for key, scalar in scalars.items():
            positions = scalar.positions
            if len(positions) == 1:
                number = page[positions[0]]
            else:
                number = (max if scalar.largest else sum)([page[position] for position in positions])
            value = number if -BEYOND < number < BEYOND else None
            old = known.get(key)
            if value != old:
                changed[key] = value
                fell = fell or (scalar.counter and value is not None and old is not None and value < old)
                fell = fell or (scalar.start and old is not None)
            known[key] = value
        return changed, fell

    def _changed_histograms(
        self, page: Sequence[float], histograms: Mapping[str, PageBuckets]
    ) -> tuple[dict[str, HistogramCounts], bool]:
        known = self._histograms
        changed: dict[str, HistogramCounts] = {}
        fell = False
        for key, buckets in histograms.items():
            cumulative = buckets.of(page)
            total = added_up(page, buckets.sum_positions) if buckets.sum_positions else math.nan
            count = added_up(page, buckets.count_positions) if buckets.count_positions else math.nan
            count = count if 0 <= count <= _MOST else float(_whole(cumulative[-1], 0))
            counts = (cumulative, total if -BEYOND < total < BEYOND else None, count)
            old = known.get(key)
            if counts != old:
                changed[key] = _counts(*counts)
                fell = fell or (old is not None and count < old[2])
            known[key] = counts
        return changed, fell


def _counts(cumulative: Sequence[float], total: float | None, count: float) -> HistogramCounts:
    return HistogramCounts(sum=total, count=count, n=_per_bucket(cumulative))


def _per_bucket(cumulative: Sequence[float]) -> tuple[int, ...]:
    """Counts per bucket. A page is no atomic snapshot: a bucket that would be negative is 0."""
    if cumulative[0] >= 0 and cumulative[-1] <= _MOST:
        try:
            whole = list(map(int, cumulative))
            usual = (whole[0], *map(sub, whole[1:], whole))
            if min(usual) >= 0:
                return usual
        except (ValueError, OverflowError):  # not a number, or infinite
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
