"""What a Prometheus stored of its servers, read as the events of a session, in order of time.

Servers are read side by side in pieces of about as many samples, so that neither side ever holds much; the next piece
is asked for while the one before is taken apart.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from vtop.metrics.page import Folder
from vtop.recording import GAP_INTERVALS, Event, Identity, Note, Outage
from vtop.sources.prometheus.api import PrometheusApi, StoredSeries
from vtop.sources.prometheus.dcgm import GpuReader
from vtop.sources.prometheus.pages import TOOK, UP, PageReader, Scraped
from vtop.sources.prometheus.who import FoundTarget

SAMPLE_BYTES = 25
SAMPLES_AT_ONCE = 640_000  # of all servers together
SAMPLES_A_PIECE = (8_000, 120_000)  # of one server: the fewest and the most
_SERIES = 500  # of a server, until the first piece has told
GPU_PIECE_S = 600.0
_AT_ONCE = 2  # questions
NOT_STORED = "read from Prometheus, which does not store version, flags and max_model_len"


class ScrapeFolder:
    """Turns the scrapes of one server, whoever scraped it, into events."""

    def __init__(
        self, index: int, server: FoundTarget, unix_s: float, shape: Mapping[str, int | str] | None = None
    ) -> None:
        """unix_s: of the session's second 0, on Prometheus' clock."""
        self.last_s = -math.inf  # Unix time of the latest scrape
        self._index = index
        self._server = server
        self._unix_s = unix_s
        self._shape = dict(shape) if shape is not None else None
        kind = server.copies[0].kind
        self._folder = Folder(lambda _: kind.series)
        self._told = False

    def events(self, scraped: Scraped, types: Mapping[str, str]) -> Iterator[Event]:
        """What a scrape brings; t is when it was over."""
        if scraped.unix_s <= self.last_s:
            return
        gap_s = scraped.unix_s - self.last_s
        self.last_s = scraped.unix_s
        at_s = round(scraped.unix_s - self._unix_s, 3)
        took_s = scraped.took_s or 0.0
        t = round(at_s + took_s, 6)
        if not self._told:
            self._told = True
            yield msgspec.structs.replace(self._identity(), t=t)
        if not scraped.series:
            self._folder.forget()
            detail = "Prometheus could not scrape it (up was 0); why is not stored"
            yield Outage(t=t, server=self._index, at_s=at_s, took_s=took_s, reason="scrape_failed", detail=detail)
            return
        if self._server.interval_s is None or gap_s > GAP_INTERVALS * self._server.interval_s:
            self._folder.forget()
        scrape = self._folder.fold(scraped.series, scraped.numbers, types, server=self._index, at_s=at_s, took_s=took_s)
        yield msgspec.structs.replace(scrape, t=t)

    def _identity(self) -> Identity:
        first = self._server.copies[0]
        return Identity(
            server=self._index, kind=first.kind.name, models=first.models, shape=self._shape, note=NOT_STORED
        )


@dataclass(frozen=True, slots=True)
class ServerCopies:
    """A reader for each copy of a server, the preferred one first."""

    readers: tuple[PageReader, ...]
    interval_s: float


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of one copy up to end_s (Unix time)."""

    end_s: float
    reader: PageReader
    series: Sequence[StoredSeries]

    @property
    def times(self) -> list[float]:
        """Of its good scrapes: those of its longest series. Failed ones have an `up` alone."""
        own = [one for one in self.series if one.metric["__name__"] not in (UP, TOOK)]
        return max(own, key=lambda one: len(one.values)).columns()[0] if own else []

    def hole_s(self, begin_s: float) -> float:
        """The longest time without a good scrape since begin_s."""
        return max(b - a for a, b in pairwise([begin_s, *self.times, self.end_s]))


class History:
    """The stretch from begin_s to end_s (Unix time) of all servers."""

    def __init__(
        self,
        api: PrometheusApi,
        servers: Sequence[FoundTarget],
        folders: Sequence[ScrapeFolder],
        copies: Sequence[ServerCopies],
        stretch: tuple[float, float],
        *,
        gpus: GpuReader | None = None,
    ) -> None:
        self._api = api
        self._servers = servers
        self._folders = folders
        self._copies = copies
        self._gpus = gpus
        self._begin_s, self._end_s = stretch[0] - 1e-3, stretch[1]  # both ends included

    def events(self) -> Iterator[Event]:
        """In order of t. Raises VtopError where Prometheus cannot be asked."""
        least, most = SAMPLES_A_PIECE
        budget = max(least, min(most, SAMPLES_AT_ONCE // max(1, len(self._servers))))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="vtop prometheus") as pool:
            streams: list[Iterator[Event]] = [
                self._of_server(folder, copies, pool, budget)
                for folder, copies in zip(self._folders, self._copies, strict=True)
            ]
            if self._gpus is not None:
                streams.append(self._of_gpus(self._gpus))
            yield from heapq.merge(*streams, key=lambda event: event.t)

    def _of_gpus(self, reader: GpuReader) -> Iterator[Event]:
        for _, series in self._api.samples(reader.selector, self._begin_s, self._end_s, GPU_PIECE_S):
            yield from reader.events(series)

    def notes(self) -> list[str]:
        """What there is to say once all has been read."""
        said = []
        readers = [reader for copies in self._copies for reader in copies.readers]
        rules = sorted({name for reader in readers for name in reader.rules})
        if rules:
            said.append(f"series with times of their own, left out: {_some(rules)}")
        native = sorted({name for reader in readers for name in reader.native})
        if native:
            said.append(f"native histograms, which vtop cannot read: {_some(native)}")
        return said

    def _of_server(
        self, folder: ScrapeFolder, copies: ServerCopies, pool: ThreadPoolExecutor, budget: int
    ) -> Iterator[Event]:
        begin_s, least_s = self._begin_s, copies.interval_s * 4
        length_s = max(least_s, budget * copies.interval_s / _SERIES)
        coming: Future[Piece | None] = pool.submit(self._piece, copies, begin_s, length_s)
        while (piece := coming.result()) is not None:
            samples = sum(len(one.values) for one in piece.series) // SAMPLE_BYTES
            if samples:
                length_s = max(least_s, min(2 * length_s, (piece.end_s - begin_s) * budget / samples))
            coming = pool.submit(self._piece, copies, piece.end_s, length_s)
            for scraped in piece.reader.pages(piece.series, begin_s):
                yield from folder.events(scraped, piece.reader.types)
            begin_s = piece.end_s

    def _piece(self, copies: ServerCopies, begin_s: float, length_s: float) -> Piece | None:
        """The next piece of a server; None at the end."""
        if self._end_s - begin_s <= 1e-3:
            return None
        return next(pieces(self._api, copies, begin_s, self._end_s, length_s))


def pieces(api: PrometheusApi, copies: ServerCopies, begin_s: float, end_s: float, length_s: float) -> Iterator[Piece]:
    """A server's samples after begin_s and up to end_s, each piece of one copy: of the first, unless that has a hole
    where another has scrapes. Copies are never mixed: their clocks differ, and counters would seem to fall."""
    first, *others = copies.readers
    for until_s, series in api.samples(first.selector, begin_s, end_s, length_s):
        best = Piece(until_s, first, _with_up(api, first, series, until_s, until_s - begin_s))
        if others and best.hole_s(begin_s) > GAP_INTERVALS * copies.interval_s:
            for reader in others:
                its = api.window(reader.selector, until_s, until_s - begin_s)
                piece = Piece(until_s, reader, _with_up(api, reader, its, until_s, until_s - begin_s))
                best = max(best, piece, key=lambda one: len(one.times))
        yield best
        begin_s = until_s


def _with_up(
    api: PrometheusApi, reader: PageReader, series: list[StoredSeries], end_s: float, length_s: float
) -> list[StoredSeries]:
    """With the `up` of a server, where that is of a target with fewer labels."""
    selector = reader.label_set.up_selector() if not reader.label_set.with_up else None
    return series if selector is None else [*series, *api.window(selector, end_s, length_s)]


def about(servers: Sequence[FoundTarget], url: str) -> Note:
    """What a recording of a Prometheus says about itself at its beginning."""
    intervals = sorted({server.interval_s for server in servers if server.interval_s is not None})
    every = f"a scrape every {' or '.join(f'{one:g} s' for one in intervals)}" if intervals else "one scrape"
    return Note(
        source="server",
        text=f"read from Prometheus at {url}: {every}, at its own times. Between two scrapes nothing is known: not the "
        "instant of a preemption, not a peak. /health, page sizes, flags and versions are not stored",
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
