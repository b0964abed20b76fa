"""What the verbs of `vtop plan` are asked of, a config.json, a recording or a server, and where their answers go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtop.cli.common import attached, open_recording, put, servers_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.plan.kv import Mix
    from vtop.plan.kv_plan import Memory
    from vtop.plan.model_config import ModelConfig
    from vtop.plan.observed import Observed
    from vtop.report.render.document import Document

MOST_LENGTHS = 65  # of a range, evenly taken


def source_of(source: Path | None, asked: dict[str, Any]) -> tuple[ModelConfig | None, Observed | None]:
    """The model of a config.json; or what a recording or a server says."""
    from vtop.plan.model_config import load

    if source is not None and asked["url"] is not None:
        raise VtopError(f"{source} and --url: one of them")
    dtype = asked.get("cache_dtype")
    if source is not None and source.suffix == ".json":
        if not source.exists():
            raise VtopError(f"{source}: no such file; it is the config.json of a model")
        return load(source, dtype), None
    if source is not None:
        return None, _recorded(source, asked)
    if asked["url"] is not None:
        return None, _asked_server(asked)
    if (config := asked["model_config"]) is not None:
        return load(config, dtype), None
    raise VtopError("of what? Name a model's config.json or a recording, or a server with --url")


def _recorded(source: Path, asked: dict[str, Any]) -> Observed:
    from vtop.plan.observed import observed
    from vtop.recording import AnyEvent, Request
    from vtop.session.session import read

    requests: list[Request] = []

    def see(event: AnyEvent) -> None:
        if isinstance(event, Request):
            requests.append(event)

    session = read(open_recording(source, asked["model_config"]), see)
    if not session.servers:
        raise VtopError(f"{source}: no server is on record")
    return observed(session, str(source), requests)


def _asked_server(asked: dict[str, Any]) -> Observed:
    from vtop.plan.observed import observed
    from vtop.session.session import read

    wanted = asked | {"urls": (asked["url"],), "proxy": None, "interval": 1.0, "no_gpu": False}
    attachment = attached(wanted, servers_of(wanted), None)
    try:
        answered = attachment.once()
        session = read(attachment.recording)
    finally:
        attachment.stop("once")
    if not answered:
        raise VtopError(f"{asked['url']}: does not answer with vLLM's metrics")
    return observed(session, asked["url"])


def memory_of(asked: dict[str, Any]) -> Memory | None:
    from vtop.plan.kv_plan import Memory

    parts = ("weights", "activations", "graphs", "non_torch", "margin")
    if asked["gpu_memory"] is None:
        if told := next((name for name in parts if asked[name] is not None), None):
            raise VtopError(f"--{told.replace('_', '-')} goes with --gpu-memory, of which it is a part")
        return None
    return Memory(
        asked["gpu_memory"], asked["gpu_memory_utilization"], **{f"{name}_bytes": asked[name] for name in parts}
    )


def mix_of(asked: dict[str, Any]) -> Mix | None:
    """Every pair of an input and an output length; of a range evenly spaced ones, both ends among them."""
    from vtop.plan.kv import GIVEN, Mix

    inputs, outputs, pairs = asked["inputs"], asked["outputs"], list(asked["pairs"])
    if inputs is None and outputs is None:
        return Mix(tuple(pairs), GIVEN) if pairs else None
    if inputs is None or outputs is None:
        raise VtopError("a request has both lengths: --input-len 1024 --output-len 256")
    pairs += [(a, b) for a in _spread(*inputs) for b in _spread(*outputs)]
    return Mix(tuple(pairs), GIVEN)


def _spread(least: int, most: int) -> list[int]:
    if most - least < MOST_LENGTHS:
        return list(range(least, most + 1))
    return [least + round((most - least) * at / (MOST_LENGTHS - 1)) for at in range(MOST_LENGTHS)]


# --- where to ---------------------------------------------------------------------------------------------------------


def show(document: Document, answer: Any, verb: str, form: str, output: Path | None) -> None:
    if form == "json":
        from vtop.report.plan.answer_json import json

        put(output, json(verb, answer), form)
    else:
        put(output, document, form)
