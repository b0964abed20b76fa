"""A live session on a Prometheus: what it stored of the last minutes, then each new scrape as it is stored."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vtop.errors import VtopError
from vtop.recording import LiveRecording, Note
from vtop.recording.events import Event
from vtop.sources.prometheus.dcgm import GpuReader
from vtop.sources.prometheus.history import ScrapeFolder, ServerCopies, pieces
from vtop.sources.prometheus.pages import Scraped
from vtop.sources.prometheus.stored import Stored

LATE_S: Final = 0.3  # after a scrape began it is looked for
SOONEST_S: Final = 0.25  # between two looks for one that was late
YOUNG_S: Final = 5.0  # a page that lacks series may be half stored
AGAIN_S: Final = 5.0  # after a failure
_PIECE_S: Final = 600.0


class PrometheusAttachment:
    """The recording of a live session, and the thread that fills it: as `sources.attach.Attachment` is for servers that
    vtop scrapes itself. now_s: Unix time on Prometheus' clock. Raises VtopError; then `path` has not been made."""

    def __init__(self, stored: Stored, now_s: float, *, path: Path | None = None, secrets: Sequence[str] = ()) -> None:
        self.stored = stored
        self.began_s = time.monotonic() - (now_s - stored.start.unix_s)
        self._at_s: float | None = 0.0  # of the history that is being read; None: now
        self._stopped = threading.Event()
        self._writing = threading.Lock()
        self._failing = False
        self.recording = LiveRecording(stored.start, self._recorded_at_s, path, secrets)

    def clock(self) -> float:
        """Seconds since the session's second 0."""
        return time.monotonic() - self.began_s

    def start(self) -> None:
        threading.Thread(target=self._run, name="vtop prometheus", daemon=True).start()

    def once(self) -> bool:
        """What is stored, on the calling thread; True when there was a scrape of each server."""
        self._read_history()
        return all(folder.last_s > -math.inf for folder in self.stored.folders)

    def stop(self, reason: str) -> None:
        with self._writing:
            self._stopped.set()
            self._at_s = None
        self.stored.api.close()
        self.recording.close(reason)

    def _recorded_at_s(self) -> float:
        return self.clock() if self._at_s is None else self._at_s

    def _run(self) -> None:
        self._read_history()
        begin_s, usual_s = self.stored.asked.end_s, self.stored.start.interval_s
        servers: list[_Followed | _FollowedGpus] = [
            _Followed(folder, copies, begin_s)
            for folder, copies in zip(self.stored.folders, self.stored.copies, strict=True)
        ]
        if self.stored.gpus is not None:
            servers.append(_FollowedGpus(self.stored.gpus, usual_s, begin_s))
        while not self._stopped.is_set():
            due = min(servers, key=lambda one: one.due_s)
            if self._stopped.wait(max(0.0, due.due_s - self._unix_s())):
                break
            try:
                for event in due.events(self.stored, self._unix_s()):
                    self._say(event)
                self._recovered()
            except VtopError as error:
                self._failed(error)
                due.due_s = self._unix_s() + AGAIN_S

    def _read_history(self) -> None:
        for note in self.stored.notes():
            self._say(note)
        for event in self.stored.history():
            self._at_s = event.t
            self._say(event)
            if self._stopped.is_set():
                return
        self._at_s = None

    def _unix_s(self) -> float:
        return self.stored.start.unix_s + self.clock()

    def _failed(self, error: VtopError) -> None:
        if not self._failing:
            self._failing = True
            self._say(Note(source="vtop", text=f"Prometheus does not answer, nothing new is known: {error}"))

    def _recovered(self) -> None:
        if self._failing:
            self._failing = False
            self._say(Note(source="server", text="Prometheus answers again"))
        for text in self.stored.warnings:
            self._say(Note(source="server", text=text))
        self.stored.warnings.clear()

    def _say(self, event: Event) -> None:
        with self._writing:
            if not self._stopped.is_set():
                self.recording.append(event)


class _Followed:
    """One server's newest scrapes. due_s: Unix time of the next look."""

    def __init__(self, folder: ScrapeFolder, copies: ServerCopies, begin_s: float) -> None:
        self._folder = folder
        self._copies = copies
        self._interval_s = interval_s = copies.interval_s
        self._seen_s = max(folder.last_s, begin_s - interval_s)  # up to here everything has been seen
        self._series = 0  # of the latest page
        self.due_s = self._seen_s + interval_s + LATE_S

    def events(self, stored: Stored, now_s: float) -> Iterator[Event]:
        """What is new. Raises VtopError."""
        begin_s, before_s = self._seen_s, self._folder.last_s
        for piece in pieces(stored.api, self._copies, begin_s, now_s, max(_PIECE_S, 4 * self._interval_s)):
            for scraped in self._whole(list(piece.reader.pages(piece.series, begin_s)), now_s):
                yield from self._folder.events(scraped, piece.reader.types)
                self._seen_s = scraped.unix_s
        new = self._folder.last_s > before_s
        again_s = max(SOONEST_S, self._interval_s / 4)
        self.due_s = max(self._folder.last_s + self._interval_s + LATE_S, now_s + SOONEST_S) if new else now_s + again_s

    def _whole(self, pages: list[Scraped], now_s: float) -> list[Scraped]:
        """Without the newest page, where it is young and lacks what the page before had: more of it may come."""
        for place, scraped in enumerate(pages):
            if not scraped.series:
                continue
            count = len(scraped.series)
            if place == len(pages) - 1 and count < self._series and now_s - scraped.unix_s < YOUNG_S:
                return pages[:-1]
            self._series = count
        return pages


class _FollowedGpus:
    """The newest readings of all joined GPUs. due_s: Unix time of the next look."""

    def __init__(self, reader: GpuReader, interval_s: float, begin_s: float) -> None:
        self._reader = reader
        self._interval_s = interval_s
        self._seen_s = begin_s
        self.due_s = begin_s + interval_s

    def events(self, stored: Stored, now_s: float) -> Iterator[Event]:
        """What is new: the latest two intervals are asked for again, as exporters have times of their own."""
        begin_s = self._seen_s - 2 * self._interval_s
        for _, series in stored.api.samples(self._reader.selector, begin_s, now_s, _PIECE_S):
            yield from self._reader.events(series)
        self._seen_s, self.due_s = now_s, now_s + self._interval_s
