"""The facts box: what was watched, with what, for how long, and how well."""

from __future__ import annotations

from datetime import UTC, datetime

from vtop import units
from vtop.report.model import Report
from vtop.server_kinds import registry
from vtop.session.frame.gpus import counted_of
from vtop.session.frame.servers import typed


def facts(report: Report) -> tuple[tuple[str, str], ...]:
    """Names and values; a name whose value is not known is left out."""
    found = [
        ("recorded", _when(report)),
        ("server", _servers(report)),
        ("model", _models(report)),
        ("started with", _started(report)),
        ("KV pool", _pool(report)),
        ("GPU", _devices(report)),
        ("load", _load(report)),
        ("duration", _duration(report)),
        ("samples", _samples(report)),
        ("sampling error", _error(report)),
        ("failed requests", _failed(report)),
        ("preemptions", _preemptions(report)),
    ]
    return tuple((name, value) for name, value in found if value is not None)


def _when(report: Report) -> str:
    begun = datetime.fromtimestamp(report.start_unix_s, UTC)
    origin = f"; {report.origin}" if report.origin is not None else ""
    return f"{begun:%Y-%m-%d %H:%M:%S} UTC, by vtop {report.vtop}{origin}"


def _servers(report: Report) -> str | None:
    found = []
    for one in report.servers:
        version = f"{registry.of(one.kind).title} {one.version}" if one.version is not None else "version not known"
        engines = f", {one.engines} engines" if one.engines > 1 else ""
        found.append(f"{one.url} ({version}{engines})")
    return "; ".join(found) or None


def _models(report: Report) -> str | None:
    names = sorted({name for one in report.servers for name in one.models})
    longest = sorted({one.max_model_len for one in report.servers if one.max_model_len is not None})
    if not names:
        return None
    return ", ".join(names) + (f", max_model_len {'/'.join(f'{n:,}' for n in longest)}" if longest else "")


def _started(report: Report) -> str | None:
    """The servers' commands, as far as they are about performance."""
    found = []
    for one in report.servers:
        if (started := one.started) is None:
            continue
        names = registry.of(one.kind).flag_names
        limits = {
            names.max_num_seqs: started.max_num_seqs,
            names.max_num_batched_tokens: started.max_num_batched_tokens,
        }
        usual = ", ".join(typed(name, limit) for name in started.defaults if (limit := limits[name]) is not None)
        found.append(started.words + (f" (defaults: {usual})" if usual else ""))
    return "; ".join(dict.fromkeys(found)) or None


def _pool(report: Report) -> str | None:
    pool = report.pool
    if pool is None or pool.pool_tokens is None:
        return None
    said = f"{units.count(pool.pool_tokens)} tokens"
    if pool.pool_bytes is not None:
        said = f"{units.bytes_(pool.pool_bytes)}, {said}"
    if pool.block_size is not None:
        said += f" in blocks of {pool.block_size}"
    if pool.max_concurrency is not None:
        said += f"; holds {units.number(pool.max_concurrency)} requests of full length"
    if pool.prefix_caching is not None:
        said += f"; prefix caching {'on' if pool.prefix_caching else 'off'}"
    return said


def _devices(report: Report) -> str | None:
    devices = counted_of(report.devices)
    if not devices:
        return report.gpu_note
    names: dict[str, int] = {}
    for device in devices:
        names[device.name or "not named"] = names.get(device.name or "not named", 0) + 1
    said = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    memory = devices[0].mem_total_bytes
    if memory is not None:
        said += f", {units.bytes_(memory)}"
    return said + (f", limit {units.watts(report.power_limit_w)}" if report.power_limit_w is not None else "")


def _load(report: Report) -> str | None:
    loads = [phase.load for phase in report.phases if phase.load is not None]
    if loads:
        return "vtop's own: " + "; ".join(load.spec for load in loads)
    return "not vtop's own" if report.phases else "no request ran"


def _duration(report: Report) -> str:
    run = report.run
    whole = units.clock(report.seconds)
    if run is None:
        return whole
    many = f"{len(report.phases)} phases" if len(report.phases) > 1 else "one phase"
    return f"{whole}, of which {units.clock(run.begin_s)}–{units.clock(run.end_s)} in {many}"


def _samples(report: Report) -> str | None:
    said = "; ".join(f"{one.scrapes:,} scrapes in {units.seconds(one.seconds)}" for one in report.sampling)
    run = report.run
    if not said:
        return "none"
    return said + (f", {run.power_w.n:,} readings of the GPU" if run is not None and run.power_w.n else "")


def _error(report: Report) -> str | None:
    said = [
        f"interval p50 {one.apart_p50_s:.4f} s, p99 {one.apart_p99_s:.4f} s (asked {one.interval_s:g} s); error "
        f"p50 {units.seconds(one.error_p50_s)}, p99 {units.seconds(one.error_p99_s)}"
        for one in report.sampling
        if one.apart_p50_s is not None and one.apart_p99_s is not None
    ]
    return "; ".join(said) or None


def _preemptions(report: Report) -> str | None:
    run = report.run
    return units.count(run.preemptions) if run is not None and run.preemptions is not None else None


def _failed(report: Report) -> str | None:
    loads = [phase.load for phase in report.phases if phase.load is not None]
    if not loads:
        return None
    failed = sum(load.failed for load in loads)
    return f"{failed:,} / {sum(load.done + load.failed for load in loads):,}"
