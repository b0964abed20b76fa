"""Verbs that make something else of recordings, or look into them: export, check, cut, merge."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vtop import units
from vtop.cli import progress
from vtop.cli.common import echo, open_recording, print_json
from vtop.cli.options import Seconds
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.recording import AnyEvent, FileRecording
    from vtop.recording.check import Contents
    from vtop.recording.merge import Extent

FORMATS = ("csv", "parquet", "perfetto", "prometheus")
_ENDINGS = {"perfetto": ".trace.json", "prometheus": ".om"}
_FORCE = click.option("--force", is_flag=True, help="Overwrite existing files.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--to", "form", type=click.Choice(FORMATS), help="Output format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=str),
    help="For tables FOLDER/ or a prefix; else a file, or - for stdout. [named after FILE, in this folder]",
)
@click.option("--every", "every_s", type=Seconds(), help="prometheus: at most one sample per this time. [all]")
@_FORCE
@progress.shown("writing")
def export(file: Path, *, form: str | None, output: str | None, every_s: float | None, force: bool) -> None:
    """Export a recording to other programs: tables, a trace for ui.perfetto.dev, text to backfill a Prometheus.

    csv and parquet make six files (samples, requests, phases, events, engines, gpus); their paths are printed.
    """
    if form is None:
        raise VtopError(f"export to what? --to {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if every_s is not None and form != "prometheus":
        raise VtopError(f"--every goes with --to prometheus, not with {form}")
    recording = open_recording(file)
    with _stdout_may_end():
        if form in _ENDINGS:
            out = Path(output if output is not None else _stem(file) + _ENDINGS[form])
            paths = _single(form)(recording, out, every_s or 0.0, force)
        else:
            paths = _tables(form)(recording, *_where(_stem(file) if output is None else output), force)
    for path in paths:
        if str(path) != "-":
            echo(path)


def _single(form: str) -> Callable[[FileRecording, Path, float, bool], list[Path]]:
    from vtop.export.formats import perfetto, prometheus

    if form == "perfetto":
        return lambda recording, out, _, force: perfetto.write(recording, out, force=force)
    return lambda recording, out, every_s, force: prometheus.write(recording, out, every_s=every_s, force=force)


def _tables(form: str) -> Callable[[FileRecording, Path, bool, bool], list[Path]]:
    from vtop.export.formats import csv, parquet

    write = csv.write if form == "csv" else parquet.write
    return lambda recording, out, folder, force: write(recording, out, folder=folder, force=force)


def _where(output: str) -> tuple[Path, bool]:
    """A folder (made where it is missing) when it is one or ends in a slash; else a prefix."""
    if output == "-":
        raise VtopError("-o -: tables are several files; name a folder or a prefix")
    path = Path(output)
    if not path.is_dir() and not output.endswith(os.sep):
        return path, False
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VtopError(f"{output}: cannot be made ({error.strerror})") from error
    return path, True


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@progress.shown("checking")
def check(file: Path, *, as_json: bool) -> None:
    """Show what a recording holds and what is wrong with it; exit code 1 if anything is."""
    from vtop.recording.check import RecordingCheck

    recording = open_recording(file)
    looked = RecordingCheck(recording.start)
    for event in _events(recording):
        looked.take(event)
    contents = looked.contents(recording.faults, recording.faulty, recording.backward)
    size = recording.path.stat().st_size
    if as_json:
        name = os.fsencode(file).decode("utf-8", "replace")
        print_json({"file": name, "bytes": size, "lines": recording.lines, "contents": contents})
    else:
        for line in _said(file, size, recording.lines, contents):
            echo(line)
    if contents.problems:
        click.get_current_context().exit(1)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--from", "from_s", type=Seconds(), default=0.0, help="Start of the part. [the beginning]")
@click.option("--to", "to_s", type=Seconds(), help="End of the part. [the end]")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="New file: .jsonl, .gz or .zst.")
@_FORCE
@progress.shown("cutting")
def cut(file: Path, *, from_s: float, to_s: float | None, output: Path, force: bool) -> None:
    """Cut part of a recording into a recording of its own, with the same numbers: --from 0:30 --to 2:10."""
    from vtop.recording.cut import cut as lines_of

    if to_s is not None and to_s <= from_s:
        raise VtopError(f"--to {units.clock(to_s)} is not after --from {units.clock(from_s)}")
    if from_s == 0.0 and to_s is None:
        raise VtopError("cut what? name a stretch: --from 0:30 --to 2:10")
    recording = open_recording(file)
    until = "the end" if to_s is None else units.clock(to_s)
    note = f"cut out of {file.name}: {units.clock(from_s)} to {until}"
    end_s = 0.0

    def seen() -> Iterator[AnyEvent]:
        nonlocal end_s
        for event in _events(recording):
            end_s = event.t
            yield event
        for name, at_s in (("--from", from_s), ("--to", to_s)):
            if at_s is not None and at_s > end_s:
                raise VtopError(f"{name} {units.clock(at_s)}: {file} ends at {units.clock(end_s)}")

    _write_lines(output, lines_of(recording.start, seen(), from_s, math.inf if to_s is None else to_s, note), force)
    echo(output)


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="New file: .jsonl, .gz or .zst.")
@_FORCE
@progress.shown("merging")
def merge(files: tuple[Path, ...], *, output: Path, force: bool) -> None:
    """Merge recordings into one session: different servers side by side, one server one after another.

    They are aligned by the wall clock; vtop says which of the two it did.
    """
    from vtop.recording.merge import Extent, merged, plan

    extents: list[Extent] = []
    paths: dict[int, Path] = {}
    for file in files:
        recording = open_recording(file)
        extent = Extent(file.name, recording.start)
        for event in _events(recording):
            extent.take(event)
        recording.close()
        extents.append(extent)
        paths[id(extent)] = file
    planned = plan(extents)
    streams = [_events(open_recording(paths[id(part.extent)])) for part in planned.parts]
    _write_lines(output, merged(planned, streams), force)
    echo(planned.words, err=True)
    echo(output)


def _write_lines(output: Path, events: Iterator[AnyEvent], force: bool) -> None:
    from vtop.export.files import new_file
    from vtop.recording import encode

    with new_file(output, force=force) as file:
        for event in events:
            file.write(encode(event) + b"\n")


def _events(recording: FileRecording) -> Iterator[AnyEvent]:
    from vtop.recording import events_of

    return events_of(recording)


def _said(file: Path, size: int, lines: int, found: Contents) -> Iterator[str]:
    """What is in a recording, a line each."""
    from datetime import UTC, datetime

    from vtop.draw.theme import clean
    from vtop.server_kinds import registry

    began = datetime.fromtimestamp(found.unix_s, UTC)
    yield f"{file}: recorded by vtop {clean(found.vtop)} in format {found.format}"
    ended = f"ended: {clean(found.end)}" if found.end is not None else "no end"
    yield f"  {began:%Y-%m-%d %H:%M:%S} UTC, {units.clock(found.duration_s)} long, {ended}"
    yield f"  {units.bytes_(size)}, {lines:,} lines"
    if found.origin:
        yield f"  not recorded from a server: {clean(found.origin)}"
    for number, server in enumerate(found.servers):
        title = clean(registry.of(server.kind).title)
        who = [
            clean(server.url),
            f"{title} {clean(server.version)}" if server.version else "",
            *map(clean, server.models),
        ]
        yield f"  server {number}  " + ", ".join(word for word in who if word)
        counted = [f"{server.scrapes:,} scrapes ({server.full_scrapes:,} full)", f"{server.series} series"]
        yield f"    {', '.join(counted)}, {server.outages} attempts without a scrape"
    for device in found.devices:
        yield f"  GPU {device.index}  {clean(device.name or 'unnamed')}, {device.readings:,} readings"
    for phase in found.phases:
        until = units.clock(phase.end_s) if phase.end_s is not None else "no end"
        told = f"{phase.requests:,} requests, {phase.ended:,} ended, {phase.failed:,} failed"
        yield f"  phase {phase.phase + 1}  {clean(phase.spec)}: {units.clock(phase.begin_s)} to {until}, {told}"
    others = {kind: found.events.get(kind, 0) for kind in ("mark", "note")}
    yield "  " + ", ".join(f"{count} {kind}s" for kind, count in others.items())
    for remark in found.remarks:
        yield f"remark: {clean(remark)}"
    for problem in found.problems:
        yield f"problem: {clean(problem)}"
    if not found.problems:
        yield "no problem found"


def _stem(file: Path) -> str:
    """run.jsonl.gz is run."""
    return file.name.partition(".jsonl")[0] or file.name


@contextmanager
def _stdout_may_end() -> Iterator[None]:
    """`vtop export … -o - | head`: whoever reads has seen enough."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        click.get_current_context().exit(141)
