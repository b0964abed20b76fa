"""--serve-metrics: what a running vtop computes, for a Prometheus to scrape."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from vtop.cli.common import echo
from vtop.cli.options import ParamType

if TYPE_CHECKING:
    from vtop.export.metrics.exporter import LoadPrices
    from vtop.recording import LiveRecording

DEFAULT: Final = "127.0.0.1:9809"
_WHERE: Final = re.compile(r"(?:(\[[0-9a-fA-F:.]+\]|[\w.-]*):)?(\d{1,5})")

Follow = Callable[..., None]


class ListenParam(ParamType[tuple[str, int]]):
    """ADDR:PORT to listen on: 127.0.0.1:9809, 9809, [::1]:9809, 0.0.0.0:9809. Port 0 is a free one."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        found = _WHERE.fullmatch(str(value).strip())
        if found is None or int(found[2]) > 65535:
            self.fail(f"{value!r} is nothing to listen on: write --serve-metrics={DEFAULT}", param, ctx)
        return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


metrics_option = click.option(
    "--serve-metrics",
    type=ListenParam(),
    is_flag=False,
    flag_value=DEFAULT,
    metavar="[=ADDR:PORT]",
    help=f"Serve what vtop computes to a Prometheus. [at {DEFAULT}]",
)


@contextlib.contextmanager
def served(asked: dict[str, Any]) -> Iterator[Follow]:
    """Listens where that is asked for; what is given begins to serve a recording. Raises VtopError."""
    if asked.get("serve_metrics") is None:
        yield lambda *_: None
        return
    from vtop.export.metrics.exporter import MetricsServer
    from vtop.sources.address import loopback

    host, port = asked["serve_metrics"]
    server = MetricsServer(host, port)
    shown = f"[{host}]" if ":" in host else host
    open_to = "" if loopback(host) else ", to all who reach this port: there is no token and no TLS"
    told = f"metrics at http://{shown}:{server.port}/metrics{open_to}"

    def follow(recording: LiveRecording, clock: Callable[[], float], prices: LoadPrices | None = None) -> None:
        echo(told, err=True)
        server.follow(recording.reader(), clock, prices)

    try:
        yield follow
    finally:
        server.stop()
