"""What the verbs of `vtop plan` are asked of, a config.json, a recording or a server, and where their answers go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli.common import attached, open_recording, servers_of, write
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
    return observed(session, str(source), requests)


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

        return _put(json(verb, answer), output)
    if form == "md":
        from vtop.report.render.markdown import markdown

        return _put(markdown(document).encode(), output)
    if form == "html":
        from vtop.report.render.html import html

        return _put(html(document).encode(), output)
    if output is None and sys.stdout.isatty():
        from rich.console import Console

        from vtop.report.render.terminal import show as show_there

        return show_there(document, Console())
    from vtop.report.render.terminal import text

    return _put(text(document).encode(), output)


def _put(content: bytes, output: Path | None) -> None:
    if output is None:
        click.echo(content.decode(), nl=False)
    else:
        write(output, content)
        click.echo(str(output), err=True)
