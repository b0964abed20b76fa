"""What is typed behind a verb: types of values, and the options that several verbs share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from vtop import units

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL = "http://localhost:8000"
DEFAULT_THEME = "dark"
DOCUMENT_WINDOW_S = 300.0  # of the numbers of show and --once, where none is asked for

if TYPE_CHECKING:
    ParamType = click.ParamType
else:

    class ParamType(click.ParamType):
        """click's, which takes the type of its values only from click 8.4 on."""

        def __class_getitem__(cls, value: object) -> type:
            return cls


class Seconds(ParamType[float]):
    """90, 90s, 2m30s, 2:30."""

    name = "time"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value) if isinstance(value, float | int) else units.duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a time: write 90, 90s, 2m30s or 2:30", param, ctx)
        if seconds < self._least:
            self.fail(f"{value!r} is too short: at least {units.seconds(self._least)}", param, ctx)
        return seconds


class Instant(NamedTuple):
    """An instant as it was typed: Unix time, or seconds before now where that is None."""

    unix_s: float | None
    ago_s: float = 0.0

    def on(self, now_s: float) -> float:
        """Its Unix time, where now is now_s."""
        return self.unix_s if self.unix_s is not None else now_s - self.ago_s


class InstantParam(ParamType[Instant]):
    """-6h, now, 2026-03-01T02:00 (of this machine's zone, unless it names one), or Unix time."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Instant:
        if isinstance(value, Instant):
            return value
        text = str(value).strip()
        try:
            if text == "now":
                return Instant(None)
            if text.startswith("-"):
                return Instant(None, units.duration(text[1:]))
            if re.fullmatch(r"\d{9,11}(\.\d+)?", text):
                return Instant(float(text))
            return Instant(datetime.fromisoformat(text).timestamp())
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is no instant: write -6h, now or 2026-03-01T02:00", param, ctx)


class NumberParam(click.FloatRange):
    """A number between two bounds; nan and inf are between none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class ScreenSize(ParamType[tuple[int, int]]):
    """Columns x lines of a screen: 120x40."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        columns, found, lines = str(value).lower().partition("x")
        if not (found and columns.isdecimal() and lines.isdecimal()):
            self.fail(f"{value!r} is not a size: write columns x lines, such as 120x40", param, ctx)
        if not (20 <= int(columns) <= 1000 and 4 <= int(lines) <= 500):
            self.fail(f"{value!r} is out of bounds: 20x4 to 1000x500", param, ctx)
        return int(columns), int(lines)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    def all_of(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return all_of


access_options = together(
    click.option("--api-key", metavar="KEY", help="Bearer key; VTOP_API_KEY or --api-key-file are safer."),
    click.option("--api-key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE"),
    click.option(
        "--header", "-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="HTTP header to send; repeatable."
    ),
    click.option(
        "--ca-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Certificates to trust."
    ),
    click.option("--insecure", is_flag=True, help="Do not check the server's certificate."),
)

shape_option = click.option(
    "--model-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The model's config.json, if vtop cannot read the server's.",
)

judge_option = click.option(
    "--slo", metavar="BOUNDS", help="Judge the recorded load by these bounds: ttft=800ms,tpot=50ms,e2e=10s."
)

server_options = together(
    click.option("--url", "urls", multiple=True, metavar="URL", help=f"Server to watch; repeatable. [{DEFAULT_URL}]"),
    click.option(
        "--targets",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="More servers: Prometheus' file_sd as JSON or YAML, or one address per line.",
    ),
    click.option("--interval", type=NumberParam(0.1, 3600), default=1.0, show_default=True, metavar="S"),
    access_options,
    click.option("--proxy", metavar="URL", help="Reach the servers through this proxy (never the loopback address)."),
    click.option("--no-gpu", is_flag=True, help="Make no NVML call."),
    shape_option,
)

prometheus_options = together(
    click.option("--prometheus", metavar="URL", help="Read servers from this Prometheus instead of --url."),
    click.option("--match", multiple=True, metavar="MATCHER", help='Only servers with job="vllm"; repeatable.'),
    click.option(
        "--from", "from_at", type=InstantParam(), help="Start: -6h or 2026-03-01T02:00. [now, after 5 min of history]"
    ),
    click.option("--to", "to_at", type=InstantParam(), help="End. [follow the newest samples]"),
    click.option("--by", metavar="LABELS", help="Labels that identify a server: instance or pod,port. [all]"),
    click.option(
        "--gpu-match", metavar="LABEL=LABEL", help="Server label = DCGM exporter label, to join GPUs: node=Hostname."
    ),
    click.option("--core", is_flag=True, help="Only core series, with buckets of five latencies: half the samples."),
)

# written out, so that --help need not load the screen; a test holds them to be all
PANEL_NAMES = (
    "requests", "kv", "gpus", "ttft", "tokens", "load", "capacity", "latencies", "by_load", "servers", "engines",
    "waterfall", "speculation", "lora", "events", "why",
)  # fmt: skip

look_options = together(
    click.option(
        "--theme",
        metavar="NAME",
        envvar="VTOP_THEME",
        help="dark, light, contrast, ansi16, or one of your own. [as last time, else what the terminal can show]",
    ),
    click.option("--ascii", "ascii_only", is_flag=True, envvar="VTOP_ASCII", help="Use ASCII characters only."),
    click.option(
        "--window",
        "window_s",
        type=Seconds(least=1),
        help="Time window of numbers and charts. [as last time, else grows to 5m; 5m in documents]",
    ),
    click.option(
        "--hide",
        metavar="PANELS",
        help=f"Panels to hide: a list of {', '.join(PANEL_NAMES)}; '' for none. [as last time]",
    ),
)

ray_option = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Send the load from the hosts of this Ray cluster, with workers=16: auto, HOST:6379, ray://HOST:10001.",
)

load_options = together(
    click.option(
        "--load",
        "loads",
        multiple=True,
        metavar="SPEC",
        help="Drive the server: c=64, rate=8 for=60s, … (all words: vtop load --help); repeatable.",
    ),
    click.option(
        "--slo", metavar="BOUNDS", help="Service level, met by all bounds jointly: ttft=800ms,tpot=50ms,e2e=10s."
    ),
    click.option("--model", metavar="NAME", help="Model to request if the server has several."),
    click.option("--yes", is_flag=True, help="Do not ask before loading a server on another host."),
    ray_option,
)
