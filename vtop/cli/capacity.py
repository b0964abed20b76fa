"""The verb capacity: the largest rate of arrivals that keeps a service level, measured or simulated."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop import units
from vtop.cli.common import attached, echo, form_of, servers_of
from vtop.cli.load import consent, controller_of
from vtop.cli.options import NumberParam, Seconds, server_options
from vtop.cli.plan_options import FORMATS, Share, output_options
from vtop.cli.plan_source import show
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.engine.runs.measured import Bounds
    from vtop.load.workload.phase import PlannedPhase
    from vtop.plan.capacity import Next, RunResult, Search

SETTLE_S = 2.0  # between runs, so that none meets the backlog of the one before


@click.command()
@server_options
@click.option("--slo", metavar="BOUNDS", required=True, help="What a request must keep: ttft=800ms,tpot=50ms,e2e=10s.")
@click.option("--attain", type=Share(), default="95%", show_default=True, metavar="SHARE", help="Of the requests.")
@click.option("--rule", type=click.Choice(["long-run", "floor"]), default="long-run", show_default=True)
@click.option("--runs", type=click.IntRange(2, 100), default=12, show_default=True, metavar="N", help="Runs a rate.")
@click.option(
    "--n", "many", type=click.IntRange(20), default=500, show_default=True, metavar="N", help="Requests a run."
)
@click.option("--with", "words", default="in=1024 out=256", show_default=True, metavar="WORDS", help="Each request.")
@click.option(
    "--from", "first", type=NumberParam(0.001, 1e6), default=1.0, show_default=True, metavar="R", help="First rate."
)
@click.option("--min", "least", type=NumberParam(0.001, 1e6), default=0.01, show_default=True, metavar="R")
@click.option("--max", "most", type=NumberParam(0.001, 1e6), default=10_000.0, show_default=True, metavar="R")
@click.option("--precision", type=Share(), default="5%", show_default=True, metavar="SHARE", help="Of the bracket.")
@click.option("--seed", type=int, default=101, show_default=True, metavar="N", help="Of the first run.")
@click.option("--deadline", "deadline_s", type=Seconds(least=1), help="Begin no run that would end after it.")
@click.option("--no-hold", is_flag=True, help="Without the long run at the passing rate.")
@click.option("--simulate", "profile", metavar="PROFILE", help="On the simulated engine, in seconds: a fitted profile.")
@click.option("--max-num-seqs", type=click.IntRange(1), default=128, show_default=True, metavar="N", help="Simulated.")
@click.option("--model", metavar="NAME", help="The model to ask for, where several are served.")
@click.option("--yes", is_flag=True, help="Do not ask before loading a server on another host.")
@click.option(
    "--record", "record_to", type=click.Path(path_type=Path, dir_okay=False), help="All runs, as a recording."
)
@output_options
def capacity(*, form: str | None, output: Path | None, record_to: Path | None, **asked: Any) -> None:
    """How many requests a second keep a service level, when they come by themselves?

    Poisson arrivals, whole runs as the unit, a joint service level, and a bracket as the answer. The long-run rule
    judges the mean of the runs with its interval; the floor rule the lowest of them.

    \b
      vtop capacity --url :8000 --slo ttft=800ms,tpot=50ms --record search.jsonl
      vtop capacity --simulate h200-qwen2.5-7b --slo ttft=800ms,tpot=50ms
    """
    written = form_of(output, form, FORMATS)
    from vtop.load.workload.spec import phases, slo
    from vtop.plan.capacity import Plan, Search
    from vtop.report.plan import capacity as words

    bounds = slo(asked["slo"]).record()
    plan = Plan(
        asked["rule"],
        asked["attain"],
        asked["runs"],
        asked["many"],
        tuple(range(asked["seed"], asked["seed"] + asked["runs"])),
        asked["first"],
        asked["least"],
        asked["most"],
        asked["precision"],
        not asked["no_hold"],
    )
    if plan.least_per_s > plan.most_per_s:
        raise VtopError(f"--min {plan.least_per_s:g} is above --max {plan.most_per_s:g}")
    if any(word.partition("=")[0] in ("c", "rate", "n", "for", "seed", "trace") for word in asked["words"].split()):
        raise VtopError(f"--with {asked['words']!r}: rate, requests and seed are the search's; --from, --n and --seed")
    (like,) = phases([f"rate=1 {asked['words']}"], option="--with")
    search = Search(plan)
    if asked["profile"] is not None:
        origin = _simulate(search, like, bounds, asked)
    else:
        origin = _measure(search, like, bounds, asked, record_to)
    sent = sum(one.requests for rate in search.rates() for one in rate.runs)
    answer = words.CapacityAnswer(
        plan,
        search.bracket(),
        search.rates(),
        tuple(search.held.values()),
        tuple(search.refused),
        asked["slo"].replace(",", ", "),
        f"{like.arrival or 'poisson'} arrivals, {asked['words']}",
        origin,
        sent + sum(one.requests for one in (*search.held.values(), *search.refused)),
    )
    show(words.document(answer), answer, "capacity", written, output)
    if answer.bracket.passes_per_s is None:
        sys.exit(1)


def _simulate(search: Search, like: PlannedPhase, bounds: Bounds, asked: dict[str, Any]) -> str:
    from vtop.engine.core.flags import Flags
    from vtop.engine.fit import profile
    from vtop.plan.capacity_runs import simulated

    fitted = profile.load(asked["profile"])
    known = fitted.flags
    flags = Flags(known["num_gpu_blocks"], block_size=known["block_size"], max_num_seqs=asked["max_num_seqs"])
    _search(search, lambda run: simulated(run, like, flags, fitted, bounds), asked["deadline_s"])
    return f"the simulated engine, {fitted.name}, --max-num-seqs {flags.max_num_seqs}, {flags.kv_tokens:,} tokens of KV"


def _measure(search: Search, like: PlannedPhase, bounds: Bounds, asked: dict[str, Any], path: Path | None) -> str:
    from vtop.plan.capacity_runs import measured, phase_of
    from vtop.recording import Request
    from vtop.session.session import Session

    servers = servers_of(asked)
    if len(servers[0]) > 1:
        raise VtopError("capacity is of one server; name one --url")
    consent(asked, servers[0][0])
    attachment = attached(asked, servers, path)
    recording = attachment.recording
    session, requests, done = Session(recording.start), list[Request](), list[Any]()

    def take() -> None:
        for event in recording.take():
            session.apply(event)
            if isinstance(event, Request) and event.end_s is not None:
                requests.append(event)

    def run(one: Next) -> RunResult:
        done.append(phase_of(like, one))
        controller = controller_of(asked, servers, recording, attachment.began_s, tuple(done), first=len(done) - 1)
        controller.start()
        try:
            while not controller.finished.wait(0.25):
                take()
        finally:
            controller.stop()
        if controller.failed is not None:
            raise VtopError(controller.failed)
        time.sleep(SETTLE_S + recording.start.interval_s)  # the scrape after its end is part of the run
        take()
        found = measured(one, session, requests, len(done) - 1, bounds)
        requests.clear()
        return found

    attachment.start()
    try:
        _search(search, run, asked["deadline_s"])
    except KeyboardInterrupt:
        search.end = "stopped"
    finally:
        attachment.stop("the search is over")
    return servers[0][0].url


def _search(search: Search, run: Callable[[Next], RunResult], deadline_s: float | None) -> None:
    """Run after run until the search is at its end; a line on stderr for each rate that is judged."""
    began_s, longest_s, told = time.monotonic(), 0.0, set[float]()
    refused = 0
    while (one := search.next()) is not None:
        since_s = time.monotonic() - began_s
        if deadline_s is not None and since_s + longest_s > deadline_s:
            search.end = "deadline"
            return
        result = run(one)
        longest_s = max(longest_s, time.monotonic() - began_s - since_s)
        search.tell(result)
        if result.why_not is not None:
            refused += 1
            echo(f"rate={one.rate_per_s:g} seed {one.seed}: not counted, {result.why_not}", err=True)
            if refused >= 3:
                search.end = "client limited" if "client" in result.why_not else "server changed"
                return
            continue
        refused = 0
        for rate in search.rates():
            if rate.rate_per_s not in told and rate.verdict != "more":
                told.add(rate.rate_per_s)
                now = search.bracket()
                echo(
                    f"rate={rate.rate_per_s:g} {rate.verdict}: {(rate.mean_ratio or 0.0):.2%} mean, lowest "
                    f"{(rate.lowest_ratio or 0.0):.2%} of {len(rate.runs)} runs; between "
                    f"{units.number(now.passes_per_s)} and {units.number(now.fails_per_s)} requests/s",
                    err=True,
                )
