"""A running session as a page that a Prometheus scrapes: folded and looked at beside the screen, answered from memory.

A thread of its own takes what is recorded and makes a frame of one server after the other; it takes a tenth of a core
at most. A scrape is answered with what is made by then. What is older than it should be is left out, so that a number
whose source is gone is absent, not old.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from vtop import __version__, faults
from vtop.errors import VtopError
from vtop.export.metrics.names import METRICS, PREFIX, ServerMetrics, samples
from vtop.recording import Recording
from vtop.recording.cut import Known
from vtop.session.bottleneck.priced import with_prices
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.prices import Prices
from vtop.session.rolling import RollingSession, Totals, of_server

WINDOW_S: Final = 60.0
EVERY_S: Final = 2.0  # each server is looked at, at most
REST: Final = 9.0  # times what a look took, until the next one
STALE_S: Final = 10.0  # that a look stands, or LOOKS of them where there are many servers
LOOKS: Final = 3.0
TAKE_EVERY_S: Final = 0.5
PRICED_S: Final = 120.0  # that prices stand: while somebody looks at them they are made anew more often
_VIEW: Final = View(window_s=WINDOW_S, columns=1, stacked=False)


class LoadPrices(Protocol):
    """The prices of a recording's loads, as they are made beside the screen."""

    @property
    def made(self) -> int:
        """How often a load was priced."""

    def of(self, phase: int | None) -> Prices | None:
        """phase: of vtop's own load; None: of a load that was watched."""


class Exporter(Collector):
    """The latest look at each server. `collect` may be called on any thread, and computes nothing."""

    def __init__(self, recording: Recording, clock: Callable[[], float], prices: LoadPrices | None = None) -> None:
        """clock: seconds of the session. recording: nobody else takes from it."""
        self._recording, self._clock, self._prices = recording, clock, prices
        self._known = Known()
        self._rolling = RollingSession(recording.start, self._known.in_session, WINDOW_S)
        self._totals: dict[int, Totals] = {}
        self._made: dict[int, tuple[float, ServerMetrics]] = {}  # by server, with the time.monotonic of the look
        self._priced, self._priced_at = 0, -math.inf  # how often, and the time.monotonic of the latest
        self._round_s = EVERY_S  # that all servers took
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="vtop metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def collect(self) -> Iterable[Family]:
        families: dict[str, Family] = {}
        for one in METRICS:
            kind = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
            families[one.name] = kind(PREFIX + one.name, one.help, labels=("server", *one.labels))
        oldest = time.monotonic() - max(STALE_S, LOOKS * self._round_s)
        for made_at, of in list(self._made.values()):
            (server,) = of.frame.servers
            if made_at >= oldest and server.watched:
                for metric, labels, value in samples(of):
                    families[metric.name].add_metric((server.url, *labels), value)  # type: ignore[attr-defined]
        yield _build()
        yield from (family for family in families.values() if family.samples)

    def take(self) -> None:
        """Fold in what is new."""
        for event in self._recording.take():
            self._known.take(event)
            self._rolling.apply(event)

    def look(self, index: int) -> None:
        """Make the numbers of one server as of now."""
        session = self._rolling.session
        frame_at = of_server(session, index, _VIEW)
        frame = frame_at(self._clock())
        if len(session.servers) == 1:
            frame = with_prices(frame, self._prices_of(frame))
        counts = self._totals.setdefault(index, Totals(index)).look(self._rolling, frame, frame_at)
        self._made[index] = time.monotonic(), ServerMetrics(frame, counts)

    def _prices_of(self, frame: Frame) -> Prices | None:
        if self._prices is None:
            return None
        if self._prices.made != self._priced:
            self._priced, self._priced_at = self._prices.made, time.monotonic()
        if time.monotonic() - self._priced_at > PRICED_S:
            return None
        return self._prices.of(frame.load.phase if frame.load is not None else None)

    def _run(self) -> None:
        """A fault is put down, and the next round goes on."""
        while not self._over.is_set():
            began_s = time.monotonic()
            try:
                self._round()
            except Exception as error:
                faults.put_down(error, "at the metrics it serves")
            self._rest(EVERY_S - (time.monotonic() - began_s))
            self._round_s = time.monotonic() - began_s

    def _round(self) -> None:
        self.take()
        for index in range(len(self._rolling.session.servers)):
            began_s = time.monotonic()
            self.look(index)
            self._rest(REST * (time.monotonic() - began_s))
            if self._over.is_set():
                return

    def _rest(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._over.wait(max(0.0, min(TAKE_EVERY_S, until_s - time.monotonic()))):
            self.take()
            if time.monotonic() >= until_s:
                return


class MetricsServer:
    """Listens from the beginning; has something to say from `follow` on. Raises VtopError where it cannot listen."""

    def __init__(self, host: str, port: int) -> None:
        self._registry = CollectorRegistry()
        self._exporter: Exporter | None = None
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=self._registry)
        except (OSError, OverflowError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            where = f"--serve-metrics: cannot listen on {host}:{port}"
            raise VtopError(f"{where} ({why}); name another: --serve-metrics=ADDR:PORT") from error

    @property
    def port(self) -> int:
        return self._server.server_port

    def follow(self, recording: Recording, clock: Callable[[], float], prices: LoadPrices | None = None) -> None:
        self._exporter = Exporter(recording, clock, prices)
        self._registry.register(self._exporter)
        self._exporter.start()

    def stop(self) -> None:
        if self._exporter is not None:
            self._exporter.stop()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1.0)


def _build() -> Family:
    family = GaugeMetricFamily(f"{PREFIX}build_info", "The version of vtop: always 1.", labels=("version",))
    family.add_metric((__version__,), 1.0)
    return family
