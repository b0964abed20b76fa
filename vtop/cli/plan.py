"""The verbs of `vtop plan`: what fits, what it costs, how many GPUs to split over, what a queue does to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vtop.cli.common import attached, form_of, open_recording, servers_of, write
from vtop.cli.options import Number, access_options, shape_option, together
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.engine.runs.runs import Run
    from vtop.plan.kv import Mix
    from vtop.plan.kv_plan import KvPlan, Memory
    from vtop.plan.model_config import ModelConfig
    from vtop.plan.observed import Observed
    from vtop.plan.queueing import Services
    from vtop.recording import Request
    from vtop.report.render.document import Document

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json", ".txt": "txt"}
MOST_LENGTHS = 65  # of a range, evenly taken
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_NUMBER = click.IntRange(min=1)


class Size(click.ParamType[float]):
    """Bytes: 6569114112, 6.12GiB, 80GB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([\d.,_]+)\s*([A-Za-z]*)", str(value).strip())
        unit = _UNITS.get(found[2].upper()) if found is not None else None
        try:
            number = float(found[1].replace(",", "").replace("_", "")) if found is not None else 0.0
        except ValueError:
            unit = None
        if unit is None or number <= 0:
            self.fail(f"{value!r} is no size: write 6569114112, 6.12GiB or 80GB", param, ctx)
        return number * unit


class Range(click.ParamType[tuple[int, int]]):
    """Tokens: 1024, or 512~2048."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d+)(?:~(\d+))?", str(value).strip())
        least, most = (int(found[1]), int(found[2] or found[1])) if found is not None else (0, 0)
        if not 1 <= least <= most:
            self.fail(f"{value!r} is no length: write 1024 or 512~2048", param, ctx)
        return least, most


class Mixture(click.ParamType["Services"]):
    """Service times with their shares: 20ms:0.8,180ms:0.2; or one time."""

    name = "times"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Services:
        from vtop.plan.queueing import Services

        if isinstance(value, Services):
            return value
        times, shares = [], []
        for part in str(value).split(","):
            found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)(ms|s)(?::(\d*\.?\d+))?\s*", part)
            if found is None or float(found[1]) <= 0:
                self.fail(f"{part!r} is no time with a share: write 20ms:0.8,180ms:0.2", param, ctx)
            times.append(float(found[1]) / (1000 if found[2] == "ms" else 1))
            shares.append(float(found[3]) if found[3] is not None else 1.0)
        if abs(sum(shares) - 1) > 1e-9:
            self.fail(f"{value!r}: the shares add up to {sum(shares):g}, not to 1", param, ctx)
        return Services(tuple(times), tuple(shares))


class Rates(click.ParamType[tuple[float, ...]]):
    """Rates of arrival, in requests a second: 2,4,6.5."""

    name = "rates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            rates = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            rates = ()
        if not rates or not all(0 < rate < 1e6 for rate in rates):
            self.fail(f"{value!r} is no list of rates: write 2,4,6.5", param, ctx)
        return rates


class Share(click.ParamType[float]):
    """A share of requests: 95% or 0.95."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d*\.?\d+)\s*(%?)", str(value).strip())
        share = float(found[1]) / (100 if found[2] else 1) if found is not None else 0.0
        if not 0 < share <= 1:
            self.fail(f"{value!r} is no share: write 95% or 0.95", param, ctx)
        return share


output_options = together(
    click.option("--format", "form", type=click.Choice(["txt", "json", "md", "html"]), help="[by the ending of -o]"),
    click.option("-o", "output", type=click.Path(path_type=Path, dir_okay=False), help="Where to. [stdout]"),
)
source_options = together(
    click.argument("source", type=click.Path(path_type=Path), required=False),
    click.option("--url", metavar="URL", help="A running server, in the place of SOURCE."),
    access_options,
    shape_option,
)
length_options = together(
    click.option("--input-len", "inputs", type=Range(), metavar="N|N~M", help="Prompt tokens of a request."),
    click.option("--output-len", "outputs", type=Range(), metavar="N|N~M", help="Output tokens of a request."),
)


@click.group()
def plan() -> None:
    """Before and beyond a benchmark: what fits, what it costs, how many GPUs to split over, what a queue does."""


@plan.command()
@source_options
@length_options
@click.option("--concurrency", type=_NUMBER, metavar="C", help="A planned load: its demand on the pool.")
@click.option("--requests", type=_NUMBER, metavar="N", help="The --kv-cache-memory that holds so many at their peak.")
@click.option("--kv-cache-memory", "pool_bytes", type=Size(), metavar="BYTES", help="The pool of one GPU: 6.12GiB.")
@click.option("--kv-tokens", "pool_tokens", type=_NUMBER, metavar="N", help="The pool as vLLM's log says it.")
@click.option("--num-gpu-blocks", "pool_blocks", type=_NUMBER, metavar="N", help="The pool in blocks.")
@click.option(
    "--gpu-memory", type=Size(), metavar="BYTES", help="The whole memory of one GPU; what is left is the pool."
)
@click.option("--gpu-memory-utilization", type=Number(0.01, 1.0), default=0.92, show_default=True, metavar="SHARE")
@click.option("--weights", type=Size(), metavar="BYTES", help="Of one rank. [computed for dense models]")
@click.option("--activations", type=Size(), metavar="BYTES", help="Peak of a step, as vLLM profiles it.")
@click.option("--graphs", type=Size(), metavar="BYTES", help="CUDA graphs, as vLLM's log says.")
@click.option("--non-torch", type=Size(), metavar="BYTES", help="NCCL, CUDA context, as vLLM's log says.")
@click.option("--margin", type=Size(), metavar="BYTES", help="To be left free beside all that.")
@click.option("--kv-cache-dtype", "cache_dtype", metavar="TYPE", help="Apart from the weights': auto, fp8, bfloat16, …")
@click.option("--block-size", type=_NUMBER, metavar="N", help="[on record, or 16]")
@click.option("--max-model-len", type=_NUMBER, metavar="N", help="[on record, or the model's]")
@click.option("--max-num-batched-tokens", type=_NUMBER, metavar="N", help="For sliding layers. [on record, or 8192]")
@click.option("--tp", type=_NUMBER, metavar="N", help="Tensor-parallel ranks. [on record, or 1]")
@click.option("--pp", type=_NUMBER, default=1, metavar="N", help="Pipeline stages. [1]")
@click.option("--dp", type=_NUMBER, metavar="N", help="Replicas. [on record, or 1]")
@click.option("--disable-hybrid-kv-cache-manager", "no_hybrid", is_flag=True, help="As vLLM's flag.")
@click.option("--profile", "profile_name", metavar="NAME|FILE", help="Timing, for what fewer seats cost. [the card's]")
@click.option("--no-cost", is_flag=True, help="Do not simulate what fewer seats cost.")
@output_options
def kv(source: Path | None, *, form: str | None, output: Path | None, **asked: Any) -> None:
    """How many requests does the KV cache hold, and what would hold more?

    SOURCE is a model's config.json or a recording; --url asks a running server. Bytes are of one GPU.
    """
    written = form_of(output, form, FORMATS, ".txt, .md, .json or .html")
    from vtop.plan import kv_plan
    from vtop.report.plan import kv as words

    model, seen, _ = _source(source, asked)
    wanted = kv_plan.Asked(
        tp=asked["tp"],
        pp=asked["pp"],
        dp=asked["dp"],
        block_size=asked["block_size"],
        max_model_len=asked["max_model_len"],
        max_num_batched_tokens=asked["max_num_batched_tokens"],
        cache_dtype=asked["cache_dtype"],
        pool_bytes=asked["pool_bytes"],
        pool_tokens=asked["pool_tokens"],
        pool_blocks=asked["pool_blocks"],
        memory=_memory(asked),
        mix=_mix(asked["inputs"], asked["outputs"]),
        concurrency=asked["concurrency"],
        requests=asked["requests"],
        hybrid=not asked["no_hybrid"],
    )
    if sum(asked[name] is not None for name in ("pool_bytes", "pool_tokens", "pool_blocks", "gpu_memory")) > 1:
        raise VtopError("one pool: --kv-cache-memory, --kv-tokens, --num-gpu-blocks or --gpu-memory")
    answer = kv_plan.plan(wanted, model, seen)
    if seen is not None and source is not None and not asked["no_cost"]:
        answer = _with_cost(answer, source, asked["profile_name"])
    _show(words.document(answer), answer, "kv", written, output)


@plan.command()
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option("--service", type=Mixture(), metavar="TIMES", help="20ms:0.8,180ms:0.2, or one time: 52ms.")
@click.option("--rates", type=Rates(), metavar="LIST", help="Requests/s: 2,4,6,8. [by how busy the servers are]")
@click.option("--slo", metavar="BOUND", required=True, help="From arrival to end: e2e=250ms.")
@click.option("--attain", type=Share(), default="95%", show_default=True, metavar="SHARE")
@click.option("--servers", type=_NUMBER, metavar="N", help="Over one queue. [1; of a recording what was in flight]")
@click.option("--runs", type=_NUMBER, default=12, show_default=True, metavar="N", help="Whole runs a rate.")
@click.option("--seed", type=int, default=101, show_default=True, metavar="N", help="Of the first run.")
@click.option("--n", "many", type=click.IntRange(min=2), default=50_000, show_default=True, help="Requests a run.")
@click.option("--warm", type=click.IntRange(min=0), metavar="N", help="Left out of each. [a tenth]")
@click.option("--phase", type=_NUMBER, metavar="N", help="Of a recording: whose measured times. [the first]")
@output_options
def queue(source: Path | None, *, form: str | None, output: Path | None, **asked: Any) -> None:
    """What does waiting do to a service level, at which rate of arrivals?

    A queue of requests that come by themselves. Service times are --service, or those that a recording (SOURCE) of
    vtop's own closed loop measured.
    """
    written = form_of(output, form, FORMATS, ".txt, .md, .json or .html")
    from vtop.load.workload.spec import slo
    from vtop.plan import queueing
    from vtop.report.plan import queueing as words

    bounds = slo(asked["slo"])
    if bounds.e2e_s is None or bounds.ttft_s is not None or bounds.tpot_s is not None:
        raise VtopError(f"--slo {asked['slo']}: a queue knows whole requests only; write e2e=250ms")
    if (source is None) == (asked["service"] is None):
        raise VtopError("whose service times? --service 20ms:0.8,180ms:0.2, or a recording of a closed loop")
    notes: list[str] = []
    servers = asked["servers"]
    if source is not None:
        services, in_flight = _measured_services(source, asked["phase"])
        servers = servers or in_flight
        if in_flight > 1:
            notes.append(
                f"the times were measured with {in_flight} in flight, so they hold what the requests cost one another "
                "then; with fewer they would be shorter"
            )
    else:
        services = asked["service"]
    many, warm = asked["many"], asked["warm"]
    wanted = queueing.Queue(
        services=services,
        slo_s=bounds.e2e_s,
        target=asked["attain"],
        servers=servers or 1,
        requests=many,
        warm=many // 10 if warm is None else warm,
        seeds=tuple(range(asked["seed"], asked["seed"] + asked["runs"])),
    )
    rates = asked["rates"] or queueing.usual_rates(wanted)
    answer = queueing.answer(wanted, rates, _progress if sys.stderr.isatty() else None, notes)
    _show(words.document(answer), answer, "queue", written, output)


# --- what is planned for ----------------------------------------------------------------------------------------------


def _source(source: Path | None, asked: dict[str, Any]) -> tuple[ModelConfig | None, Observed | None, list[Request]]:
    """The model of a config.json; or what a recording or a server says, and the requests of vtop's own load in it."""
    from vtop.plan.model_config import load

    if source is not None and asked["url"] is not None:
        raise VtopError(f"{source} and --url: one of them")
    dtype = asked.get("cache_dtype")
    if source is not None and source.suffix == ".json":
        if not source.exists():
            raise VtopError(f"{source}: no such file; it is the config.json of a model")
        return load(source, dtype), None, []
    if source is not None:
        return None, *_recorded(source, asked)
    if asked["url"] is not None:
        return None, _asked_server(asked), []
    if (config := asked["model_config"]) is not None:
        return load(config, dtype), None, []
    raise VtopError("of what? Name a model's config.json or a recording, or a server with --url")


def _recorded(source: Path, asked: dict[str, Any]) -> tuple[Observed, list[Request]]:
    from vtop.plan.observed import observed
    from vtop.recording import Request
    from vtop.session.session import Session

    recording = open_recording(source, asked["model_config"])
    session, requests = Session(recording.start), []
    while events := recording.take():
        for event in events:
            session.apply(event)
            if isinstance(event, Request):
                requests.append(event)
    if not session.servers:
        raise VtopError(f"{source}: no server is on record")
    return observed(session, str(source), requests), requests


def _asked_server(asked: dict[str, Any]) -> Observed:
    from vtop.cli.common import session_of
    from vtop.plan.observed import observed

    wanted = asked | {"urls": (asked["url"],), "proxy": None, "interval": 1.0, "no_gpu": False}
    attachment = attached(wanted, servers_of(wanted), None)
    try:
        answered = attachment.once()
        session = session_of(attachment.recording.start, attachment.recording)
    finally:
        attachment.stop("once")
    if not answered:
        raise VtopError(f"{asked['url']}: does not answer with vLLM's metrics")
    return observed(session, asked["url"])


def _measured_services(source: Path, number: int | None) -> tuple[Services, int]:
    """What requests of a closed loop took, and how many were in flight."""
    from vtop.plan.queueing import Services
    from vtop.recording import Load as Phase
    from vtop.recording import Request
    from vtop.session.load.request_latency import times_of

    recording = open_recording(source)
    phases: list[Phase] = []
    requests: list[Request] = []
    while events := recording.take():
        phases += [one for one in events if isinstance(one, Phase) and one.state == "begin"]
        requests += [one for one in events if isinstance(one, Request) and not one.warmup and one.error is None]
    closed = [one for one in phases if one.shape == "closed" and one.concurrency]
    chosen = [one for one in closed if number is None or one.phase == number - 1]
    if not chosen:
        what = "no closed loop of vtop's own load" if number is None else f"no closed loop is its phase {number}"
        raise VtopError(f"{source}: {what}; an open loop's times hold its waits, and are no service times")
    phase = chosen[0]
    mine = [times_of(one).e2e_s for one in requests if one.phase == phase.phase]
    times = tuple(time for time in mine if time is not None and time > 0)
    if not times:
        raise VtopError(f"{source}: no request of phase {phase.phase + 1} succeeded")
    return Services(times, origin=f"of {source}, {phase.spec}"), phase.concurrency or 1


def _progress(done: int, of: int) -> None:
    click.echo(f"\r{done} of {of} runs" + ("\n" if done == of else ""), nl=False, err=True)


def _memory(asked: dict[str, Any]) -> Memory | None:
    from vtop.plan.kv_plan import Memory

    parts = ("weights", "activations", "graphs", "non_torch", "margin")
    if asked["gpu_memory"] is None:
        if told := next((name for name in parts if asked[name] is not None), None):
            raise VtopError(f"--{told.replace('_', '-')} goes with --gpu-memory, of which it is a part")
        return None
    return Memory(
        asked["gpu_memory"], asked["gpu_memory_utilization"], **{f"{name}_bytes": asked[name] for name in parts}
    )


def _mix(inputs: tuple[int, int] | None, outputs: tuple[int, int] | None) -> Mix | None:
    """Every pair of an input and an output length; of a range evenly spaced ones, both ends among them."""
    from vtop.plan.kv import GIVEN, Mix

    if inputs is None and outputs is None:
        return None
    if inputs is None or outputs is None:
        raise VtopError("a request has both lengths: --input-len 1024 --output-len 256")
    pairs = [(a, b) for a in _spread(*inputs) for b in _spread(*outputs)]
    return Mix(tuple(pairs), GIVEN)


def _spread(least: int, most: int) -> list[int]:
    if most - least < MOST_LENGTHS:
        return list(range(least, most + 1))
    return [least + round((most - least) * at / (MOST_LENGTHS - 1)) for at in range(MOST_LENGTHS)]


def _with_cost(answer: KvPlan, source: Path, profile_name: str | None) -> KvPlan:
    """With what fewer seats would have cost the recorded load, where it can be simulated and a profile is known."""
    from vtop.engine.fit import profile
    from vtop.engine.runs.runs import Run, read
    from vtop.plan.kv_plan import with_cost
    from vtop.plan.seats import cost_of, heaviest

    found: list[Run | str] = read(open_recording(source).path)
    run = heaviest([one for one in found if isinstance(one, Run)])
    if run is None or answer.seats is None or answer.seats < 1:
        return answer
    known = profile.load(profile_name) if profile_name is not None else profile.of_card(run.card)
    most = run.observed.most_running
    if known is None or (most is not None and most <= answer.seats) or run.flags.max_num_seqs <= answer.seats:
        return answer
    return with_cost(answer, cost_of(run, known, answer.seats))


# --- where to ---------------------------------------------------------------------------------------------------------


def _show(document: Document, answer: Any, verb: str, form: str, output: Path | None) -> None:
    if form == "json":
        from vtop.report.plan.answer_json import json

        return _put(json(verb, answer), output)
    if form == "md":
        from vtop.report.render.markdown import markdown

        return _put(markdown(document).encode(), output)
    if form == "html":
        from vtop.report.render.html import html

        return _put(html(document).encode(), output)
    if output is None and sys.stdout.isatty():
        from rich.console import Console

        from vtop.report.render.terminal import show

        return show(document, Console())
    from vtop.report.render.terminal import text

    return _put(text(document).encode(), output)


def _put(content: bytes, output: Path | None) -> None:
    if output is None:
        click.echo(content.decode(), nl=False)
    else:
        write(output, content)
        click.echo(str(output), err=True)
