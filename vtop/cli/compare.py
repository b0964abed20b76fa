"""The verb compare: recordings in, their differences out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli import progress
from vtop.cli.common import echo, form_of, need_load, open_recording, put
from vtop.cli.options import ParamType, judge_option
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.report.compare.compare import Run
    from vtop.report.compare.parts import Comparison
    from vtop.report.compare.phase_blocks import Recorded
    from vtop.report.phases import TimeRange
    from vtop.report.render.document import Document

FORMS = ("txt", "md", "json", "html", "svg")


class Percent(ParamType[float]):
    """5, 5%: as a ratio."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            percents = float(str(value).strip().removesuffix("%"))
        except ValueError:
            percents = math.nan
        if not 0 <= percents < math.inf:
            self.fail(f"{value!r} is not a share: write 5% or 5", param, ctx)
        return percents / 100


@click.command()
@click.argument("sides", nargs=-1, required=True, metavar="A B…")
@click.option("-o", "output", type=click.Path(path_type=Path, dir_okay=False), help="Output file. [stdout]")
@click.option("--format", "form", type=click.Choice(FORMS), help="Output format. [by the ending of -o]")
@click.option(
    "--phase", "phases", multiple=True, metavar="FROM-TO,…", help="Time spans to compare, in every recording."
)
@judge_option
@click.option("--unlike", is_flag=True, help="Compare unlike runs too: different lengths, loads or models.")
@click.option("--confidence", type=Percent(), default="95%", show_default=True, help="Of all intervals jointly.")
@click.option(
    "--fail-over", "over", type=Percent(), metavar="5%", help="Exit code 1 if something is worse by more than this."
)
@click.option(
    "--on", metavar="NUMBER,…", help="Numbers that --fail-over checks. [output_per_s,ttft.mean_s,itl.mean_s,…]"
)
@progress.shown("comparing")
def compare(
    sides: tuple[str, ...],
    *,
    output: Path | None,
    form: str | None,
    phases: tuple[str, ...],
    slo: str | None,
    unlike: bool,
    confidence: float,
    over: float | None,
    on: str | None,
) -> int:
    """Compare recordings phase by phase: the first with each of the others.

    A side is a recording. Repeats of a run: A1,A2,A3. One run in several files: A1+A2+A3.
    """
    if len(sides) < 2:
        raise VtopError(f"compare {sides[0]} with what? name two sides or more: vtop compare A B")
    if not 0.5 <= confidence < 1:
        raise VtopError(f"--confidence {confidence * 100:g} %: between 50 and 100, such as 95%")
    written = form_of(output, form, FORMS)
    if output is not None and output.exists():
        raise VtopError(f"{output}: exists already; name a new file, or remove it first")
    from vtop.report.compare import compare as report
    from vtop.report.compare import gate
    from vtop.report.phases import asked_phases

    if on is not None and over is None:
        raise VtopError("--on goes with --fail-over 5%")
    names = gate.names_of(on) if on is not None else gate.DEFAULT
    asked = [stretch for text in phases for stretch in asked_phases(text)]
    torn: list[str] = []
    found = report.of_sides([_side(word, asked, torn, slo) for word in sides], unlike=unlike, confidence=confidence)
    put(output, _content(written, found), written)
    if over is None:
        return 0
    judged = gate.judge(found, over, names)
    for line in torn:
        echo(f"vtop: not judged: {line}", err=True)
    for line in judged.open:
        echo(f"vtop: not judged: {line}", err=True)
    for line in judged.failed:
        echo(f"vtop: {line}", err=True)
    return 1 if judged.failed else 3 if judged.open or torn else 0


def _side(word: str, asked: list[TimeRange], torn: list[str], slo: str | None) -> list[Run]:
    """A1,A2: runs; A1+A2: one run in two files. A file whose own name has such a sign is that file.

    torn: takes a sentence for each file that lacks something.
    """
    runs = [word] if Path(word).exists() else word.split(",")
    files = [[run] if Path(run).exists() else run.split("+") for run in runs]
    if not all(file for run in files for file in run):
        raise VtopError(f"{word}: a name is missing; write A1,A2 for repeats and A1+A2 for one run in two files")
    return [tuple(_recorded(Path(file), asked, torn, slo) for file in run) for run in files]


def _recorded(file: Path, asked: list[TimeRange], torn: list[str], slo: str | None) -> Recorded:
    from vtop.report.compare.compare import recorded
    from vtop.session.session import read

    recording = open_recording(file, slo=slo)
    session = read(recording)
    need_load(slo, file, loaded=bool(session.load.phases))
    if recording.faulty or not session.finished:
        lacks = f"lines of it cannot be read ({recording.faulty})" if recording.faulty else "it was broken off"
        torn.append(f"all of {file.name}: {lacks}")
    return recorded(session, file.name, asked)


def _content(form: str, found: Comparison) -> Document | bytes:
    if form == "json":
        from vtop.report.compare.comparison_json import json

        return json(found)
    if form == "svg":
        from vtop.report.compare import difference_figure

        figure = difference_figure.figure(found)
        if figure is None:
            raise VtopError("there is nothing to draw: no rate, TTFT or ITL is known on two sides")
        return difference_figure.svg(figure).encode()
    from vtop.report.compare.compare_document import document

    return document(found, drawn=form != "txt")
