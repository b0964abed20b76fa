"""The verb capacity: the largest rate of arrivals that keeps a service level, measured or simulated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli.common import form_of, need_terminal, servers_of
from vtop.cli.options import NumberParam, Seconds, ray_option, server_options
from vtop.cli.plan_options import FORMATS, Share, output_options
from vtop.cli.plan_source import show
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.load.workload.phase import PlannedPhase
    from vtop.recording import CapacitySearch

OWN_WORDS = ("c", "rate", "n", "for", "seed", "trace")  # of a load, which the search sets


@click.command()
@server_options
@click.option(
    "--slo", metavar="BOUNDS", required=True, help="Bounds that a request must meet: ttft=800ms,tpot=50ms,e2e=10s."
)
@click.option(
    "--attain",
    type=Share(),
    default="95%",
    show_default=True,
    metavar="SHARE",
    help="Share of requests that must meet them.",
)
@click.option("--rule", type=click.Choice(["long-run", "floor"]), default="long-run", show_default=True)
@click.option("--runs", type=click.IntRange(2, 100), default=12, show_default=True, metavar="N", help="Runs per rate.")
@click.option(
    "--n", "many", type=click.IntRange(20), default=500, show_default=True, metavar="N", help="Requests per run."
)
@click.option(
    "--with",
    "words",
    default="in=1024 out=256",
    show_default=True,
    metavar="WORDS",
    help="Words of the load: the request.",
)
@click.option(
    "--from",
    "first",
    type=NumberParam(0.001, 1e6),
    default=1.0,
    show_default=True,
    metavar="R",
    help="First rate, requests/s.",
)
@click.option("--min", "least", type=NumberParam(0.001, 1e6), default=0.01, show_default=True, metavar="R")
@click.option("--max", "most", type=NumberParam(0.001, 1e6), default=10_000.0, show_default=True, metavar="R")
@click.option(
    "--precision", type=Share(), default="5%", show_default=True, metavar="SHARE", help="Width of the bracket to reach."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31), default=101, show_default=True, metavar="N", help="Seed of the first run."
)
@click.option("--deadline", "deadline_s", type=Seconds(least=1), help="Start no run that would end later than this.")
@click.option("--no-hold", is_flag=True, help="Skip the long run at the passing rate.")
@click.option(
    "--against", metavar="URL", help="A second server, tested run by run beside the first with the same seeds."
)
@click.option(
    "--closed-loop", type=click.IntRange(1), metavar="C", help="Run a closed loop of C in flight first, for comparison."
)
@click.option(
    "--scale-out", "scale_out_s", type=Seconds(least=1), help="For the headroom: time until more servers are up."
)
@click.option("--growth", type=Share(), metavar="SHARE", help="For the headroom: growth of arrivals until then. [none]")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Resume an interrupted recorded search, with the same options on the same server.",
)
@click.option(
    "--simulate",
    "profile",
    metavar="FILE|PROFILE",
    help="Search on the simulated engine: takes seconds. With --url: first so, then measured from there.",
)
@click.option(
    "--max-num-seqs", type=click.IntRange(1), metavar="N", help="Of the simulated engine. [128, or as recorded]"
)
@click.option(
    "--hosts", type=click.IntRange(0, 32), default=0, metavar="N", help="Also simulate N other plausible hosts. [0]"
)
@click.option("--model", metavar="NAME", help="Model to request if the server has several.")
@click.option("--yes", is_flag=True, help="Do not ask before loading a server on another host.")
@ray_option
@click.option("--screen", is_flag=True, help="Show the server and the search on the live screen.")
@click.option("--record", "record_to", type=click.Path(path_type=Path, dir_okay=False), help="Record all runs to FILE.")
@output_options
def capacity(*, form: str | None, output: Path | None, **asked: Any) -> None:
    """How many requests per second can a server take at a service level, when users do not wait for each other?

    Poisson arrivals, whole runs as the unit, a joint service level, and a bracket as the answer. The long-run rule
    judges the mean of the runs with its interval, the floor rule the lowest run.

    \b
      vtop capacity --url :8000 --slo ttft=800ms,tpot=50ms --record search.jsonl
      vtop capacity --url :8000 --slo ttft=800ms,tpot=50ms --screen
      vtop capacity --simulate h200-qwen2.5-7b --slo ttft=800ms,tpot=50ms
    """
    written = form_of(output, form, FORMATS)
    if output is not None and output.exists():
        raise VtopError(f"{output}: exists already; name a new file, or remove it first")
    search, like = _search_of(asked)
    _fits(asked, like)
    from vtop.cli import capacity_search, capacity_simulated, progress
    from vtop.plan.capacity_answer import together
    from vtop.report.plan import capacity as words

    if _measured(asked):
        made = capacity_search.measure(search, like, servers_of(asked), asked)
    else:
        made = progress.shown("simulating")(capacity_simulated.simulate)(search, like, asked)
    answer = together(made, asked["scale_out_s"], asked["growth"] or 0.0)
    show(words.document(answer), answer, "capacity", written, output)
    if any(one.bracket.passes_per_s is None for one in answer.searches):
        sys.exit(1)


def _measured(asked: dict[str, Any]) -> bool:
    """Whether on a server: --simulate alone has none."""
    return asked["profile"] is None or bool(asked["urls"])


def _search_of(asked: dict[str, Any]) -> tuple[CapacitySearch, PlannedPhase]:
    """What is searched, and the load of a run but for its rate. Raises VtopError."""
    from vtop.load.workload.spec import phases, slo
    from vtop.recording import CapacitySearch

    if asked["least"] > asked["most"]:
        raise VtopError(f"--min {asked['least']:g} is above --max {asked['most']:g}")
    if any(word.partition("=")[0] in OWN_WORDS for word in asked["words"].replace(",", " ").split()):
        raise VtopError(f"--with {asked['words']!r}: rate, requests and seed are the search's; --from, --n and --seed")
    bounds = slo(asked["slo"]).record()
    (like,) = phases([f"rate=1 n={asked['many']} {asked['words']}"], option="--with")
    if set(bounds) == {"tpot"} and like.output is not None and like.output.high < 2:
        raise VtopError(f"--slo {asked['slo']}: an answer of one token has no TPOT; bound ttft or e2e, or ask for more")
    search = CapacitySearch(
        rule=asked["rule"],
        target_ratio=asked["attain"],
        runs=asked["runs"],
        requests=asked["many"],
        seed=asked["seed"],
        first_per_s=asked["first"],
        least_per_s=asked["least"],
        most_per_s=asked["most"],
        precision_ratio=asked["precision"],
        hold=not asked["no_hold"],
        spec=asked["words"],
        slo=bounds,
        warm_only=True,
    )
    return search, like


def _fits(asked: dict[str, Any], like: PlannedPhase) -> None:
    """Raises VtopError for options that do not go together, before anything runs."""
    if not _measured(asked):
        given = {"--record": "record_to", "--resume": "resume", "--against": "against", "--screen": "screen"}
        if told := next((option for option, name in (given | {"--ray": "ray"}).items() if asked[name]), None):
            raise VtopError(f"{told} is of a measured search: --simulate with --url simulates first, then measures")
    if asked["profile"] is not None and like.max_in_flight is not None:
        raise VtopError("--with max=…: a cap in the client is not simulated; measure it, with --url alone")
    if asked["profile"] is None and (asked["hosts"] or asked["max_num_seqs"] is not None):
        raise VtopError("--hosts and --max-num-seqs are of a simulated search: with --simulate")
    if asked["screen"]:
        need_terminal("vtop capacity without --screen")
    if len(asked["urls"]) > 1:
        raise VtopError("capacity is of one server: name one --url; a second one to compare it with is --against URL")
    if asked["resume"] is not None and asked["against"] is not None:
        raise VtopError("--resume goes on with a search of one server; run --against anew")
    if asked["growth"] and asked["scale_out_s"] is None:
        raise VtopError("--growth is that within --scale-out 2m")
    if asked["record_to"] is not None and asked["record_to"].exists():
        raise VtopError(f"{asked['record_to']}: exists already; name a new file, or remove it first")
