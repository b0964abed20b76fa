"""What a server's page says about its HTTP: http_*, as prometheus_fastapi_instrumentator counts for vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vtop.engine.server.exposition import Family

UNCOUNTED: Final = frozenset({"/metrics", "/health", "/load", "/ping", "/version", "/server_info"})
_HIGH_S: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)  # fmt: skip
_LOW_S: Final = (0.1, 0.5, 1)
_SIZE = (
    "Content length of {} by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. "
)


class HttpCounts:
    """Requests that were answered, by handler. born_unix_s: when the server started."""

    def __init__(self, born_unix_s: float) -> None:
        self._requests = Family(
            "http_requests_total", "counter", "Total number of requests by method, status and handler."
        )
        self._sent = Family("http_request_size_bytes", "summary", _SIZE.format("incoming requests"))
        self._answered = Family("http_response_size_bytes", "summary", _SIZE.format("outgoing responses"))
        self._high = Family(
            "http_request_duration_highr_seconds",
            "histogram",
            "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ",
            _HIGH_S,
        )
        self._low = Family(
            "http_request_duration_seconds",
            "histogram",
            "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ",
            _LOW_S,
        )
        self._high.histogram({}, born_unix_s)

    def answered(
        self, handler: str, method: str, status: int, took_s: float, *, sent: int, answered: int, unix_s: float
    ) -> None:
        """handler: the route's path, "none" where there is none. sent, answered: content lengths, 0 of a stream."""
        if handler in UNCOUNTED:
            return
        by = {"handler": handler, "method": method}
        self._requests.row({**by, "status": f"{status // 100}xx"}, unix_s).add(1)
        self._sent.histogram({"handler": handler}, unix_s).observe(sent)
        self._answered.histogram({"handler": handler}, unix_s).observe(answered)
        self._high.histogram({}).observe(took_s)
        self._low.histogram(by, unix_s).observe(took_s)

    def lines(self, *, nan: bool = False) -> Iterator[str]:
        for family in (self._requests, self._sent, self._answered, self._high, self._low):
            yield from family.lines(nan=nan)
