"""The verb report: recordings in, their written evidence out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtop.cli.common import form_of, open_recording, write
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.report.expectations import Outcome
    from vtop.report.model import Report
    from vtop.report.prices import Priced

FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json", ".txt": "txt"}
PRICES_S = 20.0  # of simulation, roughly, that a report may take


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
@click.option("--no-prices", "unpriced", is_flag=True, help="Without what more of each limit would be worth.")
def report(
    files: tuple[Path, ...],
    output: Path | None,
    *,
    form: str | None,
    phases: tuple[str, ...],
    rules: Path | None,
    unpriced: bool,
) -> int:
    """Make the report of a recording, or of several: what was found, with its numbers.

    Where vtop has a profile of the recorded GPU, it says what 10 % more of each limit would be worth: some 20 s of
    simulation at most.

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
    prices = [] if unpriced else _prices(made, [recording.path for recording in recordings])
    try:
        if output is None:
            _print(written, made, outcomes, prices)
        else:
            write(output, _bytes(written, made, outcomes, prices))
            click.echo(str(output), err=True)
    except ModuleNotFoundError as error:
        needed = f"{written} needs the package {error.name}, which vtop installs with itself; md and json need none"
        raise VtopError(needed) from error
    for outcome in outcomes:
        if expectations.CODES[outcome.result]:
            click.echo(
                f"vtop: {outcome.file}, {outcome.name}: {outcome.result}, {outcome.condition}, "
                f"{outcome.where}: {outcome.found}",
                err=True,
            )
    return expectations.exit_code(outcomes)


def _prices(reports: Sequence[Report], files: Sequence[Path]) -> list[Priced]:
    """Of each recording; a terminal is told what is simulated."""
    from vtop.cli.prices import priced_of

    def tell(run: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[Ksimulating the price of each limit: {run} …", err=True, nl=False)

    made = [priced_of(one, file, PRICES_S / len(files), tell) for one, file in zip(reports, files, strict=True)]
    if sys.stderr.isatty() and any(one.prices for one in made):
        click.echo("\r\x1b[K", err=True, nl=False)
    return made


def _bytes(form: str, made: Sequence[Report], outcomes: Sequence[Outcome], prices: Sequence[Priced]) -> bytes:
    if form == "json":
        from vtop.report.render.json import json

        return json(made, outcomes, [one.prices for one in prices])
    from vtop.report.report_document import document

    content = document(made, outcomes, prices)
    if form == "md":
        from vtop.report.render.markdown import markdown

        return markdown(content).encode()
    if form == "txt":
        from vtop.report.render.terminal import text

        return text(content).encode()
    from vtop.report.render.html import html

    return html(content).encode()


def _print(form: str, made: Sequence[Report], outcomes: Sequence[Outcome], prices: Sequence[Priced]) -> None:
    """On stdout; a terminal gets its width and its colours."""
    if form == "txt" and sys.stdout.isatty():
        from rich.console import Console

        from vtop.report.render.terminal import show
        from vtop.report.report_document import document

        show(document(made, outcomes, prices), Console())
        return
    click.echo(_bytes(form, made, outcomes, prices).decode(), nl=False)
