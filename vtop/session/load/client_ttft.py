"""Network and HTTP: the TTFT that vtop's own requests saw, less the TTFT that the server saw of the same requests.

    client  = mean of (first token read - request sent), by the client's stamps
    server  = queue + prefill + frontend of the requests that finished (history/ttft_parts.py)
    network = client - server

over the own requests that finished in the window: on the server's side they are the growth of the histograms that are
observed when a request finishes, on the client's the n that ended between the two scrapes. A scrape is made some time
between being asked for and being had, and the client sees an end later than the server counts it; so at each edge of
the window the number of requests that the server counted decides which of the few near that edge belong to it.

It holds only where the server served nobody else: with more than FOREIGN_SHARE of the finished requests not vtop's
(or of vtop's not among the server's) the network is not known, nor where client - server is below 0. It is what lies
outside arrival and output in the server's frontend: HTTP parsing and validation, detokenisation, SSE, both sockets.

Where answers carry the server's own timings (--enable-per-request-metrics) the parts are known one by one, whoever
else was served: queue_time_ms, and time_to_first_token_ms, which in spite of its name is prefill; the rest of
the client's TTFT is frontend and network together. Means, in seconds.
Source: vLLM v1/metrics/stats.py, v1/engine/output_processor.py.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.recording import Request
from vtop.session.frame.ttft import OwnTtft
from vtop.session.history.server import ServerHistory
from vtop.session.history.ttft_parts import ttft_parts
from vtop.session.history.window import ScrapeRange, Window
from vtop.session.load.server_timings import timings_of

FOREIGN_SHARE: Final = 0.02
LAG_S: Final = 0.5  # by which a client may see a request end after the server had counted it


class Answered:
    """vtop's own requests to one server that succeeded, in the order of their lines, as running sums."""

    def __init__(self) -> None:
        self.t = array("d")  # of the line: from then on the request is known
        self.ended_s = array("d")  # the latest end so far, so that it never goes back
        self._ttft = array("d", [0.0])  # sums over the requests before each place
        self._ttfts = array("L", [0])
        self._gone = 0  # given up
        self._timed = array("L")  # places, from the first ever on, of those whose answers carry timings; sums
        self._timed_client = array("d", [0.0])
        self._timed_queue = array("d", [0.0])
        self._timed_prefill = array("d", [0.0])

    def add(self, t: float, request: Request) -> None:
        end_s = request.last_s if request.last_s is not None else request.end_s
        if request.error is not None or end_s is None:
            return
        self.t.append(t)
        self.ended_s.append(max(end_s, self.ended_s[-1]) if self.ended_s else end_s)
        self._ttft.append(self._ttft[-1])
        self._ttfts.append(self._ttfts[-1])
        if request.first_s is None or request.sent_s is None:
            return
        ttft_s = request.first_s - request.sent_s
        self._ttft[-1] += ttft_s
        self._ttfts[-1] += 1
        timings = timings_of(request.timings)
        if timings.queue_s is not None and timings.prefill_s is not None:
            self._timed.append(self._gone + len(self.t) - 1)
            self._timed_client.append(self._timed_client[-1] + ttft_s)
            self._timed_queue.append(self._timed_queue[-1] + timings.queue_s)
            self._timed_prefill.append(self._timed_prefill[-1] + timings.prefill_s)

    def forget(self, until_s: float) -> None:
        """Give up those of the lines up to an instant."""
        count = bisect_right(self.t, until_s)
        self._gone += count
        for each in (self.t, self.ended_s, self._ttft, self._ttfts):
            del each[:count]
        timed = bisect_left(self._timed, self._gone)
        for each in (self._timed, self._timed_client, self._timed_queue, self._timed_prefill):
            del each[:timed]

    def sums(self, first: int, last: int) -> Sums:
        """Over the requests from place first up to, not including, last."""
        begin, end = (bisect_left(self._timed, self._gone + place) for place in (first, last))
        return Sums(
            n=last - first,
            ttfts=self._ttfts[last] - self._ttfts[first],
            ttft_s=self._ttft[last] - self._ttft[first],
            timed=end - begin,
            timed_client_s=self._timed_client[end] - self._timed_client[begin],
            timed_queue_s=self._timed_queue[end] - self._timed_queue[begin],
            timed_prefill_s=self._timed_prefill[end] - self._timed_prefill[begin],
        )

    def within(self, one: ScrapeRange, finished: float, now_s: float) -> Sums:
        """Those that finished in a span, of which the server says how many finished there."""
        visible = bisect_right(self.t, now_s)
        first, first_late = self._edge(one.server, one.first, visible)
        last, last_late = self._edge(one.server, one.last, visible)
        many = round(finished)
        last = min(max(last, first + many), last_late)
        first = min(max(first, last - many), first_late, last)
        return self.sums(first, last)

    def _edge(self, server: ServerHistory, scrape: int, visible: int) -> tuple[int, int]:
        """How many had certainly ended when a scrape was made, and how many may have."""
        asked_s = server.at_s[scrape]
        certain = bisect_right(self.ended_s, asked_s, 0, visible)
        return certain, bisect_right(self.ended_s, asked_s + server.took_s[scrape] + LAG_S, certain, visible)


@dataclass(frozen=True, slots=True)
class Sums:
    """What some own requests add up to."""

    n: int = 0
    ttfts: int = 0
    ttft_s: float = 0.0
    timed: int = 0
    timed_client_s: float = 0.0
    timed_queue_s: float = 0.0
    timed_prefill_s: float = 0.0

    def plus(self, other: Sums) -> Sums:
        return Sums(
            self.n + other.n,
            self.ttfts + other.ttfts,
            self.ttft_s + other.ttft_s,
            self.timed + other.timed,
            self.timed_client_s + other.timed_client_s,
            self.timed_queue_s + other.timed_queue_s,
            self.timed_prefill_s + other.timed_prefill_s,
        )


def own_ttft(
    window: Window, servers: Sequence[ServerHistory], answered: Mapping[int, Answered], now_s: float
) -> OwnTtft | None:
    """Over the servers that vtop's own load was put on; None where none of the window's was."""
    own = Sums()
    finished = server_s = 0.0
    loaded = False
    for one in window.ranges:
        mine = answered.get(servers.index(one.server))
        if mine is None or not mine.t or mine.t[0] > now_s:
            continue
        loaded = True
        counted, total_s = _server_ttft(one)
        finished += counted
        server_s += total_s
        own = own.plus(mine.within(one, counted, now_s))
    if not loaded:
        return None
    client_s = own.ttft_s / own.ttfts if own.ttfts else None
    network_s = None
    if client_s is not None and finished > 0 and abs(finished - own.n) <= FOREIGN_SHARE * finished:
        between_s = client_s - server_s / finished
        network_s = between_s if between_s >= 0 else None  # NaN too
    rest_s = own.timed_client_s - own.timed_queue_s - own.timed_prefill_s
    return OwnTtft(
        n=own.n,
        client_s=client_s,
        network_s=network_s,
        foreign=max(0.0, finished - own.n),
        timed=own.timed,
        timed_queue_s=own.timed_queue_s / own.timed if own.timed else None,
        timed_prefill_s=own.timed_prefill_s / own.timed if own.timed else None,
        timed_rest_s=max(0.0, rest_s / own.timed) if own.timed else None,
    )


def _server_ttft(one: ScrapeRange) -> tuple[float, float]:
    """(how many finished, the sum of their TTFT; NaN where the server does not tell)."""
    whole = Window((one,))
    finished, parts = whole.observed(Quantity.E2E), ttft_parts(whole)
    return finished, 0.0 if not finished else parts.total_s * finished if parts is not None else math.nan
