"""Verbs that look at a recording: replay, show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vtop import units
from vtop.cli import progress
from vtop.cli.common import (
    echo,
    need_load,
    need_terminal,
    open_recording,
    print_json,
    view_of,
    without_collections,
    write,
)
from vtop.cli.options import (
    DEFAULT_THEME,
    DOCUMENT_WINDOW_S,
    NumberParam,
    ScreenSize,
    Seconds,
    judge_option,
    look_options,
    shape_option,
)
from vtop.errors import VtopError

FILM_WINDOW_S = 60.0  # of a film where none is asked for: so short that its charts move
MOST_FRAMES = 300


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--speed", type=NumberParam(0.01, 10000), default=1.0, show_default=True)
@click.option("--at", "at_s", type=Seconds(), help="Start there, paused. [the beginning, playing]")
@judge_option
@shape_option
@look_options
def replay(
    file: Path, *, speed: float, at_s: float | None, slo: str | None, model_config: Path | None, **look: Any
) -> None:
    """Show a recording on the same screen, even while it is still being written."""
    with without_collections():
        view = view_of(look)
        recording = open_recording(file, model_config, slo)
        need_terminal(f"vtop show {file} --text")
        from vtop.engine.whatif.beside import PricesBeside
        from vtop.ui import run

    beside = PricesBeside(recording.path)
    beside.start()
    try:
        run.replay(recording, speed=speed, at_s=at_s, prices=beside, **view)
    finally:
        beside.stop()


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--from", "from_s", type=Seconds(), default=0.0, help="Start. [the beginning]")
@click.option("--for", "for_s", type=Seconds(least=0.1), default=20.0, help="How much of the recording. [20s]")
@click.option("--every", "every_s", type=Seconds(least=0.1), default=1.0, help="Session time between frames. [1s]")
@click.option("--speed", type=NumberParam(0.1, 100), default=1.0, show_default=True)
@click.option("--size", type=ScreenSize(), default="100x30", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="New .svg file.")
@shape_option
@look_options
@progress.shown("filming")
def film(
    file: Path,
    *,
    from_s: float,
    for_s: float,
    every_s: float,
    speed: float,
    size: tuple[int, int],
    output: Path,
    model_config: Path | None,
    **look: Any,
) -> None:
    """Make part of a recording a moving picture of the screen: one SVG file, shown by any web page."""
    from vtop.session.session import read

    if look["window_s"] is None:
        look["window_s"] = FILM_WINDOW_S
    view = view_of(look, document=True)
    if output.exists():
        raise VtopError(f"{output}: exists already; name a new file, or remove it first")
    many = round(for_s / every_s) + 1
    if many > MOST_FRAMES:
        raise VtopError(
            f"{many:,} frames are too many for a picture: at most {MOST_FRAMES}; --every {for_s / 100:.3g}s"
        )
    session = read(open_recording(file, model_config))
    if from_s >= session.end_s:
        raise VtopError(f"--from {units.clock(from_s)}: {file} ends at {units.clock(session.end_s)}")
    instants_s = [at_s for at in range(many) if (at_s := from_s + at * every_s) <= session.end_s]
    from vtop.ui import run, screenshot

    pictures = run.film(session, instants_s=instants_s, size=size, **view)
    write(output, screenshot.moving(pictures, every_s / speed).encode())
    echo(f"{output}: {len(pictures)} frames, {units.bytes_(output.stat().st_size)}", err=True)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--at", "at_s", type=Seconds(), help="Instant to show. [the end]")
@click.option("--size", type=ScreenSize(), default="120x36", show_default=True)
@click.option("--text", "form", flag_value="text", default=True, help="Plain text on stdout (default).")
@click.option("--json", "form", flag_value="json", help="Every number of the frame as JSON on stdout.")
@click.option("--svg", "svg_to", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--png", "png_to", type=click.Path(path_type=Path, dir_okay=False))
@judge_option
@shape_option
@look_options
@progress.shown("drawing")
def show(
    file: Path,
    *,
    at_s: float | None,
    size: tuple[int, int],
    form: str,
    svg_to: Path | None,
    png_to: Path | None,
    slo: str | None,
    model_config: Path | None,
    **look: Any,
) -> None:
    """Show one frame of a recording without a terminal: as text, JSON, SVG or PNG."""
    from vtop.session.session import read

    only_numbers = form == "json" and svg_to is None and png_to is None
    plain = only_numbers and look["theme"] in (None, DEFAULT_THEME) and not look["hide"]
    if look["window_s"] is None and only_numbers:
        look["window_s"] = DOCUMENT_WINDOW_S
    view = look if plain else view_of(look, document=True)  # a document needs no colours, but a wrong word is reported
    recording = open_recording(file, model_config, slo)
    session = read(recording)
    need_load(slo, file, loaded=bool(session.load.phases))
    if at_s is not None and at_s > session.end_s:
        raise VtopError(f"--at {units.clock(at_s)}: {file} ends at {units.clock(session.end_s)}")
    now_s = session.end_s if at_s is None else at_s
    if only_numbers:
        from vtop.session.frame.fleet import FleetView
        from vtop.session.frame.frame import View

        print_json(session.frame(now_s, View(window_s=view["window_s"], fleet=FleetView())))
        return
    from vtop.ui import run, screenshot

    drawn, text = run.still(session, now_s=now_s, size=size, **view)
    if svg_to is not None:
        write(svg_to, drawn.encode())
    if png_to is not None:
        write(png_to, screenshot.png(drawn))
    if svg_to is None and png_to is None:
        echo(text, nl=False)
