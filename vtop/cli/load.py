"""Verbs that drive a server: a sweep on record, a generator alone; and the load beside a screen or a recording."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop import plain, units
from vtop.cli.arguments import OfServers, joined
from vtop.cli.common import attached, echo, servers_of, whole
from vtop.cli.metrics import Follow
from vtop.cli.options import DEFAULT_URL, Seconds, access_options, ray_option, server_options
from vtop.errors import VtopError

END_S = 3.0  # for a load to end after a signal

if TYPE_CHECKING:
    from vtop.access import Access
    from vtop.load.workers.controller import Controller
    from vtop.load.workload.phase import PlannedPhase
    from vtop.recording import LiveRecording
    from vtop.recording.events import AnyEvent, Load, Target
    from vtop.session.frame.frame import Frame
    from vtop.session.frame.load import LoadPart, Quantiles


def controller_of(
    asked: dict[str, Any],
    servers: tuple[list[Target], list[Access]],
    recording: LiveRecording,
    began_s: float,
    phases: Sequence[PlannedPhase],
    *,
    first: int = 0,
    server: int = 0,
) -> Controller:
    """The load on the first of the servers given, from phase `first` on; `server`: its number in the recording.

    Raises VtopError; asks before it loads another host.
    """
    from vtop.access import Endpoint
    from vtop.load.workers.controller import Controller
    from vtop.load.workload.spec import slo

    consent(asked, servers[0][0])
    target, access = servers[0][0], servers[1][0]
    bounds = slo(asked["slo"]).record() if asked.get("slo") else None
    endpoint = Endpoint(target.url, access)
    hosts = None
    if asked.get("ray"):
        from vtop.load.workers.ray_cluster import RayCluster
        from vtop.recording import Note

        hosts = RayCluster(asked["ray"], target.url, lambda text: recording.append(Note(source="load", text=text)))
    return Controller(
        phases,
        endpoint,
        recording.append,
        recording.clock,
        began_s,
        server=server,
        model=asked.get("model"),
        slo=bounds,
        first=first,
        hosts=hosts,
    )


def consent(asked: dict[str, Any], target: Target) -> None:
    """What a load needs before a file is made: leave to put it on another host, and the cluster that is to send it.

    Asks once; --yes has said it already. Raises VtopError where nobody can answer, or no cluster can be reached.
    """
    if asked.get("ray"):
        from vtop.load.workers.ray_cluster import connect

        connect(asked["ray"])
    if target.local or asked["yes"]:
        return
    if not sys.stdin.isatty():
        raise VtopError(f"{target.url} is another host: say --yes to put load on it")
    click.confirm(f"Put load on {target.url}, which is another host?", abort=True, err=True)
    asked["yes"] = True


def phases_of(asked: dict[str, Any], *, endless: bool = False) -> tuple[PlannedPhase, ...]:
    """The phases of --load; none without it. Raises VtopError for what cannot be understood, bounds included.

    endless: a single phase without n= and for= goes on until it is stopped, as somebody at the screen can.
    """
    if not asked["loads"]:
        if asked["slo"]:
            raise VtopError("--slo goes with --load: it is about the load's own requests")
        if asked["ray"]:
            raise VtopError("--ray goes with --load: the load is sent from the cluster's hosts")
        return ()
    from vtop.load.workload.spec import phases

    return _checked(phases(asked["loads"], endless=endless), asked)


def _checked(plan: tuple[PlannedPhase, ...], asked: dict[str, Any]) -> tuple[PlannedPhase, ...]:
    """The plan, once the bounds and the files that go with it are there. Raises VtopError, before anything is made."""
    from vtop.load.workload.dataset import look_for
    from vtop.load.workload.spec import slo

    if asked["slo"]:
        slo(asked["slo"])
    look_for(plan)
    return plan


@click.command(cls=OfServers)
@server_options
@click.option("--concurrency", default="1,2,4,8,16,32,64", show_default=True, metavar="LIST", help="1..64 or a list.")
@click.option("--in", "input_tokens", metavar="TOKENS", help="Prompt tokens: 512 or 512~2048. [1024]")
@click.option("--out", "output_tokens", metavar="TOKENS", help="Output tokens. [256]")
@click.option("--with", "words", default="", metavar="WORDS", help="Further words of the load: n=128 warmup=8 seed=1 …")
@click.option("--gap", "gap_s", type=Seconds(), default=5.0, help="Settling time between phases. [5s]")
@click.option("--slo", metavar="BOUNDS", help="Service level, met by all bounds jointly: ttft=800ms,tpot=50ms,e2e=10s.")
@click.option("--model", metavar="NAME")
@click.option("--yes", is_flag=True, help="Do not ask before loading a server on another host.")
@ray_option
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="New file.")
def sweep(
    *,
    concurrency: str,
    input_tokens: str | None,
    output_tokens: str | None,
    words: str,
    gap_s: float,
    output: Path,
    **asked: Any,
) -> None:
    """Run one load after another, each with more in flight, and record them; prints a line per phase.

    Exit codes: 0 done, 1 a phase ended early, 2 nothing succeeded or the load could not run, 128 + n ended by signal n.
    """
    from vtop.load.workload.spec import sweep as planned

    # what is not given is left to the words: a dataset brings lengths of its own
    given = [f"{key}={value}" for key, value in (("in", input_tokens), ("out", output_tokens)) if value is not None]
    plan = _checked(planned(concurrency, words=" ".join((*given, words))), asked)
    sys.exit(recorded_load(plan, servers_of(asked), output, None, asked, reason="the sweep is done", settle_s=gap_s))


def recorded_load(
    plan: Sequence[PlannedPhase],
    servers: tuple[list[Target], list[Access]],
    output: Path,
    for_s: float | None,
    asked: dict[str, Any],
    *,
    reason: str = "the load is done",
    settle_s: float | None = None,
    follow: Follow | None = None,
) -> int:
    """The load, and the servers beside it, on record until it is through or for_s is over; the exit code."""
    from vtop.load.workload.phase import thin
    from vtop.ui.keeping import said_of

    consent(asked, servers[0][0])  # before there is a file
    attachment = attached(asked, servers, output)
    controller = controller_of(asked, servers, attachment.recording, attachment.began_s, plan)
    if settle_s is not None:
        controller.settle_s = settle_s
    for phase in plan:
        if (caveat := thin(phase)) is not None:
            echo(caveat, err=True)
    if follow is not None:
        follow(attachment.recording, attachment.clock)
    attachment.start()
    try:
        code = _run(controller, attachment.recording, attachment.stop, reason, for_s=for_s)
    except VtopError as error:
        raise VtopError("; ".join((str(error), *attachment.recording.lost))) from error
    finally:
        for saved in attachment.recording.saved:
            echo(said_of(saved), err=True)
    whole(attachment.recording)
    return code


class WithWords(click.Command):
    """Help that ends with what the words of a load ask for."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from vtop.load.workload.spec import WORDS

        super().format_epilog(ctx, formatter)
        with formatter.section("The words of a SPEC"):
            formatter.write_dl(list(WORDS.values()))


@click.command(cls=WithWords)
@click.argument("words", nargs=-1, required=True, metavar="[URL] SPEC…")
@click.option("--slo", metavar="BOUNDS", help="Service level, met by all bounds jointly: ttft=800ms,tpot=50ms,e2e=10s.")
@click.option("--model", metavar="NAME", help="Model to request if the server has several.")
@access_options
@click.option("--yes", is_flag=True, help="Do not ask before loading a server on another host.")
@ray_option
def load(words: tuple[str, ...], **asked: Any) -> None:
    """Generate load only: one line per request on stdout, a recording that every other verb reads.

    \b
      vtop load :8000 rate=8 for=60s > load.jsonl
      vtop load :8000 c=64 in=1024 out=256 n=512 warmup=64 > load.jsonl

    Exit codes: 0 done, 1 a phase ended early, 2 nothing succeeded or the load could not run, 128 + n ended by signal n.
    """
    from vtop.load.workload.spec import phases
    from vtop.recording import encode

    url, specs = (DEFAULT_URL, words) if "=" in words[0].partition("/")[0] else (words[0], words[1:])
    specs = joined(specs)
    if not specs:
        raise VtopError(f"what load is not said; write vtop load {url} c=64, or rate=8 for=60s")
    plan = _checked(phases(specs, option="SPEC"), asked)
    asked |= {"urls": (url,), "no_gpu": True, "interval": 1.0, "proxy": None}
    servers = servers_of(asked)
    attachment = attached(asked, servers, None, watch=False)
    recording, out = attachment.recording, sys.stdout.buffer
    controller = controller_of(asked, servers, recording, attachment.began_s, plan)
    attachment.start()

    seen = sys.stdout.isatty()

    def write(events: Sequence[AnyEvent]) -> None:
        lines = (encode(event) + b"\n" for event in events)
        out.writelines(plain.json(line.decode()).encode() for line in lines) if seen else out.writelines(lines)
        out.flush()

    sys.exit(_run(controller, recording, attachment.stop, "the load is done", write))


class LastScrape:
    """The server's scrapes beside a load: the one after its last phase tells what finished last, so it is waited
    for."""

    def __init__(self, interval_s: float) -> None:
        from vtop.recording import GAP_INTERVALS

        self._patience_s = GAP_INTERVALS * interval_s + 1.0
        self._left_s = 0.0
        self._scraped = False
        self._ended_s: float | None = None

    def see(self, events: Sequence[AnyEvent]) -> None:
        from vtop.recording import Load, Scrape

        for event in events:
            if isinstance(event, Scrape):
                self._scraped = True
                if self._ended_s is not None and event.at_s >= self._ended_s:
                    self._left_s = 0.0
            elif isinstance(event, Load) and event.state == "end":
                self._ended_s, self._left_s = event.t, self._patience_s

    def wanted(self) -> bool:
        """Whether to wait 50 ms more."""
        self._left_s -= 0.05
        return self._scraped and self._ended_s is not None and self._left_s > 0


def _run(
    controller: Controller,
    recording: LiveRecording,
    stop: Callable[[str], None],
    reason: str,
    write: Callable[[Sequence[AnyEvent]], None] = lambda events: None,
    *,
    for_s: float | None = None,
) -> int:
    """Until the load is through, for_s is over, or a signal ends it; a line on stderr for each phase. The exit code.

    write: takes all events, in order; what it is written to may be closed, as by `| head`.
    """
    import signal

    numbers: list[int] = []

    def stopped(number: int, _: Any) -> None:
        if numbers:  # once more: now
            raise SystemExit(128 + number)
        numbers.append(number)
        controller.abort()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    talk, scrapes = _Talk(recording), LastScrape(recording.start.interval_s)
    left_s = END_S
    try:
        controller.start()
        over = False
        while not over and left_s > 0:
            over = controller.finished.wait(0.25)
            if for_s is not None and recording.clock() >= for_s:
                for_s = None
                controller.abort()
            left_s -= 0.25 if numbers else 0.0  # it may hang in the network
            events = recording.take()
            write(events)
            talk.tell(events)
            scrapes.see(events)
        while not numbers and scrapes.wanted():
            time.sleep(0.05)
            events = recording.take()
            write(events)
            scrapes.see(events)
    except BrokenPipeError:
        numbers.append(signal.SIGPIPE)
        sys.stdout = None  # so that nobody flushes it once more
    finally:
        controller.stop()
        stop(signal.Signals(numbers[0]).name if numbers else reason)
    if signal.SIGPIPE not in numbers:
        with contextlib.suppress(BrokenPipeError):
            events = recording.take()
            write(events)
            talk.tell(events)
    if numbers:
        return 128 + numbers[0]
    if controller.failed is not None:
        raise VtopError(controller.failed)
    if not talk.done:
        raise VtopError("no request succeeded")
    return 1 if controller.short is not None else 0


class _Talk:
    """What a person is told on stderr: what the load has to say, where a phase stands, a line for each that ended."""

    def __init__(self, recording: LiveRecording) -> None:
        from vtop.session.session import Session

        self._session = Session(recording.start)
        self._live = sys.stderr.isatty()
        self._now: str | None = None
        self._headed = False
        self.done = 0

    def tell(self, events: Sequence[AnyEvent]) -> None:
        from vtop.recording import Load, Note

        session = self._session
        for event in events:
            session.apply(event)
            if isinstance(event, Note) and event.source in ("load", "recording"):
                self._say(event.text)
            elif isinstance(event, Load) and event.state == "end":
                self._say_row(event)
        part = session.load.part(session.end_s)
        if self._live and part is not None and part.state == "running":
            self._rewrite(_progress(part))

    def _say_row(self, ended: Load) -> None:
        if not self._headed:
            self._headed = True
            self._say(_HEAD)
        part = self._session.load.part_of(ended.phase, ended.t)
        assert part is not None
        self.done += part.done
        from vtop.session.frame.frame import View
        from vtop.session.load.hosts import words

        self._say(_row(part, self._session.frame(ended.t, View(window_s=max(part.elapsed_s, 1.0)))))
        for host in part.hosts:
            self._say(f"  {host.name}: {words(host)}")

    def _say(self, text: str) -> None:
        self._rewrite("")
        echo(text, err=True)

    def _rewrite(self, line: str) -> None:
        """The one line that changes while a phase runs."""
        if line == (self._now or ""):
            return
        width = max(20, shutil.get_terminal_size().columns - 1)
        self._now = plain.line(line)[:width]
        click.echo(f"\r\x1b[K{self._now}", nl=False, err=True)


def _progress(part: LoadPart) -> str:
    of = f" of {units.count(part.planned)}" if part.planned else ""
    words = [part.spec.split(" ")[0], f"{units.count(part.done + part.failed + part.unfinished)}{of}"]
    words.append(f"{part.in_flight} in flight")
    if part.failed:
        words.append(f"{units.count(part.failed)} failed")
    words.append(f"TTFT {units.seconds(part.ttft.p50_s)}  ITL {units.seconds(part.itl.p50_s)}")
    if part.left_s:
        words.append(f"{units.clock(part.left_s)} left")
    return "  ".join(words)


_HEAD = (
    f"{'load':<10} {'done':>6} {'failed':>6} {'TTFT':>9} {'p99':>9} {'ITL':>9} {'p99':>9} {'TPOT':>9} {'out tok/s':>9} "
    f"{'KV peak':>7} {'preempt':>7}"
)


def _row(part: LoadPart, frame: Frame) -> str:
    """A phase in a line; the server's own numbers of its time at the end."""
    name = part.spec.split(" ")[0]
    times = f"{_mean(part.ttft)} {_p99(part.ttft)} {_mean(part.itl)} {_p99(part.itl)} {_mean(part.tpot)}"
    server = f"{units.percent(frame.kv.used.high):>7} {units.count(frame.preemption.count.in_window):>7}"
    row = f"{name:<10} {part.done:>6} {part.failed:>6} {times} {units.number(part.output_per_s):>9} {server}"
    said = []
    if part.reason not in (None, "done"):
        said.append(str(part.reason))
    if part.unfinished:
        said.append(f"{part.unfinished} unfinished")
    if part.rejected:
        said.append(f"rejected {part.rejected}")
    if part.slot_wait is not None:
        said.append(f"waits for a slot {units.seconds(part.slot_wait.mean_s)} in the mean")
    said += [f"{name} {count}" for name, count in part.failed_by_class]
    if part.slo is not None:
        said.append(f"kept {units.percent(part.slo.attainment_ratio)}")
    if part.limited is not None:
        said.append(f"client-limited: {part.limited}")
    if part.wrong_length:
        said.append(f"{part.wrong_length} prompts of another length than asked")
    if part.ended_early:
        said.append(f"{part.ended_early} answers shorter than asked")
    if part.itl_is_chunks:
        said.append("ITL is between chunks, not tokens")
    hits = frame.prefix_cache
    if hits.hit_tokens and hits.hit_ratio is not None and hits.hit_ratio >= 0.01:
        said.append(f"prefix hits {units.percent(hits.hit_ratio)}")
    return "  ".join([row, *said])


def _mean(found: Quantiles) -> str:
    return f"{units.seconds(found.mean_s):>9}"


def _p99(found: Quantiles) -> str:
    return f"{units.seconds(found.p99_s):>9}"
