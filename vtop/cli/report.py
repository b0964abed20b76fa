"""The verb report: recordings in, their written evidence out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtop.cli.common import echo, echo_document, form_of, open_recording, write
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.report.expectations import Outcome
    from vtop.report.model import Report

FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json", ".txt": "txt"}


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("-o", "output", type=click.Path(path_type=Path, dir_okay=False), help="Where to. [report.html]")
@click.option("--format", "form", type=click.Choice(["html", "md", "json", "txt"]), help="[by the ending of -o]")
@click.option(
    "--phase", "phases", multiple=True, metavar="FROM-TO,…", help="Phases to report: 0:30-2:10,warm=2:10-3:00."
)
@click.option(
    "--expect",
    "rules",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML of conditions; exit 1 if one fails.",
)
def report(
    files: tuple[Path, ...], output: Path | None, form: str | None, phases: tuple[str, ...], rules: Path | None
) -> int:
    """Make the report of a recording, or of several: what was found, with its numbers.

    HTML (one file, report.html unless -o names another), or with --format: md, json and txt, on stdout without -o.
    """
    written = form_of(output, form, FORMATS, ".html, .md, .json or .txt", without="html")
    if written == "html" and output is None:
        output = Path("report.html")
    if output is not None and output.exists():
        raise VtopError(f"{output}: exists already; name a new file, or remove it first")
    from vtop.report import expectations
    from vtop.report.phases import asked_phases

    asked = [stretch for text in phases for stretch in asked_phases(text)]
    conditions = expectations.read(rules) if rules is not None else ()
    from vtop.report.model import build

    recordings = [open_recording(file) for file in files]
    made = [build(recording, recording.path.name, asked) for recording in recordings]
    outcomes = [outcome for one in made for outcome in expectations.judge(one, conditions)]
    try:
        if output is None:
            _print(written, made, outcomes)
        else:
            write(output, _bytes(written, made, outcomes))
            echo(str(output), err=True)
    except ModuleNotFoundError as error:
        needed = f"{written} needs the package {error.name}, which vtop installs with itself; md and json need none"
        raise VtopError(needed) from error
    for outcome in outcomes:
        if expectations.CODES[outcome.result]:
            echo(
                f"vtop: {outcome.file}, {outcome.name}: {outcome.result}, {outcome.condition}, "
                f"{outcome.where}: {outcome.found}",
                err=True,
            )
    return expectations.exit_code(outcomes)


def _bytes(form: str, made: Sequence[Report], outcomes: Sequence[Outcome]) -> bytes:
    if form == "json":
        from vtop.report.render.json import json

        return json(made, outcomes)
    from vtop.report.report_document import document

    content = document(made, outcomes)
    if form == "md":
        from vtop.report.render.markdown import markdown

        return markdown(content).encode()
    if form == "txt":
        from vtop.report.render.terminal import text

        return text(content).encode()
    from vtop.report.render.html import html

    return html(content).encode()


def _print(form: str, made: Sequence[Report], outcomes: Sequence[Outcome]) -> None:
    """On stdout; a terminal gets its width and its colours."""
    if form == "txt" and sys.stdout.isatty():
        from rich.console import Console

        from vtop.report.render.terminal import show
        from vtop.report.report_document import document

        show(document(made, outcomes), Console())
        return
    echo_document(_bytes(form, made, outcomes), form)
