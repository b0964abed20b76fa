"""A search of capacity on a terminal while it runs: the curve so far, the bracket, the run that is under way."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from vtop import units

if TYPE_CHECKING:
    from vtop.session.capacity.search import Next, Search
    from vtop.session.frame.load import LoadPart

CELLS = 24  # of the bar of a rate
COLOURS = {"pass": "green", "fail": "red", "undecided": "yellow", "more": "dim"}


class CapacityPanel:
    """On stderr, redrawn in place; a context manager. Shows what the search and the session say."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=True)
        self._above: list[Text | Table] = []

    def __enter__(self) -> CapacityPanel:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, searches: Sequence[Search], number: int, wanted: Next, elapsed_s: float) -> None:
        """Before a run of search `number`: what all of them know so far."""
        self._above = []
        for place, search in enumerate(searches):
            now = search.bracket()
            who = f"server {place + 1}: " if len(searches) > 1 else ""
            bracket = f"{units.number(now.passes_per_s)} to {units.number(now.fails_per_s)} requests/s"
            left = units.seconds(search.left().seconds)
            self._above.append(Text(f"{who}{search.plan.name}: {bracket}, about {left} of load left", style="bold"))
            if search.results:
                self._above.append(_curve(search))
        what = "holding" if wanted.hold else "running"
        server = f" on server {number + 1}" if len(searches) > 1 else ""
        said = f"{what} {wanted.rate_per_s:g} requests/s{server}, seed {wanted.seed}, {wanted.requests:,} requests"
        self._above.append(Text(f"{said}; {units.seconds(elapsed_s)} so far"))
        self._draw(None)

    def running(self, load: LoadPart | None) -> None:
        """While the run is under way."""
        self._draw(load)

    def _draw(self, load: LoadPart | None) -> None:
        lines: list[Text | Table] = list(self._above)
        if load is not None and load.state == "running":
            slo = load.slo.attainment_ratio if load.slo is not None else None
            within = f", {units.percent(slo)} within the service level" if slo is not None else ""
            sent = f"{load.sent:,} sent, {load.done:,} answered, {load.failed:,} failed, {load.in_flight:,} in flight"
            lines.append(Text(f"{sent}{within}, TTFT p95 {units.seconds(load.ttft.p95_s)}", style="dim"))
        self._live.update(Group(*lines), refresh=True)


def _curve(search: Search) -> Table:
    """A row a rate: attainment as a bar, the target marked in it."""
    table = Table.grid(padding=(0, 2))
    mark = min(CELLS - 1, int(search.plan.target_ratio * CELLS))
    for rate in search.rates():
        mean = rate.mean_ratio
        full = int((mean or 0) * CELLS)
        bar = "".join("│" if cell == mark else "█" if cell < full else "·" for cell in range(CELLS))
        table.add_row(
            Text(f"{units.number(rate.rate_per_s)}/s", justify="right"),
            Text(bar, style=COLOURS[rate.verdict]),
            units.percent(mean),
            f"{len(rate.runs)} runs",
            "" if rate.verdict == "more" else rate.verdict,
        )
    return table
