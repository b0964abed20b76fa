"""The verbs of `vtop plan`: what fits, what it costs, how many GPUs to split over, what a queue does to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli import plan_split
from vtop.cli.common import form_of, open_recording
from vtop.cli.plan_options import (
    FORMATS,
    NUMBER,
    Mixture,
    Rates,
    Share,
    Size,
    length_options,
    memory_options,
    output_options,
    source_options,
)
from vtop.cli.plan_source import memory_of, mix_of, show, source_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.engine.runs.runs import Run
    from vtop.plan.kv_plan import KvPlan
    from vtop.plan.queueing import Services

# with any of these a plan is of another server or load than the recorded one, whose cost says nothing of it
OTHERS = (
    *("inputs", "outputs", "pairs", "pool_bytes", "pool_tokens", "pool_blocks", "gpu_memory", "cache_dtype"),
    *("block_size", "tp", "dp", "max_model_len", "no_hybrid"),
)


@click.group()
def plan() -> None:
    """Plan before a benchmark: what fits, what it costs, over how many GPUs to split, what queueing does."""


@plan.command()
@source_options
@length_options
@click.option("--concurrency", type=NUMBER, metavar="C", help="Planned load: show its demand on the pool.")
@click.option(
    "--requests", type=NUMBER, metavar="N", help="Show the --kv-cache-memory that holds N requests at their peak."
)
@click.option("--kv-cache-memory", "pool_bytes", type=Size(), metavar="BYTES", help="KV pool of one GPU: 6.12GiB.")
@click.option("--kv-tokens", "pool_tokens", type=NUMBER, metavar="N", help="KV pool in tokens, from vLLM's log.")
@click.option("--num-gpu-blocks", "pool_blocks", type=NUMBER, metavar="N", help="KV pool in blocks.")
@memory_options
@click.option("--kv-cache-dtype", "cache_dtype", metavar="TYPE", help="KV dtype: auto, fp8, bfloat16, …")
@click.option("--block-size", type=NUMBER, metavar="N", help="Tokens per KV block. [as recorded, or 16]")
@click.option("--max-model-len", type=NUMBER, metavar="N", help="Longest request. [as recorded, or the model's]")
@click.option(
    "--max-num-batched-tokens",
    type=NUMBER,
    metavar="N",
    help="Token budget of a step; matters for sliding-window layers. [as recorded, or 8192]",
)
@click.option("--tp", type=NUMBER, metavar="N", help="Tensor-parallel ranks. [as recorded, or 1]")
@click.option("--pp", type=NUMBER, default=1, metavar="N", help="Pipeline stages. [1]")
@click.option(
    "--dcp", type=NUMBER, default=1, metavar="N", help="Decode context parallel size, within the TP ranks. [1]"
)
@click.option("--dp", type=NUMBER, metavar="N", help="Data-parallel replicas. [as recorded, or 1]")
@click.option("--no-async-scheduling", "no_async", is_flag=True, help="As in vLLM: one step in flight, not two.")
@click.option("--disable-hybrid-kv-cache-manager", "no_hybrid", is_flag=True, help="As in vLLM.")
@click.option("--profile", "profile_name", metavar="NAME|FILE", help="Timing profile for the cost. [the GPU's]")
@click.option("--no-cost", is_flag=True, help="Skip simulating what a lower max_num_seqs costs.")
@output_options
def kv(source: Path | None, *, form: str | None, output: Path | None, **asked: Any) -> None:
    """How many requests does the KV cache hold, and what would make it hold more?

    SOURCE is a model's config.json or a recording; --url asks a running server. Bytes are of one GPU.
    """
    written = form_of(output, form, FORMATS)
    from vtop.plan import kv_plan
    from vtop.report.plan import kv as words

    model, seen = source_of(source, asked)
    wanted = kv_plan.KvQuestion(
        tp=asked["tp"],
        pp=asked["pp"],
        dp=asked["dp"],
        dcp=asked["dcp"],
        block_size=asked["block_size"],
        max_model_len=asked["max_model_len"],
        max_num_batched_tokens=asked["max_num_batched_tokens"],
        cache_dtype=asked["cache_dtype"],
        pool_bytes=asked["pool_bytes"],
        pool_tokens=asked["pool_tokens"],
        pool_blocks=asked["pool_blocks"],
        memory=memory_of(asked),
        mix=mix_of(asked),
        concurrency=asked["concurrency"],
        requests=asked["requests"],
        hybrid=not asked["no_hybrid"],
        async_scheduling=False if asked["no_async"] else None,
    )
    if sum(asked[name] is not None for name in ("pool_bytes", "pool_tokens", "pool_blocks", "gpu_memory")) > 1:
        raise VtopError("one pool: --kv-cache-memory, --kv-tokens, --num-gpu-blocks or --gpu-memory")
    answer = kv_plan.plan(wanted, model, seen)
    if seen is not None and source is not None and not asked["no_cost"] and not any(asked[name] for name in OTHERS):
        answer = _with_cost(answer, source, asked["profile_name"])
    show(words.document(answer), answer, "kv", written, output)


@plan.command()
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option("--service", type=Mixture(), metavar="TIMES", help="Service times: 20ms:0.8,180ms:0.2 or just 52ms.")
@click.option("--rates", type=Rates(), metavar="LIST", help="Requests/s: 2,4,6,8. [from the utilization]")
@click.option("--slo", metavar="BOUND", required=True, help="Bound from arrival to end: e2e=250ms.")
@click.option("--attain", type=Share(), default="95%", show_default=True, metavar="SHARE")
@click.option(
    "--servers", type=NUMBER, metavar="N", help="Servers behind one queue. [1; from a recording: those in flight]"
)
@click.option("--runs", type=click.IntRange(1, 1000), default=12, metavar="N", help="Runs per rate. [12]")
@click.option("--seed", type=int, default=101, show_default=True, metavar="N", help="Seed of the first run.")
@click.option("--n", "many", type=click.IntRange(2, 5_000_000), default=50_000, help="Requests per run. [50000]")
@click.option(
    "--warm", type=click.IntRange(min=0), metavar="N", help="Requests dropped at the start of each run. [a tenth]"
)
@click.option("--phase", type=NUMBER, metavar="N", help="Phase of a recording whose times to use. [the first]")
@output_options
def queue(source: Path | None, *, form: str | None, output: Path | None, **asked: Any) -> None:
    """At which arrival rate does queueing break a service level?

    A queue of requests that come by themselves. Service times are --service, or those that a recording (SOURCE) of
    vtop's own closed loop measured.
    """
    written = form_of(output, form, FORMATS)
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
    show(words.document(answer), answer, "queue", written, output)


def _with_cost(answer: KvPlan, source: Path, profile_name: str | None) -> KvPlan:
    """With what a lower max_num_seqs would have cost the recorded load, where a profile is known."""
    from vtop.engine.fit import profile
    from vtop.engine.runs.runs import Run, read
    from vtop.plan.kv_plan import with_cost
    from vtop.plan.seqs_cost import cost_of, heaviest

    found: list[Run | str] = read(open_recording(source).path)
    run = heaviest([one for one in found if isinstance(one, Run)])
    if run is None or answer.max_num_seqs is None or answer.max_num_seqs < 1:
        return answer
    known = profile.load(profile_name) if profile_name is not None else profile.of_gpu(run.gpu)
    most = run.observed.most_running
    if (
        known is None
        or (most is not None and most <= answer.max_num_seqs)
        or run.flags.max_num_seqs <= answer.max_num_seqs
    ):
        return answer
    return with_cost(answer, cost_of(run, known, answer.max_num_seqs))


def _measured_services(source: Path, number: int | None) -> tuple[Services, int]:
    """What requests of a closed loop took, and how many were in flight."""
    from vtop.plan.queueing import Services
    from vtop.recording import Load as Phase
    from vtop.recording import Request, events_of
    from vtop.session.load.request_latency import latency_of

    recording = open_recording(source)
    phases: list[Phase] = []
    requests: list[Request] = []
    for one in events_of(recording):
        if isinstance(one, Phase) and one.state == "begin":
            phases.append(one)
        elif isinstance(one, Request) and not one.warmup and one.error is None:
            requests.append(one)
    closed = [one for one in phases if one.shape == "closed" and one.concurrency]
    chosen = [one for one in closed if number is None or one.phase == number - 1]
    if not chosen:
        what = "no closed loop of vtop's own load" if number is None else f"no closed loop is its phase {number}"
        raise VtopError(f"{source}: {what}; an open loop's times hold its waits, and are no service times")
    phase = chosen[0]
    mine = [latency_of(one).e2e_s for one in requests if one.phase == phase.phase]
    times = tuple(time for time in mine if time is not None and time > 0)
    if not times:
        raise VtopError(f"{source}: no request of phase {phase.phase + 1} succeeded")
    return Services(times, origin=f"of {source}, {phase.spec}"), phase.concurrency or 1


def _progress(done: int, of: int) -> None:
    click.echo(f"\r{done} of {of} runs" + ("\n" if done == of else ""), nl=False, err=True)


for verb in (plan_split.tp, plan_split.work):
    plan.add_command(verb)
