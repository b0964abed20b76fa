"""`nvidia-smi topo -m`, and `topo -p2p r` behind it: over which links the ranks of a group talk, which of them is the
weakest, and whether any two cannot reach each other's memory.

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
# of topo -p2p r: why a GPU cannot read another's memory
NO_PEER: Final = {
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "not supported",
    "DR": "switched off in the driver",
    "U": "unknown",
}


@dataclass(frozen=True, slots=True)
class Topology:
    """links[a][b]: between GPU a and GPU b. numa: a node each, None where it is not told. peers: as links, whether a
    can reach b's memory; empty where it is not told."""

    links: tuple[tuple[str, ...], ...]
    numa: tuple[str | None, ...]
    peers: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of one TP group, and the weakest link between any two of them."""

    gpus: tuple[int, ...]
    weakest: str
    meaning: str
    numa_nodes: int | None
    nvlink: bool
    no_peer: str | None = None  # why two of them cannot reach each other's memory; None: they can, or it is not told


def read(text: str, origin: str) -> Topology:
    """Of one file with `topo -m`, and behind it the output of `topo -p2p r` where that is known too. Raises VtopError
    where it has no table of links."""
    links: dict[int, tuple[str, ...]] = {}
    peers: dict[int, tuple[str, ...]] = {}
    numa: dict[int, str | None] = {}
    many, numa_column = 0, None
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines():
        words = line.split()
        if words[:1] == ["GPU0"] and "GPU" in (words[1] if len(words) > 1 else "GPU"):
            many = sum(re.fullmatch(r"GPU\d+", word) is not None for word in words)
            devices = sum(re.fullmatch(r"(GPU|NIC|mlx\w*_)\d+", word) is not None for word in words)
            numa_column = devices + 1 if "NUMA Affinity" in line else None
        elif many and words and (row := re.fullmatch(r"GPU(\d+)", words[0])) is not None:
            cells = words[1:]
            if len(cells) < many:
                raise VtopError(f"{origin}: the row of {words[0]} is cut short")
            if set(cells[:many]) & {"OK", *NO_PEER}:
                peers[int(row[1])] = tuple(cells[:many])
                continue
            links[int(row[1])] = tuple(cells[:many])
            numa[int(row[1])] = cells[numa_column] if numa_column is not None and len(cells) > numa_column else None
    if len(links) < 2 or sorted(links) != list(range(len(links))):
        raise VtopError(f"{origin}: no table of nvidia-smi topo -m with two GPUs or more")
    if peers and (sorted(peers) != sorted(links) or {*map(len, peers.values())} != {*map(len, links.values())}):
        raise VtopError(f"{origin}: its table of topo -p2p r is of other GPUs than that of topo -m")
    each = range(len(links))
    return Topology(
        tuple(links[at] for at in each), tuple(numa[at] for at in each), tuple(peers[at] for at in each if peers)
    )


def group(of: Topology, gpus: Sequence[int]) -> Group:
    """Raises VtopError for a GPU that is not there."""
    if lacking := [gpu for gpu in gpus if gpu >= len(of.links)]:
        raise VtopError(f"GPU {lacking[0]} is not in the table, which has {len(of.links)}")
    found = [of.links[a][b] for a in gpus for b in gpus if a < b]
    weakest = min(found, key=_strength)
    nodes = {of.numa[gpu] for gpu in gpus}
    nvlink = weakest.startswith("NV")
    apart = [of.peers[a][b] for a in gpus for b in gpus if a != b] if of.peers else []
    return Group(
        gpus=tuple(gpus),
        weakest=weakest,
        meaning=f"{weakest[2:]} NVLinks" if nvlink else MEANING.get(weakest, "a link that vtop does not know"),
        numa_nodes=len(nodes) if None not in nodes else None,
        nvlink=nvlink,
        no_peer=next((NO_PEER.get(one, one) for one in apart if one != "OK"), None),
    )


def _strength(link: str) -> int:
    if link.startswith("NV") and link[2:].isdecimal():
        return len(ORDER) + int(link[2:])
    return ORDER.index(link) if link in ORDER else -1
