"""What makes runs unlike, so that their numbers say nothing about each other, and what else differs between them.

Unlike are phases of other lengths, of another load or api, and recordings of another model. All else that the
recordings tell of their servers, GPUs and loads is a setting: mostly what the comparison is about, so it is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vtop import units
from vtop.metrics.quantity import Quantity
from vtop.metrics.series_names import labels_of
from vtop.recording import Load
from vtop.report.compare.pairs import begun
from vtop.report.compare.phase_blocks import Recorded, RecordedPhase
from vtop.report.labels import kinds
from vtop.report.like_phases import IN_FLIGHT, LENGTHS, in_flight
from vtop.server_kinds import registry
from vtop.session.frame.gpus import counted_of
from vtop.session.frame.kv import KvAccount
from vtop.session.history.server_config import flag_value

_IN_FIELDS: Final = {"c", "rate", "in", "out", "n", "for", "warmup", "seed", "max", "workers", "arrival", "api"}
_TOLD_OTHERWISE: Final = {"kv-cache-dtype"}  # cache_dtype
NOT_GIVEN: Final = "not given"  # on a command line that is on record
_NOT_SETTINGS: Final = {"engine", "model_name", "kv_cache_size_tokens", "kv_cache_max_concurrency", "num_gpu_blocks"}


@dataclass(frozen=True, slots=True)
class Unlike:
    """One thing in which a phase of one side is no like of the other's."""

    phase: str
    side: str  # whose phase is unlike the first's
    file: str
    what: str
    first: str
    other: str


@dataclass(frozen=True, slots=True)
class DifferingSetting:
    """Something that differs: what each side says about it."""

    name: str
    values: tuple[str, ...]


def unlike(first: RecordedPhase, other: RecordedPhase) -> list[tuple[str, str, str]]:
    """What makes two phases unlike: (what, of the first, of the other)."""
    found = [
        ("the model", *_models(first.of, other.of)),
        *_lengths(first, other),
        *_loads(first, other),
    ]
    return [(what, mine, its) for what, mine, its in found if mine != its]


def _models(first: Recorded, other: Recorded) -> tuple[str, str]:
    """By the models' shapes where both are on record, as a server calls its model what it likes; else by name."""
    shapes = _shapes(first), _shapes(other)
    if all(shapes):  # by the numbers that both have: later versions of vtop keep more of them
        names = {name for shape in shapes[0] for name in shape} & {name for shape in shapes[1] for name in shape}
        return _said(shapes[0], names), _said(shapes[1], names)
    found = _names(first), _names(other)
    return found if all(found) else ("", "")


def _shapes(of: Recorded) -> list[dict[str, int | str]]:
    """Those of all servers; none where one is not on record."""
    known = [server.identity(of.session.end_s) for server in of.session.servers]
    shapes = [one.shape for one in known if one is not None and one.shape]
    return shapes if len(shapes) == len(known) else []


def _said(shapes: list[dict[str, int | str]], names: set[str]) -> str:
    return _joined(
        [", ".join(f"{name} {value}" for name, value in sorted(shape.items()) if name in names) for shape in shapes]
    )


def _names(of: Recorded) -> str:
    return ", ".join(sorted({model for server in of.report.servers for model in server.models}))


def _lengths(first: RecordedPhase, other: RecordedPhase) -> list[tuple[str, str, str]]:
    a, b = begun(first), begun(other)
    if a is not None and b is not None and a.input_tokens and b.input_tokens:
        return [
            ("tokens in", _range(a.input_tokens), _range(b.input_tokens)),
            ("tokens out", _range(a.output_tokens), _range(b.output_tokens)),
        ]
    seen, its = _account(first), _account(other)
    return [
        *_apart("tokens in, mean", seen.input_tokens, its.input_tokens, LENGTHS),
        *_apart("tokens out, mean", seen.output_tokens, its.output_tokens, LENGTHS),
    ]


def _account(place: RecordedPhase) -> KvAccount:
    """Of the steady part, where no warm-up of other lengths is among what finished."""
    steady = place.phase.steady.account if place.phase.steady is not None else None
    if steady is not None and steady.input_tokens is not None:
        return steady
    return place.phase.whole.account if place.phase.whole is not None else KvAccount()


def _loads(first: RecordedPhase, other: RecordedPhase) -> list[tuple[str, str, str]]:
    a, b = begun(first), begun(other)
    if a is not None and b is not None:
        return [("load", _words(a), _words(b)), ("api", a.api, b.api), ("prompts", _prompts(a), _prompts(b))]
    if any(one is not None and one.shape == "open" for one in (a, b)):
        return []  # what was asked of the other is not known
    return _apart("requests in flight", in_flight(first.phase), in_flight(other.phase), IN_FLIGHT)


def _words(load: Load) -> str:
    if load.shape == "closed":
        return f"{load.concurrency} in flight"
    return f"{load.rate_per_s:g} requests/s, {load.arrival}" if load.rate_per_s is not None else f"{load.arrival}"


def _prompts(load: Load) -> str:
    """What else was asked for: prefix=256, dataset=NAME."""
    return " ".join(word for word in load.spec.split() if word.partition("=")[0] not in _IN_FIELDS) or "random"


def _apart(what: str, a: float | None, b: float | None, by: float) -> list[tuple[str, str, str]]:
    if a is None or b is None or abs(a - b) <= by * max(a, b):
        return []
    return [(what, units.number(a), units.number(b))]


def _range(of: tuple[int, int] | None) -> str:
    if of is None:
        return units.UNKNOWN
    low, high = of
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


# --- settings --------------------------------------------------------------------------------------------------------


def settings(sides: Sequence[Sequence[Recorded]]) -> tuple[DifferingSetting, ...]:
    """What differs between the sides, of all that is known; how the load was made, and with which flags the servers
    were started, only where every side tells."""
    known = [[_settings(one) for one in side] for side in sides]
    if all(server.started is not None for side in sides for one in side for server in one.report.servers):
        known = [
            [{**of, **_command(one, of)} for of, one in zip(*both, strict=True)]
            for both in zip(known, sides, strict=True)
        ]
    if all(one.session.load.phases for side in sides for one in side):
        known = [
            [{**of, **_load_settings(one)} for of, one in zip(*both, strict=True)]
            for both in zip(known, sides, strict=True)
        ]
    names = dict.fromkeys(name for side in known for one in side for name in one)
    found = []
    for name in names:
        lacking = NOT_GIVEN if name.startswith("--") else units.UNKNOWN
        values = tuple(_joined([one.get(name, lacking) for one in side]) for side in known)
        if len(set(values)) > 1:
            found.append(DifferingSetting(name, values))
    return tuple(found)


def _joined(values: Sequence[str]) -> str:
    return " / ".join(dict.fromkeys(values))


def _settings(of: Recorded) -> dict[str, str]:
    report, start = of.report, of.session.start
    devices = counted_of(report.devices)
    return {
        "model": _names(of) or units.UNKNOWN,
        kinds(report.servers): _joined([server.version or units.UNKNOWN for server in report.servers]),
        "servers": str(len(report.servers)),
        "engines": str(sum(server.engines for server in report.servers)),
        "max_model_len": _joined([units.count(server.max_model_len) for server in report.servers]),
        "KV pool, tokens": units.count(report.pool.pool_tokens if report.pool is not None else None),
        **_flags(of),
        "GPUs": str(len(devices)) if devices else units.UNKNOWN,
        "GPU": _joined([device.name or units.UNKNOWN for device in devices]) or units.UNKNOWN,
        "power limit": units.watts(report.power_limit_w),
        "highest SM clock": _joined([_clock(device.sm_max_mhz) for device in devices]) or units.UNKNOWN,
        "load": "vtop's own" if of.session.load.phases else "not on record",
        "recorded by": f"vtop {report.vtop}" if report.origin is None else report.origin,
        "scrape interval": units.seconds(start.interval_s),
    }


def _flags(of: Recorded) -> dict[str, str]:
    """What the servers say about their cache's configuration."""
    found: dict[str, list[str]] = {}
    for server in of.session.servers:
        track = server.labels.get(Quantity.CACHE_CONFIG)
        for series in (track.at(len(server.t) - 1) or ()) if track is not None else ():
            for name, value in sorted(labels_of(series).items()):
                if name not in _NOT_SETTINGS:
                    found.setdefault(name, []).append(value)
    return {name: _joined(values) for name, values in found.items()}


def _command(of: Recorded, said: Mapping[str, str]) -> dict[str, str]:
    """The flags of the servers' commands, without those that their scrapes tell (`said`)."""
    found: dict[str, list[str]] = {}
    for server in of.report.servers:
        started = server.started
        if started is None:
            continue
        for name, value in started.flags.items():
            if name.replace("-", "_") not in said and name not in _TOLD_OTHERWISE:
                found.setdefault(f"--{name}", []).append(flag_value(value))
        for name in started.defaults:
            limit = (
                started.max_num_seqs
                if name == registry.of(server.kind).flag_names.max_num_seqs
                else started.max_num_batched_tokens
            )
            found.setdefault(f"--{name}", []).append(f"{limit} (default)")
    return {name: _joined(values) for name, values in found.items()}


def _load_settings(of: Recorded) -> dict[str, str]:
    loads = [phase.begin for phase in of.session.load.phases.values()]
    asked: dict[str, list[str]] = {
        "requests a phase": [str(load.requests) if load.requests is not None else units.UNKNOWN for load in loads],
        "seconds a phase": [units.seconds(load.for_s) for load in loads],
        "warm-up requests": [str(load.warmup) for load in loads],
        "seed": [str(load.seed) for load in loads],
        "most in flight": [units.count(load.max_in_flight) for load in loads],
        "load processes": [str(load.workers) for load in loads],
        "SLO": [_slo(load.slo) for load in loads],
    }
    return {name: _joined(values) for name, values in asked.items()}


def _clock(mhz: float | None) -> str:
    return f"{mhz:,.0f} MHz" if mhz is not None else units.UNKNOWN


def _slo(bounds: dict[str, float] | None) -> str:
    return ", ".join(f"{name} {units.seconds(value)}" for name, value in sorted((bounds or {}).items())) or "none"
