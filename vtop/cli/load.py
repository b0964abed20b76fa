"""Verbs that drive a server: a sweep on record, a generator alone; and the load beside a screen or a recording."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop import units
from vtop.cli.options import DEFAULT_URL, Seconds, server_options
from vtop.cli.shared import attached, servers_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.load.conductor import Conductor
    from vtop.load.spec import Phase
    from vtop.recording import LiveRecording
    from vtop.recording.events import Target
    from vtop.session.frame import Quantiles
    from vtop.session.session import Session
    from vtop.sources.connection import Access


def conductor_of(
    asked: dict[str, Any],
    servers: tuple[list[Target], list[Access]],
    recording: LiveRecording,
    began_s: float,
    phases: Sequence[Phase],
) -> Conductor:
    """The load on the first server. Raises VtopError; asks before it loads another host."""
    from vtop.load.conductor import Conductor
    from vtop.load.probe import Door
    from vtop.load.spec import slo

    target, access = servers[0][0], servers[1][0]
    bounds = slo(asked["slo"]).record() if asked.get("slo") else None
    if not target.local and not asked["yes"]:
        question = f"Put load on {target.url}, which is another host?"
        if not sys.stdin.isatty():
            raise VtopError(f"{target.url} is another host: say --yes to put load on it")
        click.confirm(question, abort=True, err=True)
    door = Door(
        url=target.url,
        bearer=access.api_key,
        headers=access.headers,
        basic=access.basic,
        ca_file=str(access.ca_file) if access.ca_file is not None else None,
        insecure=access.insecure,
    )
    return Conductor(phases, door, recording.append, recording.clock, began_s, model=asked.get("model"), slo=bounds)


def phases_of(asked: dict[str, Any]) -> tuple[Phase, ...]:
    """The phases of --load; none without it. Raises VtopError for what cannot be understood."""
    if not asked["loads"]:
        if asked["slo"]:
            raise VtopError("--slo goes with --load: it is about the load's own requests")
        return ()
    from vtop.load.spec import phases

    return phases(asked["loads"])


@click.command()
@server_options
@click.option("--concurrency", default="1,2,4,8,16,32,64", show_default=True, metavar="LIST", help="1..64, or a list.")
@click.option("--in", "input_tokens", default="1024", show_default=True, metavar="TOKENS", help="512, or 512~2048.")
@click.option("--out", "output_tokens", default="256", show_default=True, metavar="TOKENS")
@click.option("--with", "words", default="", metavar="WORDS", help="More words of a load: n=128 warmup=8 seed=1 …")
@click.option("--gap", "gap_s", type=Seconds(), default=5.0, help="Settling time between phases. [5s]")
@click.option("--slo", metavar="BOUNDS", help="Service levels to keep jointly: ttft=800ms,tpot=50ms,e2e=10s.")
@click.option("--model", metavar="NAME")
@click.option("--yes", is_flag=True, help="Do not ask before loading a server on another host.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="New file.")
def sweep(
    *,
    concurrency: str,
    input_tokens: str,
    output_tokens: str,
    words: str,
    gap_s: float,
    output: Path,
    **asked: Any,
) -> None:
    """One load after another, each with more in flight, on record; prints a line a phase."""
    from vtop.load.spec import sweep as planned
    from vtop.load.spec import thin

    plan = planned(concurrency, words=f"in={input_tokens} out={output_tokens} {words}".strip())
    servers = servers_of(asked)
    attachment = attached(asked, servers, output)
    conductor = conductor_of(asked, servers, attachment.recording, attachment.began_s, plan)
    conductor.settle_s = gap_s
    for phase in plan:
        if (caveat := thin(phase)) is not None:
            click.echo(caveat, err=True)
    attachment.start()
    _run(conductor, attachment.recording, attachment.stop, "the sweep is done")
    click.echo(f"recorded {output}", err=True)


@click.command()
@click.argument("url", default=DEFAULT_URL)
@click.argument("specs", nargs=-1, required=True, metavar="SPEC…")
@click.option("--slo", metavar="BOUNDS")
@click.option("--model", metavar="NAME")
@click.option("--api-key", metavar="KEY")
@click.option("--header", "-H", "headers", multiple=True, metavar="'NAME: VALUE'")
@click.option("--yes", is_flag=True, help="Do not ask before loading a server on another host.")
def load(url: str, specs: tuple[str, ...], **asked: Any) -> None:
    """The generator alone: a line for every request on stdout, a recording that every other verb reads."""
    from vtop.load.spec import phases
    from vtop.recording import encode

    plan = phases(specs, option="SPEC")
    asked |= {"urls": (url,), "no_gpu": True, "interval": 1.0, "api_key_file": None}
    asked |= {"ca_file": None, "insecure": False, "proxy": None}
    servers = servers_of(asked)
    attachment = attached(asked, servers, None, watch=False)
    recording, out = attachment.recording, sys.stdout.buffer
    recording.listen(lambda event: out.write(encode(event) + b"\n"))
    for event in recording.take():
        out.write(encode(event) + b"\n")
    conductor = conductor_of(asked, servers, recording, attachment.began_s, plan)
    _run(conductor, recording, attachment.stop, "the load is done")
    out.flush()


def _run(conductor: Conductor, recording: LiveRecording, stop: Callable[[str], None], reason: str) -> None:
    """Until the load is through, or a signal ends it; a line on stderr for each phase."""
    import signal

    from vtop.recording import Load
    from vtop.session.session import Session

    reasons: list[str] = []

    def stopped(number: int, _: Any) -> None:
        reasons.append(signal.Signals(number).name)
        conductor.abort()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    session = Session(recording.start)
    click.echo(_HEAD, err=True)
    try:
        conductor.start()
        over = False
        while not over:
            over = conductor.finished.wait(0.25)
            for event in recording.take():
                session.apply(event)
                if isinstance(event, Load) and event.state == "end":
                    click.echo(_row(session, event), err=True)
    finally:
        conductor.stop()
        stop(reasons[0] if reasons else reason)
    if conductor.failed is not None:
        raise VtopError(conductor.failed)
    if reasons:
        sys.exit(130)
    done = [
        phase for phase in session.load.phases if (part := session.load.part_of(phase, session.end_s)) and part.done
    ]
    if not done:
        raise VtopError("no request succeeded")


_HEAD = (
    f"{'load':<10} {'done':>6} {'failed':>6} {'TTFT':>9} {'p99':>9} {'ITL':>9} {'p99':>9} {'TPOT':>9} {'out tok/s':>9}"
)


def _row(session: Session, ended: Any) -> str:
    part = session.load.part_of(ended.phase, ended.t)
    assert part is not None
    per_s = part.output_per_s
    name = part.spec.split(" ")[0]
    times = f"{_mean(part.ttft)} {_p99(part.ttft)} {_mean(part.itl)} {_p99(part.itl)} {_mean(part.tpot)}"
    kept = f"  kept {units.percent(part.slo.attainment_ratio)}" if part.slo is not None else ""
    limited = f"  client-limited: {part.limited}" if part.limited is not None else ""
    return f"{name:<10} {part.done:>6} {part.failed:>6} {times} {units.number(per_s):>9}{kept}{limited}"


def _mean(found: Quantiles) -> str:
    return f"{units.seconds(found.mean_s):>9}"


def _p99(found: Quantiles) -> str:
    return f"{units.seconds(found.p99_s):>9}"
