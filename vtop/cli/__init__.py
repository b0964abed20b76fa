"""The command line: what a person types, handed to the room that does it. Heavy imports stand inside their verb."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

import click

from vtop import __version__, faults
from vtop.cli import (
    capacity,
    compare,
    config,
    files,
    load,
    man,
    plan,
    replay,
    report,
    simulate,
    stored,
    watch,
    web,
    whatif,
)  # fmt: skip
from vtop.cli.arguments import spelled_out
from vtop.cli.common import attached, echo, need_terminal, servers_of, view_of, without_collections
from vtop.cli.metrics import metrics_option
from vtop.cli.options import load_options, look_options, prometheus_options, server_options
from vtop.errors import VtopError


class VtopGroup(click.Group):
    """Errors of the user are one line on stderr and exit code 2, faults of vtop's own one line and exit code 70.

    A fault that ended nothing (a source tried again) makes 1 of an exit code that would have been 0. A bare address
    is a --url.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.default_map = config.defaults(self)
        return super().parse_args(ctx, spelled_out(args, self.params, self.commands))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):  # a narrow encoding costs a sign, never the output
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs) or 0
            sys.exit(_faults_told() or code)
        except SystemExit as end:
            if not _faults_told() or end.code:
                raise
            sys.exit(1)
        except VtopError as error:
            echo(f"vtop: {error}", err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            said = error.format_message().rstrip(".")
            context = getattr(error, "ctx", None)
            verb = context.command_path if context is not None else "vtop"
            echo(f"vtop: {said[:1].lower()}{said[1:]} ({verb} --help)", err=True)
            sys.exit(2)
        except click.Abort:  # ctrl-c
            sys.exit(130)
        except OSError as error:  # the world again: a disk that is full, a file that went away
            where = f"{error.filename}: " if isinstance(error.filename, str) else ""
            echo(f"vtop: {where}{error.strerror or type(error).__name__}", err=True)
            sys.exit(2)
        except Exception as error:
            echo(f"vtop: {faults.put_down(error, 'at this command')}", err=True)
            sys.exit(70)
        finally:
            _give_up_what_nobody_reads()


def _faults_told() -> int:
    """Say on stderr what went wrong in vtop itself and ended nothing: 1 where something did."""
    said, faults.told[:] = list(faults.told), []
    for line in said:
        echo(f"vtop: {line}", err=True)
    return 1 if said else 0


def _give_up_what_nobody_reads() -> None:
    """What is still to be written to a terminal that has hung up: Python would end with 120 for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            if error.errno == errno.EIO:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.group(cls=VtopGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@server_options
@prometheus_options
@look_options
@load_options
@click.option("--record", "record_to", type=click.Path(path_type=Path, dir_okay=False), help="Record to FILE.")
@metrics_option
@click.option("--once", is_flag=True, help="Print the screen once as text, from two scrapes, and exit.")
@click.option("--json", "as_json", is_flag=True, help="With --once: print the frame as JSON.")
@click.version_option(__version__, message="vtop %(version)s")
@click.pass_context
def main(ctx: click.Context, /, **asked: Any) -> None:
    """The instrument panel of a vLLM server.

    Without a verb: attach to the server and show it.

    \b
      vtop                            http://localhost:8000
      vtop :8301 gpu7:8000            two servers; also --url
      vtop --load c=64                drive it, too; > and < change the load, x stops it
      vtop --record run.jsonl         record what you see; key r does so at any time
      vtop --prometheus prom:9090     servers that a Prometheus scrapes; --from -6h: the past
      vtop --serve-metrics            and what only vtop computes, for a Prometheus
      vtop replay run.jsonl           the same screen again
      vtop report run.jsonl           what was found, with figures
      vtop demo                       without a server or a GPU

    Each option has an environment variable (--window is VTOP_WINDOW) and a place in a file: vtop config.
    """
    if ctx.invoked_subcommand is not None:
        for option in ctx.command.params:
            if ctx.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE:
                raise VtopError(f"options stand behind the verb: vtop {ctx.invoked_subcommand} {option.opts[0]} …")
        return
    record_to, once, as_json = asked.pop("record_to"), asked.pop("once"), asked.pop("as_json")
    phases = load.phases_of(asked, endless=True)
    with without_collections():
        view = view_of(asked, document=once)
        servers = None if stored.is_asked(asked) else servers_of(asked)
    if servers is None and phases:
        raise VtopError("--load needs the server itself: --url, not --prometheus")
    if record_to == Path("-"):
        raise VtopError("--record -: name a file; vtop record -o - writes to stdout")
    if asked["serve_metrics"] is not None and (once or (servers is None and stored.is_over(asked))):
        raise VtopError("--serve-metrics goes with what is going on now: without --once and --to")
    if once:
        if phases:
            raise VtopError("--load goes with the screen, not with --once; see vtop load and vtop sweep")
        once_of = attached(asked, servers, record_to) if servers is not None else stored.attached(asked, record_to)
        watch.once(once_of, view, as_json)
        return
    if as_json:
        raise VtopError("--json goes with --once: vtop --once --json")
    need_terminal("vtop record, vtop --once --json or vtop show")
    if servers is None and stored.is_over(asked):
        stored.replay(asked, record_to, view)
        return
    watch.live(asked, servers, record_to, view, phases)


for verb in (watch.record, load.sweep, load.load, replay.replay, replay.show, replay.film):
    main.add_command(verb)
for verb in (report.report, compare.compare, files.export, files.check, files.cut, files.merge):
    main.add_command(verb)
for verb in (simulate.demo, simulate.simulate, whatif.whatif, whatif.fit, plan.plan, capacity.capacity):
    main.add_command(verb)
for verb in (web.web, config.config, man.man):
    main.add_command(verb)
config.listen_to_environment(main, *main.commands.values())
