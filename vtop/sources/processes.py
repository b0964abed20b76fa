"""Which processes of this host are a server: those that listen on its port, and all that they started.

Reads Linux's /proc; elsewhere, or where it may not look, it finds none. Tens of milliseconds on a busy host.
"""

from __future__ import annotations

import os

LISTEN = "0A"  # Linux: include/net/tcp_states.h


def pids_listening(port: int, proc: str = "/proc") -> frozenset[int]:
    """The processes that hold a listening TCP socket on the port, with all their descendants."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not sockets:
        return frozenset()
    pids = _pids(proc)
    found = {pid for pid in pids if not sockets.isdisjoint(_open_files(pid, proc))}
    if not found:
        return frozenset()
    children: dict[int, list[int]] = {}
    for pid in pids:
        children.setdefault(_parent(pid, proc), []).append(pid)
    unseen = list(found)
    while unseen:
        for child in children.get(unseen.pop(), ()):
            if child not in found:
                found.add(child)
                unseen.append(child)
    return frozenset(found)


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


def _parent(pid: int, proc: str) -> int:
    """0 when the process is gone."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[1])  # the name in brackets may hold spaces and brackets
