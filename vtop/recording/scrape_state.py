"""What stands on a server's latest scrape, put together from the lines that only say what changed."""

from __future__ import annotations

import msgspec

from vtop.recording.events import HistogramCounts, Scrape


class ScrapeState:
    """The latest scrape of one server. Until a full line has come it is not known to be whole."""

    def __init__(self) -> None:
        self.latest: Scrape | None = None
        self.whole = False
        self.values: dict[str, float | None] = {}
        self.hists: dict[str, HistogramCounts] = {}
        self.le: dict[str, tuple[float, ...]] = {}
        self.model: str | None = None

    def take(self, scrape: Scrape) -> None:
        self.latest = scrape
        if scrape.full:
            self.whole = True
            self.values, self.hists = dict(scrape.values), dict(scrape.hists)
            self.le, self.model = scrape.le, scrape.model
        else:
            self.values.update(scrape.values)
            self.hists.update(scrape.hists)

    def line(self) -> Scrape | None:
        """The scrape as a line that a reader can start with; None before the first scrape."""
        if self.latest is None:
            return None
        return msgspec.structs.replace(
            self.latest,
            full=self.whole,
            values=self.values,
            hists=self.hists,
            le=self.le if self.whole else {},
            model=self.model if self.whole else None,
        )
