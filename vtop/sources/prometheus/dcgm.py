"""GPUs as NVIDIA's DCGM exporter tells a Prometheus of them, joined to the servers that use them.

A GPU is a server's by the first of these that any server answers to: a rule that is given (--gpu-match); its pod and
namespace; its node; the host in `instance`. Whom none joins is left out, and said. Several servers of one host without
pods share its GPUs: they are not divided. Throttling is not in the exporter's default counters, and not read.
Source: dcgm-exporter, etc/default-counters.csv.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vtop.errors import VtopError
from vtop.recording import Gpu, GpuReading
from vtop.recording.merge_gpus import Devices
from vtop.sources.prometheus.api import PrometheusApi, StoredSeries, quoted
from vtop.sources.prometheus.who import FoundTarget

_PREFIX: Final = "DCGM_FI_DEV_"
_MIB: Final = float(1 << 20)
# what of the exporter is read: field of a reading, and what one of its units is
_FIELDS: Final[Mapping[str, tuple[str, float]]] = {
    "GPU_UTIL": ("util_ratio", 0.01),
    "POWER_USAGE": ("power_w", 1.0),
    "TOTAL_ENERGY_CONSUMPTION": ("energy_j", 0.001),
    "GPU_TEMP": ("temp_c", 1.0),
    "SM_CLOCK": ("sm_mhz", 1.0),
    "MEM_CLOCK": ("mem_mhz", 1.0),
    "FB_USED": ("mem_used_bytes", _MIB),
    "FB_FREE": ("mem_free_bytes", _MIB),
}
_NAMES: Final = f"{_PREFIX}({'|'.join(_FIELDS)})"
_MARK: Final = f"{_PREFIX}(GPU_UTIL|POWER_USAGE|FB_USED)"
_WHERE: Final = ("instance", "job")  # of the exporter: all its GPUs are read at one time
_PODS: Final = ("exported_pod", "pod")
_NAMESPACES: Final = ("exported_namespace", "namespace")
_NODES: Final = ("node", "kubernetes_node", "nodename")


@dataclass(frozen=True, slots=True)
class JoinedGpu:
    """A GPU of one or more servers (by their place). key: its UUID, with the MIG instance where there is one."""

    key: str
    labels: Mapping[str, str]
    servers: tuple[int, ...]

    @property
    def exporter(self) -> tuple[str, ...]:
        return tuple(self.labels.get(label, "") for label in _WHERE)


def joined(
    api: PrometheusApi, servers: Sequence[FoundTarget], begin_s: float, end_s: float, rule: tuple[str, str] | None
) -> tuple[list[JoinedGpu], list[str]]:
    """The GPUs of these servers, and what there is to say. rule: labels of servers and of GPUs that are equal."""
    rows = api.series("{" + f"__name__=~{quoted(_MARK)}" + "}", begin_s, end_s)
    seen: dict[str, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: sorted(row.items())):
        seen.setdefault(_key(row), row)
    found, alone = [], 0
    for key, row in seen.items():
        owners = _owners(row, servers, rule)
        if owners:
            found.append(JoinedGpu(key, row, owners))
        else:
            alone += 1
    told = []
    if alone:
        told.append(f"{alone} GPUs of DCGM belong to none of these servers by pod, node or host; see --gpu-match")
    shared = sum(len(gpu.servers) > 1 for gpu in found)
    if shared:
        told.append(f"{shared} GPUs are of hosts with several servers, and are not divided among them")
    if found:
        told.append("GPUs by DCGM: why a clock was held down is not exported, nor are limits of power")
    return found, told


def rule_of(text: str | None) -> tuple[str, str] | None:
    """Of --gpu-match server_label=gpu_label. Raises VtopError."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([a-zA-Z_]\w*)\s*=\s*([a-zA-Z_]\w*)\s*", text)
    if found is None:
        raise VtopError(f"--gpu-match {text}: expected a server's label and a GPU's, such as node=Hostname")
    return found[1], found[2]


class GpuReader:
    """Makes readings of the samples of joined GPUs, in order of time. unix_s: of the session's second 0."""

    def __init__(self, gpus: Sequence[JoinedGpu], unix_s: float, interval_s: float) -> None:
        self._gpus = {gpu.key: gpu for gpu in gpus}
        self._unix_s = unix_s
        self._last_s: dict[tuple[str, ...], float] = {}  # by exporter
        self._places = {exporter: place for place, exporter in enumerate(sorted({gpu.exporter for gpu in gpus}))}
        self._devices = Devices([math.inf] * len(self._places), interval_s)

    @property
    def selector(self) -> str:
        uuids = sorted({gpu.labels.get("UUID", "") for gpu in self._gpus.values()})
        return "{" + f"__name__=~{quoted(_NAMES)},UUID=~{quoted('|'.join(map(re.escape, uuids)))}" + "}"

    def events(self, piece: Sequence[StoredSeries]) -> Iterator[Gpu]:
        """The readings of a piece that are new."""
        lines: dict[tuple[float, tuple[str, ...]], dict[str, dict[str, float]]] = {}
        for series in piece:
            gpu = self._gpus.get(_key(series.metric))
            if gpu is None or any(gpu.labels.get(label) != series.metric.get(label) for label in _WHERE):
                continue
            known = _FIELDS.get(series.metric["__name__"].removeprefix(_PREFIX))
            if known is None:
                continue
            field, unit = known
            last_s = self._last_s.get(gpu.exporter, -math.inf)
            for at, value in zip(*series.columns(), strict=True):
                if at > last_s and math.isfinite(value):
                    lines.setdefault((at, gpu.exporter), {}).setdefault(gpu.key, {})[field] = value * unit
        for (at, exporter), values in sorted(lines.items()):
            self._last_s[exporter] = at
            at_s = round(at - self._unix_s, 3)
            readings = tuple(self._reading(self._gpus[key], found) for key, found in sorted(values.items()))
            line = Gpu(t=at_s, at_s=at_s, took_s=0.0, gpus=readings)
            if (whole := self._devices.with_others(self._places[exporter], line)) is not None:
                yield whole

    def _reading(self, gpu: JoinedGpu, values: Mapping[str, float]) -> GpuReading:
        index = gpu.labels.get("gpu", "")
        used, free = values.get("mem_used_bytes"), values.get("mem_free_bytes")
        return GpuReading(
            index=int(index) if index.isdecimal() else 0,
            uuid=gpu.key,
            name=gpu.labels.get("modelName"),
            util_ratio=values.get("util_ratio"),
            mem_used_bytes=int(used) if used is not None else None,
            mem_total_bytes=int(used + free) if used is not None and free is not None else None,
            power_w=values.get("power_w"),
            energy_j=values.get("energy_j"),
            temp_c=values.get("temp_c"),
            sm_mhz=values.get("sm_mhz"),
            mem_mhz=values.get("mem_mhz"),
            serving=True,
        )


def _key(row: Mapping[str, str]) -> str:
    uuid, part = row.get("UUID", ""), row.get("GPU_I_ID")
    return f"{uuid}/{part}" if part else uuid


def _owners(row: Mapping[str, str], servers: Sequence[FoundTarget], rule: tuple[str, str] | None) -> tuple[int, ...]:
    rows = [dict(server.copies[0].labels) for server in servers]
    if rule is not None:
        mine, its = rule
        return tuple(place for place, one in enumerate(rows) if one.get(mine) and one.get(mine) == row.get(its))
    for same in (_same_pod, _same_node, _same_host):
        if found := tuple(place for place, one in enumerate(rows) if same(one, row)):
            return found
    return ()


def _same_pod(server: Mapping[str, str], gpu: Mapping[str, str]) -> bool:
    spaces = {_first(server, _NAMESPACES), _first(gpu, _NAMESPACES)} - {None}
    return _first(server, _PODS) is not None and _first(server, _PODS) == _first(gpu, _PODS) and len(spaces) < 2


def _same_node(server: Mapping[str, str], gpu: Mapping[str, str]) -> bool:
    node = _first(server, _NODES)
    return node is not None and node in (_first(gpu, _NODES), gpu.get("Hostname"))


def _same_host(server: Mapping[str, str], gpu: Mapping[str, str]) -> bool:
    host = _host(server.get("instance", ""))
    return bool(host) and host in (_host(gpu.get("instance", "")), gpu.get("Hostname"))


def _host(instance: str) -> str:
    host, _, port = instance.rpartition(":")
    return host if port.isdecimal() else instance


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)
