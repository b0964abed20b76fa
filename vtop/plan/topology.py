"""`nvidia-smi topo -m`: over which links the ranks of a group talk, and which of them is the weakest.

NV#: that many NVLinks. PIX: one PCIe bridge, PXB: several, PHB: through the CPU's host bridge, NODE: between host
bridges of a NUMA node, SYS: across NUMA nodes. Source: nvidia-smi topo --help (legend).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vtop.errors import VtopError

ORDER: Final = ("SYS", "NODE", "PHB", "PXB", "PIX")  # the weakest first; NVLink after all of them
MEANING: Final = {
    "SYS": "PCIe across NUMA nodes",
    "NODE": "PCIe between host bridges of one NUMA node",
    "PHB": "PCIe through the CPU's host bridge",
    "PXB": "several PCIe bridges",
    "PIX": "one PCIe bridge",
}


@dataclass(frozen=True, slots=True)
class Topology:
    """links[a][b]: between GPU a and GPU b. numa: a node each, None where it is not told."""

    links: tuple[tuple[str, ...], ...]
    numa: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of one TP group, and the weakest link between any two of them."""

    gpus: tuple[int, ...]
    weakest: str
    meaning: str
    numa_nodes: int | None
    nvlink: bool


def read(text: str, origin: str) -> Topology:
    """Raises VtopError where it is no such table."""
    links: dict[int, tuple[str, ...]] = {}
    numa: dict[int, str | None] = {}
    many, numa_column = 0, None
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines():
        words = line.split()
        if not many and words[:1] == ["GPU0"] and "GPU" in (words[1] if len(words) > 1 else "GPU"):
            many = sum(re.fullmatch(r"GPU\d+", word) is not None for word in words)
            devices = sum(re.fullmatch(r"(GPU|NIC|mlx\w*_)\d+", word) is not None for word in words)
            numa_column = devices + 1 if "NUMA Affinity" in line else None
        elif many and words and (row := re.fullmatch(r"GPU(\d+)", words[0])) is not None:
            cells = words[1:]
            if len(cells) < many:
                raise VtopError(f"{origin}: the row of {words[0]} is cut short")
            links[int(row[1])] = tuple(cells[:many])
            numa[int(row[1])] = cells[numa_column] if numa_column is not None and len(cells) > numa_column else None
    if len(links) < 2 or sorted(links) != list(range(len(links))):
        raise VtopError(f"{origin}: no table of nvidia-smi topo -m with two GPUs or more")
    return Topology(tuple(links[at] for at in range(len(links))), tuple(numa[at] for at in range(len(links))))


def group(of: Topology, gpus: Sequence[int]) -> Group:
    """Raises VtopError for a GPU that is not there."""
    if lacking := [gpu for gpu in gpus if gpu >= len(of.links)]:
        raise VtopError(f"GPU {lacking[0]} is not in the table, which has {len(of.links)}")
    found = [of.links[a][b] for a in gpus for b in gpus if a < b]
    weakest = min(found, key=_strength)
    nodes = {of.numa[gpu] for gpu in gpus}
    nvlink = weakest.startswith("NV")
    return Group(
        gpus=tuple(gpus),
        weakest=weakest,
        meaning=f"{weakest[2:]} NVLinks" if nvlink else MEANING.get(weakest, "a link that vtop does not know"),
        numa_nodes=len(nodes) if None not in nodes else None,
        nvlink=nvlink,
    )


def _strength(link: str) -> int:
    if link.startswith("NV") and link[2:].isdecimal():
        return len(ORDER) + int(link[2:])
    return ORDER.index(link) if link in ORDER else -1
