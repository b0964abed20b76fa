"""Verbs that look at a server now: the screen, one document, a recording without a screen."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop import units
from vtop.cli import stored
from vtop.cli.arguments import OfServers
from vtop.cli.common import (
    Stop,
    attached,
    echo,
    print_json,
    screen_over,
    servers_of,
    signals_end,
    whole,
    without_collections,
)
from vtop.cli.flight_options import flight_options
from vtop.cli.load import consent, controller_of, phases_of, recorded_load
from vtop.cli.metrics import Follow, metrics_option, served
from vtop.cli.options import DOCUMENT_WINDOW_S, Seconds, load_options, prometheus_options, server_options
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.access import Access
    from vtop.load.workload.phase import PlannedPhase
    from vtop.recording.events import Target
    from vtop.sources.attach import Attachment
    from vtop.sources.prometheus.follow import PrometheusAttachment


def live(
    asked: dict[str, Any],
    servers: tuple[list[Target], list[Access]] | None,
    path: Path | None,
    view: dict[str, Any],
    phases: tuple[PlannedPhase, ...],
) -> None:
    """The screen on live servers, with vtop's own load where phases are given. servers: None for a Prometheus'."""
    with served(asked) as follow:
        _live(asked, servers, path, view, phases, follow=follow)


def _live(
    asked: dict[str, Any],
    servers: tuple[list[Target], list[Access]] | None,
    path: Path | None,
    view: dict[str, Any],
    phases: tuple[PlannedPhase, ...],
    *,
    follow: Follow,
) -> None:
    if phases and servers is not None:
        consent(asked, servers[0][0])  # before there is a file
    signals_end()
    with without_collections():
        from vtop.engine.whatif.beside import LivePrices
        from vtop.ui import run

        attachment = attached(asked, servers, path) if servers is not None else stored.attached(asked, path)
    load = None
    if phases and servers is not None:
        load = controller_of(asked, servers, attachment.recording, attachment.began_s, phases)

    def begin() -> None:
        attachment.start()
        if load is not None:
            load.start()

    left = "broken off"
    beside = LivePrices(attachment.recording.copy_to)
    follow(attachment.recording, attachment.clock, beside)
    try:
        left = run.live(attachment.recording, attachment.clock, begin, load=load, prices=beside, **view)
    finally:
        screen_over(attachment, left, beside.stop, *([load.stop] if load is not None else []))
    whole(attachment.recording)
    if load is not None and load.failed is not None:
        raise VtopError(load.failed)


def once(attachment: Attachment | PrometheusAttachment, view: dict[str, Any], as_json: bool) -> None:
    """Two scrapes of each server: the frame as JSON or as text. Exit code 2 where a server did not answer."""
    import shutil

    from vtop.session.frame.fleet import FleetView
    from vtop.session.frame.frame import View
    from vtop.session.session import read

    clock: Callable[[], float] = attachment.clock
    try:
        answered = attachment.once()
        session = read(attachment.recording)
        window_s = view["window_s"]
        window_s = DOCUMENT_WINDOW_S if window_s is None else window_s
        frame = session.frame(clock(), View(window_s=window_s, fleet=FleetView()))
    finally:
        attachment.stop("once")
    whole(attachment.recording)
    if as_json:
        print_json(frame)
    else:
        from vtop.ui import run

        size = shutil.get_terminal_size((120, 36))
        shown = run.still(
            session, now_s=frame.now_s, size=(max(80, size.columns), max(24, size.lines)), once=True, **view
        )
        echo(shown[1], nl=False)
    if not answered:
        sys.exit(2)


@click.command(cls=OfServers)
@server_options
@load_options
@prometheus_options
@click.option("--for", "for_s", type=Seconds(least=0.1), help="Stop after this time. [until ctrl-c, or the load's end]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="New file, or -; with --keep a folder.",
)
@flight_options
@metrics_option
def record(for_s: float | None, output: Path, **asked: Any) -> None:
    """Record without a screen, to FILE.jsonl, .jsonl.gz or .jsonl.zst; with --load, until the load is done.

    Exit codes: 0 done, 2 nothing was recorded, or not all of it, 128 + n stdout was closed. With --load:
    those of sweep.
    """
    if any(asked[name] is not None for name in ("keep_s", "trigger", "command", "webhook")):
        from vtop.cli import flight

        if asked["loads"] or stored.is_asked(asked):
            raise VtopError("--keep watches servers of --url or --targets: without --load and --prometheus")
        with served(asked) as follow:
            flight.record(asked, output, for_s, follow)
        return
    if output.is_dir():
        raise VtopError(f"-o {output}: a folder; name a file in it, or --keep 2h")
    if output == Path("-") and sys.stdout.isatty():
        raise VtopError("-o -: stdout is a terminal; name a file, or lead it into a program")
    phases = phases_of(asked)
    of_prometheus = stored.is_asked(asked)
    if of_prometheus and phases:
        raise VtopError("--load needs the server itself: --url, not --prometheus")
    if of_prometheus and (asked["from_at"] is not None or stored.is_over(asked)):
        if asked["serve_metrics"] is not None:
            raise VtopError("--serve-metrics goes with what is going on now: without --from and --to")
        stored.record(asked, output, for_s)
        return
    servers = servers_of(asked)
    with served(asked) as follow:
        if phases:
            sys.exit(recorded_load(phases, servers, output, for_s, asked, follow=follow))
        stop = Stop()
        attachment = stored.attached(asked, output) if of_prometheus else attached(asked, servers, output)
        follow(attachment.recording, attachment.clock)
        _record(attachment, output, for_s, stop)


def _record(attachment: Attachment | PrometheusAttachment, output: Path, for_s: float | None, stop: Stop) -> None:
    from vtop.draw.theme import clean
    from vtop.recording import Note, Outage, Scrape

    recording = attachment.recording
    clock: Callable[[], float] = attachment.clock
    scrapes = failed = 0
    began_s = clock()
    attachment.start()
    try:
        echo(f"recording {', '.join(server.url for server in recording.start.servers)} to {output}", err=True)
        done = False
        while not done:
            left_s = math.inf if for_s is None else began_s + for_s - clock()
            done = stop.wait(max(0.0, min(left_s, 1.0))) or left_s <= 1.0
            for event in recording.take():  # what is on the disk need not be in memory
                scrapes += isinstance(event, Scrape)
                failed += isinstance(event, Outage)
                if isinstance(event, Note) and event.source == "recording":
                    echo(f"vtop: {clean(event.text)}", err=True)
            done = done or recording.saving_to is None
    finally:
        attachment.stop(stop.reason)
    if recording.unread:
        sys.exit(141)
    whole(recording)
    told = f"{scrapes} scrapes" + (f", {failed} attempts failed" if failed else "")
    echo(f"{output}: {units.clock(clock())}, {told}", err=True)
    if not scrapes:
        held = "the file holds only the attempts" if failed else "no attempt was over by then; give it longer (--for)"
        raise VtopError(f"no server answered; {held}")
