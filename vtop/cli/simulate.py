"""The verbs simulate and demo: a simulated vLLM server to ask, and one with a load and a screen on it."""

from __future__ import annotations

import ipaddress
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli.common import echo, no_terminal, servers_of, view_of
from vtop.cli.options import look_options, together
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.engine.server.simulated import Settings

PROFILE = "h200-qwen2.5-7b"
MAX_MODEL_LEN = 8192
# An H200's overload at a third of its size: the pool is full within two seconds, answers end from the fifth on
DEMO_KV_TOKENS, DEMO_IN, DEMO_OUT, DEMO_CONCURRENCY = 32_768, 2048, 768, 48
DEMO_FOR = "1h"
DEMO_STILL_S = 60.0  # what is shown without a terminal

_NUMBER = click.IntRange(min=1)
_LIMIT = click.IntRange(min=0)
fault_option = click.option(
    "--fault", default="", metavar="WORDS", help="Inject faults: stall=5s@30,restart@60,nan,freeze=20s@90."
)
_engine_options = together(
    click.option("--profile", default=PROFILE, show_default=True, metavar="NAME|FILE", help="Timing profile."),
    click.option("--served-model-name", "model", metavar="NAME", help="[simulated/ and the profile's]"),
    click.option("--kv-tokens", type=_NUMBER, metavar="N", help="KV pool in tokens. [the profile's]"),
    click.option("--block-size", type=_NUMBER, default=16, show_default=True, metavar="N"),
    click.option("--max-model-len", type=_NUMBER, metavar="N", help=f"[{MAX_MODEL_LEN}, or what the pool holds]"),
    click.option("--max-num-seqs", type=_NUMBER, default=128, show_default=True, metavar="N"),
    click.option("--max-num-batched-tokens", type=_NUMBER, default=8192, show_default=True, metavar="N"),
    click.option("--scheduling-policy", "policy", type=click.Choice(["fcfs", "priority"]), default="fcfs"),
    click.option("--watermark", type=click.FloatRange(0.0, 1.0, max_open=True), default=0.0, metavar="RATIO"),
    click.option("--enable-prefix-caching/--no-enable-prefix-caching", default=True, show_default=True),
    click.option("--async-scheduling/--no-async-scheduling", default=True, show_default=True),
)
_server_flags = together(
    click.option("--max-num-queued-reqs", type=_LIMIT, metavar="N", help="Answer 503 beyond N requests."),
    click.option(
        "--max-num-queued-tokens", type=_LIMIT, metavar="N", help="Answer 503 beyond N waiting prompt tokens."
    ),
    click.option("--enable-mfu-metrics/--no-enable-mfu-metrics", default=True, show_default=True),
    click.option("--enable-per-request-metrics", is_flag=True),
    click.option("--enable-prompt-tokens-details", is_flag=True),
    click.option("--enable-force-include-usage", is_flag=True),
    click.option("--api-key", metavar="KEY", help="API key that /v1 requires."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of the answers' lengths."),
)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@_engine_options
@_server_flags
@fault_option
def simulate(port: int, host: str, **asked: Any) -> None:
    """Run a simulated vLLM server without a GPU: its /metrics, streams and scheduler, with a fitted GPU's timing.

    It answers what vtop and vLLM's own benchmark request; the text it generates is meaningless. See docs/simulate.md.
    """
    settings = _settings(asked)
    from vtop.engine.server.serve import serve
    from vtop.engine.server.subprocess import listen

    try:
        listening = listen(host, port)
    except OSError as error:
        raise VtopError(f"cannot listen on {host}:{port} ({error.strerror}); name another --port") from error
    with listening:
        address = f"[{host}]" if ":" in host else host
        flags = settings.flags
        echo(
            f"simulated vLLM ({settings.model}, KV {flags.kv_tokens:,} tok) on "
            f"http://{address}:{listening.getsockname()[1]}",
            err=True,
        )
        if not _loopback(host):
            echo(f"vtop: {host} is no loopback address: whoever reaches this machine can ask it", err=True)
        number = serve(settings, listening)
    sys.exit(128 + number)


@click.command()
@click.option("--record", "record_to", type=click.Path(path_type=Path, dir_okay=False), help="Record to FILE.")
@fault_option
@look_options
def demo(record_to: Path | None, fault: str, **look: Any) -> None:
    """Try vtop without a server or a GPU: on a simulated one, with more load than its KV cache holds.

    Everything runs on this machine and ends with the screen. Without a terminal it prints one instant.
    """
    view = view_of(look, document=no_terminal() is not None)
    settings = demo_settings(fault)
    if no_terminal() is not None:
        if record_to is not None:
            raise VtopError("--record goes with the screen; without one: vtop simulate, and vtop record --url :8000")
        _print_an_instant(settings, view)
        return
    from vtop.engine.server.subprocess import Started

    with Started(settings) as server:  # first of all: it comes up while the screen is loaded
        from vtop.cli import watch
        from vtop.engine.core.model_shape import numbers
        from vtop.engine.fit import profile
        from vtop.engine.server.virtual_recording import ORIGIN
        from vtop.load.workload.spec import phases

        asked: dict[str, Any] = {
            "urls": (server.url,),
            "interval": 1.0,
            "no_gpu": True,
            "origin": ORIGIN,
            "shape": numbers(profile.load(settings.profile).shape),
            "headers": (),
            "insecure": False,
            "yes": True,
            **dict.fromkeys(("api_key", "api_key_file", "ca_file", "proxy", "slo", "model")),
        }
        load = phases([f"c={DEMO_CONCURRENCY} in={DEMO_IN} out={DEMO_OUT} for={DEMO_FOR}"])
        watch.live(asked, servers_of(asked), record_to, view, load)


def demo_settings(fault: str = "") -> Settings:
    """Of the demo's server: a small KV cache. Raises VtopError for faults that are none."""
    asked_of_server = {"enable_prefix_caching": False, "enable_mfu_metrics": True, "fault": fault}
    return _settings({"kv_tokens": DEMO_KV_TOKENS, **asked_of_server})


def _print_an_instant(settings: Settings, view: dict[str, Any]) -> None:
    """The same load, a minute of it on virtual time."""
    from vtop.engine.server.request_parsing import ParsedRequest
    from vtop.engine.server.virtual_recording import tape
    from vtop.session.session import read
    from vtop.ui import run

    asked = ParsedRequest(prompts=(range(DEMO_IN),), max_tokens=DEMO_OUT, ignore_eos=True)
    recording = tape(settings, asked, DEMO_CONCURRENCY, DEMO_STILL_S, unix_s=time.time())
    recording.close("the time is up")
    session = read(recording)
    echo(run.still(session, now_s=DEMO_STILL_S, size=(120, 36), **view)[1], nl=False)


def _settings(asked: dict[str, Any]) -> Settings:
    """What a simulated server is started with. Raises VtopError for what vLLM refuses, before anything listens."""
    from vtop.engine.core.flags import Flags
    from vtop.engine.fit import profile
    from vtop.engine.server.faults import faults
    from vtop.engine.server.simulated import Settings, check

    name = asked.pop("profile", PROFILE)
    fitted = profile.load(name)
    flags = {key: asked.pop(key) for key in list(asked) if key in Flags.__dataclass_fields__}
    block_size = flags.get("block_size", 16)
    kv_tokens = asked.pop("kv_tokens", None)
    kv_tokens = kv_tokens or fitted.flags["num_gpu_blocks"] * fitted.flags["block_size"]
    blocks = kv_tokens // block_size
    holds = max(blocks - 1, 1) * block_size
    flags["max_model_len"] = flags.get("max_model_len") or min(MAX_MODEL_LEN, holds)
    model = asked.pop("model", None) or f"simulated/{fitted.name}"
    faults(asked["fault"])
    settings = Settings(Flags(num_gpu_blocks=blocks, **flags), profile=name, model=model, **asked)
    check(settings.flags)
    return settings


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
