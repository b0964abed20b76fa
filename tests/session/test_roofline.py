"""FLOP and bytes per GPU against what its GPU can do."""

from __future__ import annotations

import msgspec
import pytest

from tests.session.made import Log, Server, device, recorded
from vtop.session.frame.gpus import Roofline
from vtop.session.hardware.gpu_peaks import peak

H200 = msgspec.structs.replace(device(), name="NVIDIA H200")


def test_a_sweep_s_arithmetic_rises_with_its_load() -> None:
    found = [recorded(f"sweep_c{many}") for many in (1, 8, 64)]
    rooflines = [session.frame(session.end_s).roofline for session in found]
    mfus = [one.mfu_ratio or 0.0 for one in rooflines]
    assert mfus == sorted(mfus)
    assert mfus[-1] == pytest.approx(0.315, abs=1e-3)
    assert rooflines[0].bandwidth_ratio == pytest.approx(0.514, abs=1e-3)
    assert {one.gpu for one in rooflines} == {"NVIDIA H200"}
    assert rooflines[0].peak_flops_per_s == 989.4e12


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4e12),
        ("NVIDIA H100 PCIe", 756.5e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("A100-SXM4-40GB", 312e12),
        ("Tesla T4", 65e12),
        ("NVIDIA GeForce RTX 4090", 165.2e12),
        ("NVIDIA A10G", 70e12),
    ],
)
def test_a_device_is_known_by_nvml_s_name(name: str, flops: float) -> None:
    found = peak(name)
    assert found is not None
    assert found.flops_per_s == flops


@pytest.mark.parametrize("name", [None, "", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GeForce GTX 1080"])
def test_of_another_device_nothing_is_known(name: str | None) -> None:
    assert peak(name) is None


def after_ten_seconds(server: Server, *devices: object, local: bool = True) -> Roofline:
    log = Log()
    target = msgspec.structs.replace(log.start.servers[0], local=local)
    log.start = msgspec.structs.replace(log.start, servers=(target,))
    log.gpu(0.0, *(devices or (H200,)))  # type: ignore[arg-type]
    log.scrape(0, server)
    for engine in server.engines.values():
        engine.count(
            estimated_flops_per_gpu=4e15, estimated_read_bytes_per_gpu=9e12, estimated_write_bytes_per_gpu=1e12
        )
    log.scrape(10, server)
    return log.frame().roofline


def test_the_counters_are_of_one_gpu_whatever_the_engines() -> None:
    for engines in (["0"], ["0", "1"]):
        server = Server(engines)
        for engine in server.engines.values():
            engine.count(estimated_flops_per_gpu=1, estimated_read_bytes_per_gpu=1, estimated_write_bytes_per_gpu=1)
        found = after_ten_seconds(server)
        assert (found.flops_per_s, found.bytes_per_s, found.intensity) == (4e14, 1e12, 400.0)
        assert found.mfu_ratio == pytest.approx(4e14 / 989.4e12)
        assert found.bandwidth_ratio == pytest.approx(1e12 / 4.8e12)


def test_without_the_flag_nothing_is_known() -> None:
    log, server = Log(), Server()
    log.gpu(0.0, H200)
    log.scrape(0, server)
    log.scrape(10, server)
    found = log.frame().roofline
    assert (found.flops_per_s, found.bytes_per_s, found.intensity, found.mfu_ratio) == (None, None, None, None)


def test_devices_of_two_kinds_or_of_another_host_have_no_peak() -> None:
    other = msgspec.structs.replace(device(1), name="NVIDIA L4")
    for found in (after_ten_seconds(Server(), H200, other), after_ten_seconds(Server(), local=False)):
        assert found.flops_per_s is not None
        assert (found.gpu, found.mfu_ratio, found.peak_flops_per_s) == (None, None, None)


def test_the_device_in_use_by_the_server_counts() -> None:
    used = msgspec.structs.replace(device(1, serving=True), name="NVIDIA L4")
    assert after_ten_seconds(Server(), H200, used).gpu == "NVIDIA L4"
