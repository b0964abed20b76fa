"""What a Prometheus stored of its servers, read as the events of a session, in order of time.

Servers are read side by side in pieces of about as many samples, so that neither side ever holds much; the next piece
is asked for while the one before is taken apart.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from vtop.metrics.page import Folder
from vtop.recording import GAP_INTERVALS, Event, Identity, Note, Outage
from vtop.sources.prometheus.api import PrometheusApi, Series
from vtop.sources.prometheus.pages import PageReader, Scraped
from vtop.sources.prometheus.who import Found

SAMPLE_BYTES = 25
SAMPLES_AT_ONCE = 640_000  # of all servers together
SAMPLES_A_PIECE = (8_000, 120_000)  # of one server: the fewest and the most
_SERIES = 500  # of a server, until the first piece has told
_AT_ONCE = 2  # questions
NOT_STORED = "read from Prometheus, which does not store version, flags and max_model_len"


class ScrapeFolder:
    """Turns the scrapes of one server, whoever scraped it, into events."""

    def __init__(self, index: int, server: Found, unix_s: float, shape: Mapping[str, int | str] | None = None) -> None:
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


class History:
    """The stretch from begin_s to end_s (Unix time) of all servers."""

    def __init__(
        self,
        api: PrometheusApi,
        servers: Sequence[Found],
        folders: Sequence[ScrapeFolder],
        readers: Sequence[PageReader],
        stretch: tuple[float, float],
    ) -> None:
        self._api = api
        self._servers = servers
        self._folders = folders
        self._readers = readers
        self._begin_s, self._end_s = stretch[0] - 1e-3, stretch[1]  # both ends included

    def events(self) -> Iterator[Event]:
        """In order of t. Raises VtopError where Prometheus cannot be asked."""
        least, most = SAMPLES_A_PIECE
        budget = max(least, min(most, SAMPLES_AT_ONCE // max(1, len(self._servers))))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="vtop prometheus") as pool:
            streams = [
                self._of_server(server, folder, reader, pool, budget)
                for server, folder, reader in zip(self._servers, self._folders, self._readers, strict=True)
            ]
            yield from heapq.merge(*streams, key=lambda event: event.t)

    def notes(self) -> list[str]:
        """What there is to say once all has been read."""
        said = []
        rules = sorted({name for reader in self._readers for name in reader.rules})
        if rules:
            said.append(f"series with times of their own, left out: {_some(rules)}")
        native = sorted({name for reader in self._readers for name in reader.native})
        if native:
            said.append(f"native histograms, which vtop cannot read: {_some(native)}")
        return said

    def _of_server(
        self, server: Found, folder: ScrapeFolder, reader: PageReader, pool: ThreadPoolExecutor, budget: int
    ) -> Iterator[Event]:
        interval_s = server.interval_s or 15.0
        begin_s, length_s = self._begin_s, max(interval_s * 4, budget * interval_s / _SERIES)
        coming: Future[tuple[float, list[Series]] | None] = pool.submit(self._piece, reader, begin_s, length_s)
        while (piece := coming.result()) is not None:
            end_s, series = piece
            samples = sum(len(one.values) for one in series) // SAMPLE_BYTES
            if samples:
                length_s = max(interval_s * 4, min(2 * length_s, (end_s - begin_s) * budget / samples))
            coming = pool.submit(self._piece, reader, end_s, length_s)
            for scraped in reader.pages(series, begin_s):
                yield from folder.events(scraped, reader.types)
            begin_s = end_s

    def _piece(self, reader: PageReader, begin_s: float, length_s: float) -> tuple[float, list[Series]] | None:
        """The next piece of a server; None at the end."""
        if self._end_s - begin_s <= 1e-3:
            return None
        return next(pieces(self._api, reader, begin_s, self._end_s, length_s))


def pieces(
    api: PrometheusApi, reader: PageReader, begin_s: float, end_s: float, length_s: float
) -> Iterator[tuple[float, list[Series]]]:
    """A server's samples after begin_s and up to end_s, its `up` included: (the end of a piece, its series)."""
    of_up = reader.label_set.up_selector() if not reader.label_set.with_up else None
    for until_s, series in api.samples(reader.selector, begin_s, end_s, length_s):
        yield until_s, series if of_up is None else [*series, *api.window(of_up, until_s, until_s - begin_s)]
        begin_s = until_s


def about(servers: Sequence[Found], url: str) -> Note:
    """What a recording of a Prometheus says of itself at its beginning."""
    intervals = sorted({server.interval_s for server in servers if server.interval_s is not None})
    every = f"a scrape every {' or '.join(f'{one:g} s' for one in intervals)}" if intervals else "one scrape"
    return Note(
        source="server",
        text=f"read from Prometheus at {url}: {every}, at its own times. Between two scrapes nothing is known: not the "
        "instant of a preemption, not a peak. /health, page sizes, flags and versions are not stored",
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
