"""What GPUs can do at most: dense bf16 FLOP/s on their tensor cores, and bytes/s of their memory, by NVML's name.

From NVIDIA's data sheets and architecture white papers, at the boost clock, without sparsity (where only the figure
with sparsity is printed: half of it), accumulating in fp32 where two are given. V100 and T4 have no bf16: fp16. A GPU
that is not here is not known, and neither is a slice of one (MIG).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuPeak:
    flops_per_s: float
    bytes_per_s: float


# name as NVML gives it, without the makers' words -> TFLOP/s, GB/s
_DEVICES: dict[str, tuple[float, float]] = {
    "B200": (2250.0, 8000.0),
    "GH200 480GB": (989.4, 4000.0),
    "H200": (989.4, 4800.0),
    "H200 NVL": (835.5, 4800.0),
    "H100 80GB HBM3": (989.4, 3350.0),
    "H100 PCIe": (756.5, 2000.0),
    "H100 NVL": (835.5, 3900.0),
    "H800": (989.4, 3350.0),
    "H800 PCIe": (756.5, 2000.0),
    "H20": (148.0, 4000.0),
    "A100-SXM4-40GB": (312.0, 1555.0),
    "A100-PCIE-40GB": (312.0, 1555.0),
    "A100-SXM4-80GB": (312.0, 2039.0),
    "A100 80GB PCIe": (312.0, 1935.0),
    "A800-SXM4-40GB": (312.0, 1555.0),
    "A800-SXM4-80GB": (312.0, 2039.0),
    "A800 80GB PCIe": (312.0, 1935.0),
    "A10": (125.0, 600.0),
    "A10G": (70.0, 600.0),
    "A30": (165.0, 933.0),
    "A40": (149.7, 696.0),
    "RTX A6000": (154.8, 768.0),
    "L4": (121.0, 300.0),
    "L20": (119.5, 864.0),
    "L40": (181.0, 864.0),
    "L40S": (362.0, 864.0),
    "RTX 6000 Ada Generation": (364.2, 960.0),
    "RTX 3090": (71.0, 936.0),
    "RTX 4090": (165.2, 1008.0),
    "RTX 5090": (209.5, 1792.0),
    "V100-SXM2-16GB": (125.0, 900.0),
    "V100-SXM2-32GB": (125.0, 900.0),
    "V100-PCIE-16GB": (112.0, 900.0),
    "V100-PCIE-32GB": (112.0, 900.0),
    "V100S-PCIE-32GB": (130.0, 1134.0),
    "T4": (65.0, 320.0),
}

_WORDS = ("NVIDIA ", "Tesla ", "GeForce ")


def peak(name: str | None) -> GpuPeak | None:
    """None for a GPU whose peaks are not known."""
    for word in _WORDS:
        name = name.removeprefix(word) if name is not None else None
    found = _DEVICES.get(name or "")
    return GpuPeak(found[0] * 1e12, found[1] * 1e9) if found is not None else None
