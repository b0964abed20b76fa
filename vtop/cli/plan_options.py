"""What is typed behind the verbs of `vtop plan`: types of values, and the options that several of them share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtop.cli.options import NumberParam, ParamType, access_options, shape_option, together

if TYPE_CHECKING:
    from vtop.plan.queueing import Services

FORMATS = ("txt", "md", "json", "html")
NUMBER = click.IntRange(min=1)
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Size(ParamType[float]):
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


class RangeParam(ParamType[tuple[int, int]]):
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


class Mixture(ParamType["Services"]):
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


class Rates(ParamType[tuple[float, ...]]):
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


class Share(ParamType[float]):
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


class Counts(ParamType[tuple[int, ...]]):
    """Whole numbers above 0: 1,2,4."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is no list of whole numbers: write 1,4,8", param, ctx)
        return tuple(sorted({int(part) for part in parts}))


class ByRanks(ParamType[dict[int, float]]):
    """One value for every p, or one a p: 8us, or 2:6us,4:8us. Under 0: for all."""

    def __init__(self, name: str, units: dict[str, float], example: str) -> None:
        self.name, self._units, self._example = name, units, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[int, float]:
        if isinstance(value, dict):
            return value
        found: dict[int, float] = {}
        for part in str(value).split(","):
            row = re.fullmatch(r"\s*(?:(\d+):)?(\d+(?:\.\d+)?)\s*([A-Za-zµ/]*)\s*", part)
            scale = self._units.get(row[3]) if row is not None else None
            if row is None or scale is None or float(row[2]) <= 0:
                self.fail(f"{part!r}: write {self._example}", param, ctx)
            found[int(row[1] or 0)] = float(row[2]) * scale
        return found


ALPHA = ByRanks("time", {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}, "8us, or 2:6us,4:8us")
BANDWIDTH = ByRanks("bandwidth", {"GB/s": 1e9, "": 1.0}, "150GB/s, or 2:200GB/s,4:150GB/s")


output_options = together(
    click.option("--format", "form", type=click.Choice(FORMATS), help="Output format. [by the ending of -o]"),
    click.option("-o", "output", type=click.Path(path_type=Path, dir_okay=False), help="Output file. [stdout]"),
)
source_options = together(
    click.argument("source", type=click.Path(path_type=Path), required=False),
    click.option("--url", metavar="URL", help="A running server, instead of SOURCE."),
    access_options,
    shape_option,
)


class Pair(ParamType[tuple[int, int]]):
    """Prompt and output tokens of a request: 1024+256."""

    name = "lengths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d+)\+(\d+)", str(value).strip())
        if found is None or not int(found[1]) or not int(found[2]):
            self.fail(f"{value!r} is no request: write prompt + output tokens, such as 1024+256", param, ctx)
        return int(found[1]), int(found[2])


length_options = together(
    click.option("--input-len", "inputs", type=RangeParam(), metavar="N|N~M", help="Prompt tokens of a request."),
    click.option("--output-len", "outputs", type=RangeParam(), metavar="N|N~M", help="Output tokens of a request."),
    click.option(
        "--request", "pairs", type=Pair(), multiple=True, metavar="N+M", help="Prompt + output tokens; repeatable."
    ),
)
memory_options = together(
    click.option("--gpu-memory", type=Size(), metavar="BYTES", help="Memory of one GPU; the pool is what remains."),
    click.option(
        "--gpu-memory-utilization", type=NumberParam(0.01, 1.0), default=0.92, show_default=True, metavar="SHARE"
    ),
    click.option("--weights", type=Size(), metavar="BYTES", help="Weights of one rank. [computed for dense models]"),
    click.option(
        "--activations", type=Size(), metavar="BYTES", help="Peak activations of a step, as vLLM profiles them."
    ),
    click.option("--graphs", type=Size(), metavar="BYTES", help="CUDA graphs, from vLLM's log."),
    click.option("--non-torch", type=Size(), metavar="BYTES", help="NCCL and CUDA context, from vLLM's log."),
    click.option("--margin", type=Size(), metavar="BYTES", help="Memory to leave free."),
)
