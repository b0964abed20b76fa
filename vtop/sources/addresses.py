"""Of a host's several addresses the first that answers: one that swallows packets costs 300 ms, not the whole time-out.

Source: RFC 8305 (Happy Eyeballs), section 5.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import httpcore

NEXT_AFTER_S: Final = 0.3  # without an answer, before the next address is tried beside it

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class NotReached(OSError):
    """No address of a host takes a connection; `strerror` says why, address by address."""


class FirstAddress(httpcore.SyncBackend):
    """Connects to the address that answered first, once that is known."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, int], str] = {}

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        begun_s = time.monotonic()
        at = self._answered.pop((host, port), None) or _first(host, port, timeout)
        left_s = None if timeout is None else max(0.001, timeout - (time.monotonic() - begun_s))
        stream = super().connect_tcp(at, port, left_s, local_address, socket_options)
        self._answered[host, port] = at
        return stream


def _first(host: str, port: int, timeout_s: float | None) -> str:
    """The host itself where it has one address, or none."""
    try:
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)  # as socket.create_connection asks
    except OSError:
        return host  # the connection that is tried now says why
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    if len(addresses) < 2:
        return host
    try:
        return str(first_to_answer(addresses, timeout_s)[0])
    except TimeoutError as error:
        raise httpcore.ConnectTimeout(error) from error
    except OSError as error:
        raise httpcore.ConnectError(error) from error


def first_to_answer(addresses: Sequence[_Address], timeout_s: float | None) -> tuple[Any, ...]:
    """Raises TimeoutError or NotReached, which name the addresses that were tried."""
    begun_s = time.monotonic()
    ends_s = begun_s + (timeout_s if timeout_s is not None else 60.0)
    ahead, failed = list(addresses), dict[str, str]()
    next_s = begun_s
    with selectors.DefaultSelector() as trying:
        try:
            while True:
                now_s = time.monotonic()
                if ahead and (now_s >= next_s or not trying.get_map()):
                    family, address = ahead.pop(0)
                    _begin(family, address, trying, failed)
                    next_s = now_s + NEXT_AFTER_S
                if not ahead and not trying.get_map():
                    raise NotReached(0, "; ".join(f"{address}: {why}" for address, why in failed.items()))
                if now_s >= ends_s:
                    silent = [str(key.data[0]) for key in trying.get_map().values()]
                    raise TimeoutError(0, "; ".join(f"{address}: no answer" for address in silent))
                until_s = min(ends_s, next_s) if ahead else ends_s
                for key, _ in trying.select(max(0.0, until_s - now_s)):
                    error = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # type: ignore[union-attr]
                    if not error:
                        return key.data  # type: ignore[no-any-return]
                    failed[str(key.data[0])] = os.strerror(error)
                    trying.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
        finally:
            for key in list(trying.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]


def _begin(
    family: socket.AddressFamily, address: tuple[Any, ...], trying: selectors.BaseSelector, failed: dict[str, str]
) -> None:
    try:
        one = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:  # a family that this machine lacks
        failed[str(address[0])] = error.strerror or str(error)
        return
    one.setblocking(False)
    code = one.connect_ex(address)
    if code in (0, errno.EINPROGRESS):
        trying.register(one, selectors.EVENT_WRITE, address)
    else:
        failed[str(address[0])] = os.strerror(code)
        one.close()
