"""The verbs `vtop plan tp` and `vtop plan work`: over how many GPUs to split a model, and what a request asks of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli.common import form_of
from vtop.cli.options import NumberParam
from vtop.cli.plan_options import (
    ALPHA,
    BANDWIDTH,
    FORMATS,
    NUMBER,
    Counts,
    length_options,
    memory_options,
    output_options,
    source_options,
)
from vtop.cli.plan_source import memory_of, mix_of, show, source_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.plan.all_reduce import Cost
    from vtop.plan.model_config import ModelConfig
    from vtop.plan.observed import Observed
    from vtop.plan.tensor_parallel import StepTime
    from vtop.plan.topology import Group

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@source_options
@length_options
@click.option("--identity", is_flag=True, help="Only show that one all-reduce per MLP is enough.")
@click.option("--gpus", "ps", type=Counts(), default="2,4,8", show_default=True, metavar="LIST", help="TP degrees.")
@click.option(
    "--tokens", type=Counts(), default="1,4,8,16,32", show_default=True, metavar="LIST", help="Tokens per step (T)."
)
@click.option("--flops", type=NumberParam(1.0), metavar="N", help="Effective FLOP/s of one GPU: 120e12.")
@click.option("--profile", "profile_name", metavar="NAME|FILE", help="Time per T from a fitted profile.")
@click.option("--alpha", type=ALPHA, metavar="TIME", help="Latency of an all-reduce: 8us, or 2:6us,4:8us.")
@click.option("--bus-bandwidth", type=BANDWIDTH, metavar="RATE", help="Bus bandwidth: 150GB/s, or one per p.")
@click.option(
    "--all-reduce", "tables", multiple=True, metavar="[P:]FILE", help="Table from all_reduce_perf or vLLM; repeatable."
)
@click.option(
    "--decode-all-reduce", "decode_tables", multiple=True, metavar="[P:]FILE", help="The same for decode-only steps."
)
@click.option(
    "--backend", default="fastest", show_default=True, metavar="NAME", help="Column of vLLM's communicator table."
)
@click.option("--activation-dtype", "dtype", default="bfloat16", show_default=True, help="Type that all-reduces carry.")
@click.option(
    "--other", "other_s", type=(float, float), metavar="S1 SP", help="Seconds of everything else on 1 GPU and on p."
)
@click.option("--slo", metavar="BOUND", help="Longest step allowed: tpot=20ms.")
@click.option("--context", type=NUMBER, metavar="N", help="Context length of a decode, tokens.")
@click.option("--nodes", type=NUMBER, default=1, metavar="N", help="Number of hosts. [1]")
@click.option("--sequence-parallel", is_flag=True, help="vLLM's sequence-parallel pass is on.")
@click.option("--link", type=BANDWIDTH, metavar="RATE", help="Link between pipeline stages: 25GB/s.")
@click.option(
    "--topo",
    type=FILE,
    metavar="FILE",
    help="Output of nvidia-smi topo -m; that of topo -p2p r may follow.",
)
@click.option("--trace", type=FILE, metavar="FILE", help="Chrome JSON from torch's profiler, one rank.")
@click.option("--server-log", type=FILE, metavar="FILE", help="Log with vLLM's line on its all-reduce backends.")
@memory_options
@click.option("--max-model-len", type=NUMBER, metavar="N", help="Longest request. [as recorded, or the model's]")
@output_options
def tp(source: Path | None, *, form: str | None, output: Path | None, **asked: Any) -> None:
    """Over how many GPUs should a model be split, and does that beat replicas?

    SOURCE is a model's config.json, or a recording, whose steps are then used as well. A cost model, not a measurement.
    """
    written = form_of(output, form, FORMATS)
    from vtop.report.plan import tensor_parallel as words

    if asked["identity"]:
        from vtop.plan.identity import shown

        many = [p for p in asked["ps"] if p in (2, 3, 6)]
        if not many:
            raise VtopError("--identity shows 2, 3 or 6 ranks: --gpus 2")
        found = shown(many[0])
        show(words.identity(found), found, "tp-identity", written, output)
        return
    from vtop.plan import collective_tables, tp_plan
    from vtop.plan.tp_breaks import Setting
    from vtop.plan.trace_check import check

    model, seen = source_of(source, asked)
    model = model or _model_of(seen)
    ps = tuple(sorted({1, *asked["ps"]}))
    timing, origin, per_token_s, fixed_s = _timing(model, seen, asked)
    size = _activation_bytes(asked["dtype"])
    wanted = tp_plan.TpQuestion(
        ps=ps,
        tokens=asked["tokens"],
        costs=_costs(asked, ps),
        timing=timing,
        timing_origin=origin,
        per_token_s=per_token_s,
        other_s=asked["other_s"] or (fixed_s, fixed_s),
        activation_bytes=size,
        decode_costs=_tables(asked["decode_tables"], asked["backend"]),
        setting=Setting(asked["nodes"], asked["sequence_parallel"], asked["context"]),
        memory=memory_of(asked),
        mix=mix_of(asked) or (seen.mix if seen is not None else None),
        max_model_len=asked["max_model_len"] or (seen.max_model_len if seen is not None else model.max_position),
        slo_s=_step_slo(asked["slo"]),
        steps=seen.steps if seen is not None else None,
        link_bytes_s=(asked["link"] or {}).get(0),
    )
    log = collective_tables.text_of(asked["server_log"]) if asked["server_log"] is not None else ""
    names = collective_tables.backends(log)
    if log and not names:
        raise VtopError(
            f"{asked['server_log']}: it has no line “Using […] all-reduce backends”, which newer vLLMs write"
        )
    trace = None
    if asked["trace"] is not None and model.dense is not None:
        trace = check(asked["trace"], model.dense.layers, model.dense.hidden, size)
    answer = tp_plan.plan(model, wanted, backends=names, groups=_groups(asked["topo"], ps), trace=trace)
    show(words.document(answer), answer, "tp", written, output)


@click.command()
@source_options
@length_options
@click.option("--tp", "ranks", type=NUMBER, default=1, metavar="N", help="Tensor-parallel ranks. [1]")
@click.option("--flops", type=NumberParam(1.0), metavar="N", help="Peak FLOP/s of a GPU, for the roofline's ridge.")
@click.option("--bandwidth", type=BANDWIDTH, metavar="RATE", help="Memory bandwidth: 4800GB/s.")
@click.option("--batch", type=Counts(), default="1,8,64", show_default=True, metavar="LIST", help="Decodes per step.")
@output_options
def work(source: Path | None, *, form: str | None, output: Path | None, **asked: Any) -> None:
    """What does a request of these lengths cost: attention dot products, FLOPs, bytes, intensity?

    Two requests of the same total work differ in how it is split over prefill and decode, and so in TTFT and TPOT.
    """
    written = form_of(output, form, FORMATS)
    from vtop.plan import work as planned
    from vtop.report.plan import work as words

    model, seen = source_of(source, asked)
    model = model or _model_of(seen)
    mix = mix_of(asked) or (seen.mix if seen is not None else None)
    if mix is None:
        raise VtopError("of which lengths? --input-len 2048 --output-len 128")
    peak = None
    if asked["flops"] is not None or asked["bandwidth"] is not None:
        if asked["flops"] is None or asked["bandwidth"] is None:
            raise VtopError("the ridge of a GPU needs both: --flops 989e12 --bandwidth 4800GB/s")
        peak = planned.Peak(asked["flops"], asked["bandwidth"].get(0) or max(asked["bandwidth"].values()))
    answer = planned.plan(model, mix, asked["batch"], tp=asked["ranks"], peak=peak)
    show(words.document(answer), answer, "work", written, output)


def _model_of(seen: Observed | None) -> ModelConfig:
    from vtop.plan.model_config import of_shape

    if seen is None or seen.shape is None:
        name = seen.name if seen is not None else "it"
        raise VtopError(f"{name}: the model's shape is not on record; give it with --model-config config.json")
    return of_shape(seen.shape, seen.name)


def _activation_bytes(dtype: str) -> int:
    from vtop.plan.all_reduce import ACTIVATION_BYTES

    size = ACTIVATION_BYTES.get(dtype)
    if size is None:
        raise VtopError(f"--activation-dtype {dtype}: one of {', '.join(ACTIVATION_BYTES)}")
    return size


def _timing(
    model: ModelConfig, seen: Observed | None, asked: dict[str, Any]
) -> tuple[StepTime, str, float | None, float]:
    """Seconds of a step's matmuls on one GPU by its tokens, in words, a token's where that is all there is, and what a
    step takes beside them. Where nothing is told: by the profile that comes with vtop for the GPU on record."""
    from vtop.engine.fit import profile
    from vtop.plan.tensor_parallel import computing, roofline

    shape = model.dense
    if shape is None:  # refused later, with the reason
        return lambda _: 0.0, "none", None, 0.0
    if asked["flops"] is not None and asked["profile_name"] is not None:
        raise VtopError("--flops and --profile: one of them says how long a step takes")
    if asked["flops"] is not None:
        one = computing(shape, asked["flops"])
        return one, f"{asked['flops'] / 1e12:g} TFLOP/s whatever T, weights not read", one(1), 0.0
    named = asked["profile_name"]
    known = profile.load(named) if named is not None else profile.of_gpu(seen.gpu if seen is not None else None)
    if known is None:
        raise VtopError("how long does a step take on one GPU? --profile NAME|FILE (see vtop fit), or --flops 120e12")
    rate, bandwidth = known.timing.compute_flops_s, known.timing.bandwidth_bytes_s
    said = f"weights at {bandwidth / 1e12:.2f} TB/s or matmuls at {rate / 1e12:.0f} TFLOP/s, what takes longer"
    said += f", and {known.timing.fixed_s * 1e3:.2f} ms beside them on any number of GPUs"
    origin = known.name if named is not None else f"{known.name}, the profile of the GPU on record"
    return roofline(shape, rate, bandwidth), f"by {origin}, {said}", None, known.timing.fixed_s


def _costs(asked: dict[str, Any], ps: Sequence[int]) -> dict[int, Cost]:
    """What an all-reduce of each number of ranks costs: measured, else by latency and bandwidth."""
    from vtop.plan.all_reduce import Link

    found: dict[int, Cost] = {}
    alpha, bandwidth = asked["alpha"] or {}, asked["bus_bandwidth"] or {}
    for p in ps:
        one, other = alpha.get(p, alpha.get(0)), bandwidth.get(p, bandwidth.get(0))
        if one is not None and other is not None:
            found[p] = Link(one, other, f"alpha {one * 1e6:g} µs, bus bandwidth {other / 1e9:g} GB/s, as given")
    return found | _tables(asked["tables"], asked["backend"])


def _tables(named: Sequence[str], backend: str) -> dict[int, Cost]:
    from vtop.plan.collective_tables import read

    found: dict[int, Cost] = {}
    for word in named:
        told = re.fullmatch(r"(\d+):(.+)", word)
        ranks, path = (int(told[1]), Path(told[2])) if told is not None else (None, Path(word))
        one = read(path, ranks, backend)
        if one.p in found:
            raise VtopError(f"{path}: a second table of {one.p} ranks")
        found[one.p] = one
    return found


def _groups(topo: Path | None, ps: Sequence[int]) -> list[Group]:
    """The first p GPUs of the table, for each p that it has."""
    from vtop.plan import topology
    from vtop.plan.collective_tables import text_of

    if topo is None:
        return []
    of = topology.read(text_of(topo), str(topo))
    return [topology.group(of, range(p)) for p in ps if 1 < p <= len(of.links)]


def _step_slo(text: str | None) -> float | None:
    from vtop.load.workload.spec import slo

    if text is None:
        return None
    bounds = slo(text)
    if bounds.tpot_s is None or bounds.ttft_s is not None or bounds.e2e_s is not None:
        raise VtopError(f"--slo {text}: a step is what a token takes; write tpot=20ms")
    return bounds.tpot_s
