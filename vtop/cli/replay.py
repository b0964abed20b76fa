"""Verbs that look at a recording: replay, show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vtop import units
from vtop.cli.common import echo, need_terminal, open_recording, print_json, view_of, write
from vtop.cli.options import (
    DEFAULT_THEME,
    DOCUMENT_WINDOW_S,
    NumberParam,
    ScreenSize,
    Seconds,
    look_options,
    shape_option,
)
from vtop.errors import VtopError


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--speed", type=NumberParam(0.01, 10000), default=1.0, show_default=True)
@click.option("--at", "at_s", type=Seconds(), help="Start there, paused. [the beginning, moving]")
@shape_option
@look_options
def replay(file: Path, speed: float, at_s: float | None, model_config: Path | None, **look: Any) -> None:
    """Show a recording on the same screen, also while it is still being written."""
    view = view_of(look)
    recording = open_recording(file, model_config)
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
@click.option("--at", "at_s", type=Seconds(), help="Instant to show. [the end]")
@click.option("--size", type=ScreenSize(), default="120x36", show_default=True)
@click.option("--text", "form", flag_value="text", default=True, help="Plain text on stdout (default).")
@click.option("--json", "form", flag_value="json", help="Every number of the frame as JSON on stdout.")
@click.option("--svg", "svg_to", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--png", "png_to", type=click.Path(path_type=Path, dir_okay=False))
@shape_option
@look_options
def show(
    file: Path,
    *,
    at_s: float | None,
    size: tuple[int, int],
    form: str,
    svg_to: Path | None,
    png_to: Path | None,
    model_config: Path | None,
    **look: Any,
) -> None:
    """One frame of a recording without a terminal: text, JSON, SVG or PNG."""
    from vtop.session.session import read

    only_numbers = form == "json" and svg_to is None and png_to is None
    plain = only_numbers and look["theme"] in (None, DEFAULT_THEME) and not look["hide"]
    if look["window_s"] is None:
        look["window_s"] = DOCUMENT_WINDOW_S
    view = look if plain else view_of(look, document=True)  # a document needs no colours, but a wrong word is said
    recording = open_recording(file, model_config)
    session = read(recording)
    if at_s is not None and at_s > session.end_s:
        raise VtopError(f"--at {units.clock(at_s)}: {file} ends at {units.clock(session.end_s)}")
    now_s = session.end_s if at_s is None else at_s
    if only_numbers:
        from vtop.session.frame.frame import View

        print_json(session.frame(now_s, View(window_s=view["window_s"])))
        return
    from vtop.ui import run, screenshot

    drawn, text = run.still(session, now_s=now_s, size=size, **view)
    if svg_to is not None:
        write(svg_to, drawn.encode())
    if png_to is not None:
        write(png_to, screenshot.png(drawn))
    if svg_to is None and png_to is None:
        echo(text, nl=False)
