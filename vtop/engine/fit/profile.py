"""A fitted server as data: its coefficients, what they were fitted on, how far off they were, and where they hold.

A profile is a TOML file; those that come with vtop lie in `profiles/` and are found by name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from vtop import small_file
from vtop.engine.core.model_shape import ModelShape
from vtop.engine.core.timing import Frontend, Timing
from vtop.errors import VtopError

if TYPE_CHECKING:  # it brings numpy and the session, which a server has no use for
    from vtop.engine.fit.fit import FitResult, FittedRun

FOLDER = Path(__file__).resolve().parents[1] / "profiles"
MEASURES = ("e2e_s", "ttft_s", "prefill_s", "decode_s")

_TOO_LARGE = 1e30
_Record = TypeVar("_Record", Timing, Frontend, ModelShape)


@dataclass(frozen=True, slots=True)
class Residual:
    """How far a simulated run is from the recorded one, as shares of the recorded. recording: its fingerprint; None in
    profiles of before it was kept."""

    run: str
    e2e: float
    ttft: float
    prefill: float
    decode: float
    recording: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What `Engine` needs besides the flags, and how far it can be trusted."""

    name: str
    origin: str  # GPU, model, version, what it was fitted on
    timing: Timing
    frontend: Frontend
    shape: ModelShape
    residuals: tuple[Residual, ...] = ()
    holds: dict[str, tuple[float, float]] = field(default_factory=dict)  # quantity -> (least, most) on record
    flags: dict[str, int] = field(default_factory=dict)  # of the server it was fitted on
    spread: dict[str, float] = field(default_factory=dict)  # factor by which a coefficient may be off
    assumed: tuple[str, ...] = ()  # coefficients that were not fitted
    gpu: str | None = None  # its name as NVML tells it
    held_out: tuple[Residual, ...] = ()  # of runs that the fit has not seen

    def fitted_on(self, recording: str | None) -> bool | None:
        """Whether its timing was fitted on a recording, by its fingerprint; None: the profile does not know."""
        known = [residual.recording for residual in self.residuals]
        if recording is not None and recording in known:
            return True
        return None if recording is None or None in known else False

    @property
    def worst(self) -> float:
        """The largest error of a whole request's time, as a share: the uncertainty of a prediction in its range."""
        return max((abs(residual.e2e) for residual in self.residuals), default=0.0)


def of_fit(
    fit: FitResult, name: str, origin: str, *, gpu: str | None = None, held_out: Sequence[FittedRun] = ()
) -> Profile:
    """The profile of a fit. The GPU is that of the recordings where they agree on one.

    held_out: runs that it was not fitted on, and what it makes of them; it holds where those were, too.
    """
    from vtop.engine.fit.fit import ASSUMED

    gpus = {one.run.gpu for one in fit.compared}
    flags = fit.compared[0].run.flags if fit.compared else None
    return Profile(
        name,
        origin,
        fit.timing,
        fit.frontend,
        fit.shape,
        residuals=tuple(_residual(one) for one in fit.compared),
        holds=_holds([*fit.compared, *held_out]),
        flags={"num_gpu_blocks": flags.num_gpu_blocks, "block_size": flags.block_size} if flags is not None else {},
        spread={key: round(value, 2) for key, value in fit.spread.items()},
        assumed=tuple(ASSUMED),
        gpu=gpu or (gpus.pop() if len(gpus) == 1 else None),
        held_out=tuple(_residual(one) for one in held_out),
    )


def _residual(one: FittedRun) -> Residual:
    e2e, ttft, prefill, decode = (round(one.error(name), 4) for name in MEASURES)
    return Residual(one.run.name, e2e, ttft, prefill, decode, one.run.recording)


def _holds(compared: Sequence[FittedRun]) -> dict[str, tuple[float, float]]:
    ranges: dict[str, list[float]] = {}
    for one in compared:
        for request in one.simulated.requests:
            ranges.setdefault("prompt_tokens", []).append(request.prompt_tokens)
            ranges.setdefault("output_tokens", []).append(request.output_tokens)
        if one.run.load.concurrency is not None:
            ranges.setdefault("in_flight", []).append(one.run.load.concurrency)
        ranges.setdefault("kv_tokens", []).append(one.run.flags.kv_tokens)
        ranges.setdefault("max_num_batched_tokens", []).append(one.run.flags.max_num_batched_tokens)
    return {key: (min(values), max(values)) for key, values in ranges.items()}


def report(profile: Profile) -> list[str]:
    """What a person should know of a fit, in lines: residuals, range, coefficients."""
    lines = [f"{profile.name}: {profile.origin}", "", f"{'run':<32}{'whole':>8}{'TTFT':>8}{'prefill':>9}{'decode':>8}"]
    lines += map(_row, profile.residuals)
    if profile.held_out:
        lines += ["and not fitted on", *map(_row, profile.held_out)]
    lines += ["", "holds for " + ", ".join(_range(name, *bounds) for name, bounds in profile.holds.items())]
    for record in (profile.timing, profile.frontend):
        for key, value in asdict(record).items():
            if value is None:
                continue
            doubt = " (assumed)" if key in profile.assumed else ""
            doubt = f" (×÷ {profile.spread[key]:.2f})" if key in profile.spread else doubt
            lines.append(f"  {key:<20}{value:>12.4g}{doubt}")
    return lines


def _row(residual: Residual) -> str:
    return (
        f"{residual.run[:31]:<32}{residual.e2e:>+8.1%}{residual.ttft:>+8.1%}"
        f"{residual.prefill:>+9.1%}{residual.decode:>+8.1%}"
    )


def _range(name: str, least: float, most: float) -> str:
    words = name.replace("_", " ")
    return f"{words} {least:,.0f}" if least == most else f"{words} {least:,.0f}–{most:,.0f}"


def names() -> list[str]:
    """The profiles that come with vtop."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def of_gpu(gpu: str | None) -> Profile | None:
    """The profile that comes with vtop for a GPU."""
    return next((found for name in names() if (found := load(name)).gpu == gpu), None) if gpu is not None else None


def load(name: str) -> Profile:
    """A profile by its name, or from a file. Raises VtopError when there is none such, or it is none."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        found = tomllib.loads(small_file.read_text(path))
    except OSError as error:
        raise VtopError(f"no profile {name!r}: give a .toml file or one of {', '.join(names())}") from error
    except (ValueError, RecursionError) as error:
        raise VtopError(f"{path}: not a profile ({error})") from error
    try:
        return Profile(
            name=str(found["name"]),
            origin=str(found["origin"]),
            timing=_record(Timing, found["timing"]),
            frontend=_record(Frontend, found["frontend"]),
            shape=_record(ModelShape, found["shape"]),
            residuals=tuple(Residual(**residual) for residual in found.get("residual", ())),
            holds={key: (low, high) for key, (low, high) in found.get("holds", {}).items()},
            flags=dict(found.get("flags", {})),
            spread=dict(found.get("spread", {})),
            assumed=tuple(found.get("assumed", ())),
            gpu=found.get("gpu", found.get("card")),
            held_out=tuple(Residual(**residual) for residual in found.get("held_out", ())),
        )
    except (AttributeError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise VtopError(f"{path}: not a profile ({error})") from error


def _record(kind: type[_Record], values: dict[str, Any]) -> _Record:
    unknown = values.keys() - {one.name for one in fields(kind)}
    if unknown:
        raise ValueError(f"unknown {', '.join(sorted(unknown))}")
    for name, value in values.items():  # a rate is divided by, and a model without layers or heads is none
        least = 1e-300 if kind is ModelShape or name.endswith(("_bytes_s", "_flops_s")) else 0
        if isinstance(value, int | float) and not least <= value < _TOO_LARGE:
            raise ValueError(f"{name} = {value:g}")
    return msgspec.convert(values, kind)


def dump(profile: Profile) -> str:
    """The profile as TOML."""
    lines = _pairs({"name": profile.name, "origin": profile.origin, "gpu": profile.gpu})
    lines.append(f"assumed = [{', '.join(_toml(name) for name in profile.assumed)}]")
    for table in ("timing", "frontend", "shape"):
        lines += ["", f"[{table}]", *_pairs(asdict(getattr(profile, table)))]
    for table in ("flags", "holds", "spread"):
        lines += ["", f"[{table}]", *_pairs(getattr(profile, table))]
    for name, residuals in (("residual", profile.residuals), ("held_out", profile.held_out)):
        for residual in residuals:
            lines += ["", f"[[{name}]]", *_pairs(asdict(residual))]
    return "\n".join(lines) + "\n"


def _pairs(values: dict[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]


def _toml(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    if isinstance(value, float):
        short = f"{value:.6g}"
        return short if any(mark in short for mark in ".en") else short + ".0"
    return str(value)
