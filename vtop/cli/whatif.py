"""The verbs whatif and fit: what other flags would have done to a recorded load, and the timing that says so."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli import progress
from vtop.cli.common import echo, form_of, given_shape, open_recording, put, write
from vtop.cli.options import shape_option, together
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.engine.core.flags import Flags
    from vtop.engine.fit.profile import Profile
    from vtop.engine.runs.measured import Bounds
    from vtop.engine.runs.runs import Run

FORMS = ("txt", "md", "json", "html")
SEQS, BUDGET = 128, 8192  # what a recording is taken to have been made with, unless told
QUICK = 4  # rounds of a fit that is made on the way

_NUMBER = click.IntRange(min=1)
_was_options = together(
    click.option(
        "--was-max-num-seqs",
        "was_seqs",
        type=_NUMBER,
        metavar="N",
        help=f"The recorded flag's value. [as recorded, or {SEQS}]",
    ),
    click.option(
        "--was-max-num-batched-tokens",
        "was_budget",
        type=_NUMBER,
        metavar="N",
        help=f"The recorded flag's value. [as recorded, or {BUDGET}]",
    ),
    shape_option,
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--max-num-seqs", "seqs", type=_NUMBER, metavar="N", help="Requests that may run at once.")
@click.option("--kv-tokens", "kv_tokens", type=_NUMBER, metavar="N", help="KV pool in tokens.")
@click.option("--max-num-batched-tokens", "budget", type=_NUMBER, metavar="N", help="Token budget of a step.")
@click.option("--search", "search_for", metavar="FLAG=LIST", help="One row per value: max-num-seqs=8..128 or 8,10,12.")
@click.option("--best", "by", metavar="NUMBER", help="What --search optimizes. [output_per_s; good_per_s with --slo]")
@click.option("--prices", "priced", is_flag=True, help="Show what 10 % more of each limit would be worth.")
@click.option("--slo", metavar="BOUNDS", help="Count the requests that meet all of: ttft=800ms,tpot=50ms,e2e=10s.")
@click.option("--phase", "phase", type=_NUMBER, metavar="N", help="Only this phase of the load. [all]")
@click.option("--profile", "profile_name", metavar="NAME|FILE", help="Timing profile. [the GPU's; else fitted on FILE]")
@click.option("--profile-alone", is_flag=True, help="Use the profile alone, without the recorded host's factors.")
@_was_options
@click.option("--format", "form", type=click.Choice(FORMS), help="Output format. [by the ending of -o]")
@click.option("-o", "output", type=click.Path(path_type=Path, dir_okay=False), help="Output file. [stdout]")
@progress.shown("simulating")
def whatif(file: Path, *, form: str | None, output: Path | None, **asked: Any) -> None:
    """What would other flags have done to this recording's load?

    Replays the recorded requests on a simulated engine: first with the recorded flags, which shows the model's error,
    then with yours, with the factors of the recorded host and GPU. Without a flag it only shows the first.
    """
    written = form_of(output, form, FORMS)
    if output is not None and output.exists():
        raise VtopError(f"{output}: exists already; name a new file, or remove it first")
    from vtop.engine.fit.calibration import AS_FITTED, host_factors_of
    from vtop.engine.whatif.flag_search import asked as wanted
    from vtop.engine.whatif.flag_search import criterion, search
    from vtop.engine.whatif.whatif import TooFarOff, what_if
    from vtop.report.whatif import document as words

    bounds = _bounds(asked["slo"])
    what = wanted(asked["search_for"]) if asked["search_for"] else None
    number = criterion(asked["by"], bounds) if what is not None else None
    if asked["by"] and what is None:
        raise VtopError("--best goes with --search: it is what its rows are judged by")
    changed = [name for name in ("seqs", "kv_tokens", "budget", "search_for", "slo") if asked[name]]
    if asked["priced"] and changed:
        raise VtopError("--prices is of the recorded flags: ask for other flags, --search or --slo without it")
    found, taken = runs_of(file, asked)
    profile = profile_for(asked["profile_name"], found, file)
    factors = [AS_FITTED if asked["profile_alone"] else host_factors_of(run, profile) for run in found]
    began_s = time.perf_counter()
    if asked["priced"]:
        from vtop.cli.prices import priced

        made = priced(list(zip(found, factors, strict=True)), profile)
        _said(sum(one.span_s for one in made.prices), time.perf_counter() - began_s)
        if written == "json":
            from vtop.report.whatif.answer_json import prices_json

            put(output, prices_json(file.name, profile, made, taken), written)
        else:
            put(output, words.prices_document(file.name, profile, made, taken), written)
        return
    answers: list[words.Answer] = []
    refused: list[TooFarOff] = []
    for run, own in zip(found, factors, strict=True):
        flags = _changed(run.flags, asked)
        try:
            if what is None or number is None:
                answers.append(what_if(run, profile, flags, bounds, own))
            else:
                answers.append(search(run, profile, flags, what, bounds=bounds, number=number, factors=own))
        except TooFarOff as error:
            refused.append(error)
    if not answers:
        raise refused[0]
    for one in refused:
        echo(f"vtop: {one}", err=True)
    _said(sum(words.simulated_s(answer) for answer in answers), time.perf_counter() - began_s)
    if written == "json":
        from vtop.report.whatif.answer_json import json

        put(output, json(file.name, profile, answers, taken), written)
    else:
        put(output, words.document(file.name, profile, answers, taken), written)


def _said(simulated_s: float, took_s: float) -> None:
    echo(f"simulated {simulated_s:,.0f} s in {took_s:.1f} s: {simulated_s / took_s:,.0f} times as fast", err=True)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("-o", "output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="New .toml file.")
@click.option("--name", metavar="NAME", help="Name of the profile. [the file's]")
@_was_options
@progress.shown("fitting")
def fit(files: tuple[Path, ...], output: Path, name: str | None, **asked: Any) -> None:
    """Fit the simulated engine's timing to recordings, and show its error and where it holds.

    All recordings must be of one server: best a sweep from one request in flight to many (vtop sweep), and a load that
    fills its pool.
    """
    if output.suffix != ".toml":
        raise VtopError(f"-o {output}: a profile is a .toml file")
    if output.exists():
        raise VtopError(f"{output}: exists already; name a new file, or remove it first")
    if not output.absolute().parent.is_dir():
        raise VtopError(f"{output}: there is no folder {output.parent}")
    from vtop.engine.fit import profile
    from vtop.engine.fit.fit import fit as fitted

    given = [run for file in files for run in runs_of(file, asked)[0]]
    echo(f"fitting {len(given)} {'run' if len(given) == 1 else 'runs'}; a minute or two …", err=True)
    names = ", ".join(dict.fromkeys(file.name.partition(".jsonl")[0] for file in files))
    server = next((run.server for run in given if run.server is not None), None)
    origin = ", ".join(filter(None, (given[0].gpu, server))) or "a server"
    made = profile.of_fit(fitted(given), name or output.stem, f"{origin}; fitted on {names}")
    write(output, profile.dump(made).encode())
    for line in profile.report(made):
        echo(line)
    echo(str(output), err=True)


def runs_of(file: Path, asked: dict[str, Any]) -> tuple[list[Run], list[str]]:
    """The runs of a recording, and which of their flags are taken for granted. Raises VtopError where there is none."""
    from vtop.engine.core.model_shape import shape_of
    from vtop.engine.runs.runs import Run, read

    path = open_recording(file).path
    was = {"max_num_seqs": asked["was_seqs"], "max_num_batched_tokens": asked["was_budget"]}
    found = read(path, {name: value for name, value in was.items() if value is not None})
    shape = shape_of(given_shape(asked["model_config"]))
    runs = [replace(run, shape=shape or run.shape) for run in found if isinstance(run, Run)]
    if (phase := asked.get("phase")) is not None:
        known = sorted(run.phase + 1 for run in runs if run.phase is not None)
        runs = [run for run in runs if run.phase == phase - 1]
        if not runs:
            said = f"it has {', '.join(map(str, known))}" if known else "it has none of vtop's own load"
            raise VtopError(f"--phase {phase}: no such phase that can be replayed in {file}; {said}")
    else:
        why = [one for one in found if isinstance(one, str)]
        if not runs:
            more = f", and {len(why) - 1} more" if len(why) > 1 else ""
            raise VtopError(f"{file}: no load in it that can be replayed: {why[0] if why else 'it is empty'}{more}")
        for one in why:
            echo(f"vtop: {file}: left out: {one}", err=True)
    from vtop.engine.runs.settled import at_limit

    settled = [at_limit(run) for run in runs]
    taken = list(dict.fromkeys(words for _, words in settled if words))
    taken += dict.fromkeys(
        f"--max-num-batched-tokens {run.flags.max_num_batched_tokens}"
        for run, _ in settled
        if "max_num_batched_tokens" not in run.whence
    )
    for line in taken:
        flag, value, *why = line.split(maxsplit=2)
        said = f", {why[0]}" if why else ""
        echo(f"vtop: {flag} is not on record: {value} taken{said}; was it another? --was{flag[1:]} N", err=True)
    return [run for run, _ in settled], [" ".join(line.split()[:2]) for line in taken]


def _changed(flags: Flags, asked: dict[str, Any]) -> Flags:
    """The recorded flags with those that were asked for. Raises VtopError for what vLLM refuses, too."""
    return replace(
        flags,
        max_num_seqs=asked["seqs"] or flags.max_num_seqs,
        num_gpu_blocks=asked["kv_tokens"] // flags.block_size if asked["kv_tokens"] else flags.num_gpu_blocks,
        max_num_batched_tokens=asked["budget"] or flags.max_num_batched_tokens,
    )


def _bounds(text: str | None) -> Bounds | None:
    if text is None:
        return None
    from vtop.load.workload.spec import slo

    return slo(text).record()


def profile_for(name: str | None, runs: Sequence[Run], file: Path) -> Profile:
    """The profile asked for, or that of the recorded GPU, or one fitted on the recording itself."""
    from vtop.engine.fit import profile
    from vtop.engine.fit.fit import fit as fitted

    if name is not None:
        return profile.load(name)
    gpu = runs[0].gpu
    if (known := profile.of_gpu(gpu)) is not None:
        return known
    whose = f"of {gpu}" if gpu is not None else "of its GPU, which is not on record"
    echo(
        f"vtop: no profile {whose}: fitting one on {file}, a minute or so; keep it with vtop fit {file} -o mine.toml",
        err=True,
    )
    return profile.of_fit(fitted(runs, rounds=QUICK), f"fitted on {file.name}", f"fitted on {file.name} alone")
