"""Failures that are this machine's own and not the server's: no file, port or memory is left for another connection.

They are a class of their own, and a phase that met one is marked: its numbers are the client's as much as the server's.
"""

from __future__ import annotations

import errno
import resource
from typing import Final

from vtop.recording.vocabulary import ErrorClass

CLIENT_LIMIT: Final[ErrorClass] = "client_limit"  # the class of failure


class ClientLimit(Exception):
    """No connection more can be opened from here; in words, why."""


def limit_of(error: BaseException | None, connections: int | None = None, *, reached: bool = True) -> str | None:
    """In words, which limit of this machine an error comes from; None: from none.

    connections: so many are open. reached: one could be made before. Where none could, an address that is not to be
    had says nothing about ports: a machine without IPv6 answers the same.
    """
    code = error.errno if isinstance(error, OSError) else None
    held = "" if connections is None else f" ({connections} connections)"
    if code == errno.EMFILE:
        return f"no more open files than {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}{held}; see ulimit -n"
    if code == errno.ENFILE:
        return f"this machine has no more open files{held}; see /proc/sys/fs/file-max"
    if code in (errno.ENOBUFS, errno.ENOMEM):
        return f"this machine has no memory for another socket{held}"
    if code == errno.EADDRNOTAVAIL and reached:
        return f"no local port is free{held}; see /proc/sys/net/ipv4/ip_local_port_range"
    return None
