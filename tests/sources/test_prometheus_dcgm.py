"""GPUs that a DCGM exporter tells of are joined to the servers on them by a rule, and never to a guess."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.sources.prometheus_store import Store, series
from tests.sources.test_prometheus import BEGAN, TEN, notes, page, session_of
from vtop.errors import VtopError
from vtop.recording import Gpu
from vtop.sources.prometheus.api import StoredSeries
from vtop.sources.prometheus.dcgm import rule_of
from vtop.sources.prometheus.stored import HistoryQuery, Stored

VALUES = {
    "GPU_UTIL": 90.0, "POWER_USAGE": 500.0, "FB_USED": 1000.0, "FB_FREE": 24.0, "SM_CLOCK": 1980.0, "GPU_TEMP": 60.0,
}  # fmt: skip


def gpu(uuid: str, labels: Mapping[str, str], late_s: float = 0.5) -> list[StoredSeries]:
    where = {"UUID": uuid, "gpu": "0", "modelName": "H200", "job": "dcgm", "instance": "e:9400", **labels}
    at = [t + late_s for t in TEN]
    rows = [series(f"DCGM_FI_DEV_{name}", where, [(t, value) for t in at]) for name, value in VALUES.items()]
    energy = [(t, 500_000.0 * (t - BEGAN)) for t in at]  # mJ
    return [*rows, series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", where, energy)]


def read(rows: list[StoredSeries], rule: str | None = None) -> tuple[Stored, list]:  # type: ignore[type-arg]
    stored = Stored(Store(rows), HistoryQuery(BEGAN + 99, BEGAN + 111, gpu_rule=rule_of(rule)))
    return stored, list(stored.lines())


@pytest.mark.parametrize(
    ("server", "device", "rule"),
    [
        ({"instance": "10.0.0.1:8000", "pod": "llm-0", "namespace": "a"}, {"pod": "llm-0", "namespace": "a"}, None),
        ({"instance": "10.0.0.1:8000", "pod": "llm-0"}, {"exported_pod": "llm-0", "pod": "dcgm-x"}, None),
        ({"instance": "10.0.0.1:8000", "node": "n1"}, {"Hostname": "n1"}, None),
        ({"instance": "n1:8000"}, {"instance": "n1:9400"}, None),
        ({"instance": "10.0.0.1:8000", "rack": "r"}, {"shelf": "r"}, "rack=shelf"),
    ],
)
def test_a_gpu_is_a_server_s_by_pod_node_host_or_a_rule(
    server: Mapping[str, str], device: Mapping[str, str], rule: str | None
) -> None:
    stored, lines = read(page({"job": "v", **server}) + gpu("GPU-1", device), rule)
    frame = session_of(stored, lines).frame(12.0)
    (found,) = frame.gpus.devices
    assert (found.name, found.util_ratio, found.power.now, found.mem_total_bytes) == ("H200", 0.9, 500.0, 1024 << 20)
    assert found.energy_j == pytest.approx(500.0 * 9)
    assert found.throttle is None
    assert frame.gpus.local


def test_a_gpu_that_no_rule_joins_is_left_out_and_said() -> None:
    stored, lines = read(page({"job": "v", "instance": "a:1", "pod": "llm-0"}) + gpu("GPU-1", {"pod": "other"}))
    assert not any(isinstance(line, Gpu) for line in lines)
    assert not stored.start.servers[0].local
    assert "1 GPUs of DCGM belong to none of these servers" in notes(lines)


def test_gpus_of_two_exporters_stand_side_by_side() -> None:
    rows = page({"job": "v", "instance": "n1:1"}) + page({"job": "v", "instance": "n2:1"}, start=1.0, by=700.0)
    rows += gpu("GPU-1", {"instance": "n1:9400"}) + gpu("GPU-2", {"instance": "n2:9400"}, 0.7)
    stored, lines = read(rows)
    (*_, last) = [line for line in lines if isinstance(line, Gpu)]
    assert [(one.uuid, one.index) for one in last.gpus] == [("GPU-2", 1), ("GPU-1", 0)]
    assert session_of(stored, lines).frame(12.0).gpus.power_w == 1000.0


def test_a_host_with_two_servers_is_not_divided_and_said() -> None:
    rows = page({"job": "v", "instance": "n1:1"}) + page({"job": "v", "instance": "n1:2"}, start=1.0, by=700.0)
    _, lines = read(rows + gpu("GPU-1", {"instance": "n1:9400"}))
    assert "1 GPUs are of hosts with several servers" in notes(lines)


def test_a_rule_that_is_none_is_said() -> None:
    with pytest.raises(VtopError, match="--gpu-match pod: expected a server's label and a GPU's"):
        rule_of("pod")
