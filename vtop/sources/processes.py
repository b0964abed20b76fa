"""Which processes of this host are a server: those that listen on its port, all that they started, what started them.

Reads Linux's /proc; elsewhere, or where it may not look, it finds none. Tens of milliseconds on a busy host.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

LISTEN = "0A"  # Linux: include/net/tcp_states.h


def pids_listening(port: int, proc: str = "/proc") -> frozenset[int]:
    """The processes that hold a listening TCP socket on the port, with all their descendants."""
    found = set(holders(port, proc))
    if not found:
        return frozenset()
    children: dict[int, list[int]] = {}
    for pid in _pids(proc):
        children.setdefault(parent(pid, proc), []).append(pid)
    unseen = list(found)
    while unseen:
        for child in children.get(unseen.pop(), ()):
            if child not in found:
                found.add(child)
                unseen.append(child)
    return frozenset(found)


def holders(port: int, proc: str = "/proc") -> frozenset[int]:
    """The processes that hold a listening TCP socket on the port."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not sockets:
        return frozenset()
    return frozenset(pid for pid in _pids(proc) if not sockets.isdisjoint(_open_files(pid, proc)))


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """The GPUs that CUDA shows to some processes, as their environment names them: numbers, GPU-… or MIG-…."""

    names: frozenset[str]
    by_bus: bool  # numbers are in the order of the bus, as NVML's are; else in CUDA's own, fastest first


def visible_devices(pids: Iterable[int], proc: str = "/proc") -> VisibleDevices | None:
    """Of all these processes together; None where none of them is told which, or may be asked."""
    names: set[str] = set()
    by_bus = True
    for pid in pids:
        try:
            with open(f"{proc}/{pid}/environ", "rb") as file:
                said = dict(word.partition(b"=")[::2] for word in file.read().split(b"\0"))
        except OSError:
            continue
        shown = said.get(b"CUDA_VISIBLE_DEVICES", b"").decode("ascii", "replace")
        names.update(name.strip() for name in shown.split(",") if name.strip())
        by_bus &= not shown or said.get(b"CUDA_DEVICE_ORDER") == b"PCI_BUS_ID"
    return VisibleDevices(frozenset(names), by_bus) if names else None


def words(pid: int, proc: str = "/proc") -> tuple[str, ...]:
    """The command line of a process; nothing when it is gone, or another user's behind hidepid."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in line.rstrip(b"\0").split(b"\0"))


def parent(pid: int, proc: str = "/proc") -> int:
    """0 when the process is gone."""
    stat = _stat(pid, proc)
    return int(stat[1]) if stat else 0


def began(pid: int, proc: str = "/proc") -> int:
    """When the process was started, in ticks since the machine was: with the pid, which it is. 0: it is gone."""
    stat = _stat(pid, proc)
    return int(stat[19]) if len(stat) > 19 else 0


def _listening_inodes(port: int, proc: str) -> set[str]:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{table}", encoding="ascii") as lines:
                next(lines, None)
                rows = [line.split() for line in lines]
        except OSError:
            continue
        # columns: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
        inodes |= {row[9] for row in rows if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port}
    return inodes


def _pids(proc: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return []


def _open_files(pid: int, proc: str) -> set[str]:
    """What the process has open; what has gone meanwhile, or may not be seen, is left out."""
    folder = f"{proc}/{pid}/fd"
    files: set[str] = set()
    try:
        names = os.listdir(folder)
    except OSError:
        return files
    for name in names:
        try:
            files.add(os.readlink(f"{folder}/{name}"))
        except OSError:
            continue
    return files


def _stat(pid: int, proc: str) -> list[bytes]:
    """What stands behind the name, from the state on (Linux: proc_pid_stat(5), from field 3)."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return []
    return stat.rpartition(b")")[2].split()  # the name in brackets may hold spaces and brackets
