"""The verb report: recordings in, their written evidence out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtop.cli import progress
from vtop.cli.common import echo, form_of, need_load, open_recording, put
from vtop.cli.options import judge_option
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.report.expectations import Outcome
    from vtop.report.model import Report
    from vtop.report.prices import Priced
    from vtop.report.render.document import Document

FORMS = ("html", "md", "json", "txt")
PRICES_S = 20.0  # of simulation, roughly, that a report may take


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("-o", "output", type=click.Path(path_type=Path, dir_okay=False), help="Output file. [report.html]")
@click.option("--format", "form", type=click.Choice(FORMS), help="Output format. [by the ending of -o]")
@click.option(
    "--phase", "phases", multiple=True, metavar="FROM-TO,…", help="Phases to report: 0:30-2:10,warm=2:10-3:00."
)
@click.option(
    "--expect",
    "rules",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML of conditions; exit 1 if one fails.",
)
@judge_option
@click.option("--no-prices", "unpriced", is_flag=True, help="Leave out the prices of the limits.")
@progress.shown("making the report")
def report(
    files: tuple[Path, ...],
    output: Path | None,
    *,
    form: str | None,
    phases: tuple[str, ...],
    rules: Path | None,
    slo: str | None,
    unpriced: bool,
) -> int:
    """Make a report of one or more recordings: the findings, with their numbers.

    If vtop has a profile of the recorded GPU, it shows what 10 % more of each limit would be worth: at most about 20 s
    of simulation.

    HTML (one file, report.html unless -o names another), or with --format md, json or txt, on stdout without -o.
    """
    written = form_of(output, form, FORMS, without="html")
    if written == "html" and output is None:
        output = Path("report.html")
    if output is not None and output.exists():
        raise VtopError(f"{output}: exists already; name a new file, or remove it first")
    from vtop.report import expectations
    from vtop.report.phases import asked_phases

    asked = [stretch for text in phases for stretch in asked_phases(text)]
    conditions = expectations.read(rules) if rules is not None else ()
    from vtop.report.model import build

    recordings = [open_recording(file, slo=slo) for file in files]
    made = [build(recording, recording.path.name, asked) for recording in recordings]
    for one, file in zip(made, files, strict=True):
        need_load(slo, file, loaded=any(phase.load is not None for phase in one.phases))
    outcomes = [outcome for one in made for outcome in expectations.judge(one, conditions)]
    prices = [] if unpriced else _prices(made, [recording.path for recording in recordings])
    put(output, _content(written, made, outcomes, prices), written)
    for outcome in outcomes:
        if expectations.CODES[outcome.result]:
            echo(
                f"vtop: {outcome.file}, {outcome.name}: {outcome.result}, {outcome.condition}, "
                f"{outcome.where}: {outcome.found}",
                err=True,
            )
    return expectations.exit_code(outcomes)


def _prices(reports: Sequence[Report], files: Sequence[Path]) -> list[Priced]:
    """Of each recording; a terminal is told what is simulated."""
    from vtop.cli.prices import priced_of

    def tell(run: str) -> None:
        if (line := progress.current()) is not None:
            line.say(f"simulating the price of each limit: {run}")

    return [priced_of(one, file, PRICES_S / len(files), tell) for one, file in zip(reports, files, strict=True)]


def _content(
    form: str, made: Sequence[Report], outcomes: Sequence[Outcome], prices: Sequence[Priced]
) -> Document | bytes:
    if form == "json":
        from vtop.report.render.json import json

        return json(made, outcomes, [one.prices for one in prices])
    from vtop.report.report_document import document

    return document(made, outcomes, prices)
