"""The client of the load: a pool of connections to one server, as many as there are requests in flight.

It speaks HTTP/1.1 only, follows no redirect and takes no proxy from the environment: what is measured is this server.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from vtop.access import Access, socket_path
from vtop.errors import VtopError
from vtop.load.http.client_limits import CLIENT_LIMIT, ClientLimit, limit_of
from vtop.load.http.connection import Clock, LoadConnection, Patience
from vtop.load.http.deferred import Backlog
from vtop.load.http.exchange import Exchange

READ_BYTES: Final = 256 * 1024  # at most, at once
NEXT_AFTER_S: Final = 0.3  # without an answer, before the next address of a host is tried too
WARM_AT_ONCE: Final = 64  # connections opened together: a server's backlog may be no longer


class Client:
    """For one event loop. `clock` gives seconds of the session, the same in all processes of a load.

    Raises VtopError for a URL or a header that cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        access: Access = Access(),  # noqa: B008 - frozen
        patience: Patience | None = None,
    ) -> None:
        self._socket = socket_path(url)
        parts = urlsplit(url if self._socket is None else "http://localhost")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise VtopError(f"a load needs a URL such as http://localhost:8000, not {parts.scheme}://{parts.hostname}")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = (access.trust() or ssl.create_default_context()) if parts.scheme == "https" else None
        self._clock = clock
        self._patience = patience or Patience()
        self._base = parts.path.rstrip("/")
        self._head, self._secrets = _head(self._host, parts.port, access)
        self._addresses: list[str] = []
        self._view = memoryview(bytearray(READ_BYTES))
        self._backlog = Backlog()
        self._all: set[LoadConnection] = set()
        self._free: list[LoadConnection] = []
        self._opening: set[asyncio.Task[LoadConnection]] = set()
        self.stale = 0  # kept connections that turned out to be closed; no failure of the server
        self.opened = 0  # connections made

    @property
    def connections(self) -> int:
        """Open now."""
        return len(self._all)

    def lay(self, path: str, payload: bytes) -> bytes:
        """The bytes of a POST of `payload` (JSON) to `path`, such as /v1/completions: to be made before their time."""
        line = f"POST {self._base}{path} HTTP/1.1\r\n".encode()
        return b"".join((line, self._head, b"content-length: %d\r\n\r\n" % len(payload), payload))

    async def warm(self, connections: int) -> str | None:
        """Have so many connections open. The first failure in words, None when all could be opened.

        Raises ClientLimit where it is this machine that cannot have so many.
        """
        failure: str | None = None
        limit: str | None = None
        while failure is None and len(self._all) < connections:
            batch = min(WARM_AT_ONCE, connections - len(self._all))
            results = await asyncio.gather(*(self._open() for _ in range(batch)), return_exceptions=True)
            for result in results:
                if isinstance(result, LoadConnection):
                    self._free.append(result)
                elif isinstance(result, OSError):
                    limit = limit or self._limit(result)
                    failure = failure or self._in_words(result)
                else:
                    raise result
        if limit is not None:
            raise ClientLimit(limit)
        return failure

    async def run(self, exchange: Exchange) -> None:
        """Send the request now and see its answer to the end. What the world does is in the exchange; nothing raises.

        When the task is cancelled, the socket is closed at once and the exchange ends as cancelled_at_end.
        """
        exchange.secrets = self._secrets
        started_s = self._clock()
        if exchange.admitted_s is None:
            exchange.admitted_s = started_s
        connection = self._kept()
        if connection is not None:
            exchange.kept = True
            if await connection.converse(exchange):
                return
            self.stale += 1
            exchange.kept, exchange.retried, exchange.sent_s = False, True, None
            started_s = self._clock()
        # A fresh one: the other kept ones may be stale just as well
        opening = asyncio.ensure_future(self._open())
        self._opening.add(opening)
        try:
            connection = await opening
        except OSError as error:
            now = self._clock()
            limit = self._limit(error)
            exchange.finish(now, now, CLIENT_LIMIT if limit else "connect", limit or self._in_words(error))
            return
        except asyncio.CancelledError:
            now = self._clock()
            exchange.finish(now, now, "cancelled_at_end")
            if opening.cancelled() and not _being_cancelled():  # by abort()
                return
            opening.cancel()
            raise
        finally:
            self._opening.discard(opening)
        exchange.connect_s = self._clock() - started_s
        await connection.converse(exchange)

    def abort(self) -> None:
        """Close every socket at once: the server sees its clients gone, requests under way end as cancelled_at_end."""
        for opening in list(self._opening):
            opening.cancel()
        for connection in list(self._all):
            connection.abort()

    def _kept(self) -> LoadConnection | None:
        while self._free:
            connection = self._free.pop()
            if connection.open:
                return connection
        return None

    def _forget(self, connection: LoadConnection) -> None:
        self._all.discard(connection)
        if connection in self._free:
            self._free.remove(connection)

    async def _open(self) -> LoadConnection:
        """Raises OSError (time-outs and TLS errors are such)."""
        try:
            async with asyncio.timeout(self._patience.connect_s):
                return await self._connect()
        except TimeoutError:
            tried = f" ({', '.join(self._addresses)})" if len(self._addresses) > 1 else ""
            raise TimeoutError(f"no connection in {self._patience.connect_s:g} s{tried}") from None

    async def _connect(self) -> LoadConnection:
        loop = asyncio.get_running_loop()
        if self._socket is not None:
            _, connection = await loop.create_unix_connection(self._connection, self._socket)
            self._all.add(connection)
            self.opened += 1
            return connection
        if not self._addresses:  # once: asking again for each connection would be part of the measurement
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        transport, connection = await self._reached()
        if self._tls is not None:
            try:
                upper = await loop.start_tls(transport, connection, self._tls, server_hostname=self._host)
            except BaseException:
                transport.abort()
                raise
            if upper is None:
                raise ConnectionResetError("the connection was closed during the TLS handshake")
            connection.secured(upper)
        self._all.add(connection)
        self.opened += 1
        return connection

    async def _reached(self) -> tuple[asyncio.Transport, LoadConnection]:
        """By the first address that answers, which is kept. Raises OSError.

        One may swallow all packets: it is left for the next after 300 ms, and waited for only where none answers.
        """
        loop = asyncio.get_running_loop()
        last: OSError | None = None
        silent = self._addresses
        for patience_s in (NEXT_AFTER_S, None) if len(silent) > 1 else (None,):
            trying, silent = silent, []
            for address in list(trying):
                try:
                    async with asyncio.timeout(patience_s):
                        made = await loop.create_connection(self._connection, address, self._port)
                except TimeoutError:
                    silent.append(address)
                    continue
                except OSError as error:
                    if last is None or last.errno == errno.EADDRNOTAVAIL:  # which a family that is not there answers
                        last = error
                    continue
                self._addresses = [address]
                return made
        raise last or OSError(f"{self._host} has no address")

    def _connection(self) -> LoadConnection:
        return LoadConnection(
            self._clock,
            self._patience,
            self._view,
            idle=self._free.append,
            gone=self._forget,
            later=self._backlog.add,
        )

    def _limit(self, error: OSError) -> str | None:
        return limit_of(error, len(self._all), reached=self.opened > 0)

    def _in_words(self, error: OSError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {error.verify_message} (--ca-file or --insecure)"
        if isinstance(error, ssl.SSLError):
            plain = " (is it http, not https?)" if error.reason == "WRONG_VERSION_NUMBER" else ""
            return f"TLS failed: {error.reason}{plain}"
        if isinstance(error, socket.gaierror):
            return f"the host's name is not known ({error.strerror})"
        if isinstance(error, ConnectionRefusedError):
            return "connection refused"
        return error.strerror or str(error) or "no connection"


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _head(host: str, port: int | None, access: Access) -> tuple[bytes, tuple[str, ...]]:
    """The headers that all requests share, and the values in them that must not be recorded."""
    name = f"[{host}]" if ":" in host else host
    headers = {
        "host": name if port is None else f"{name}:{port}",
        "user-agent": "vtop",
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    if access.authorization is not None:
        headers["authorization"] = access.authorization
    headers.update((key.lower(), value.strip()) for key, value in access.headers)
    for key, value in headers.items():
        if not (key.isascii() and value.isascii() and value.isprintable()) or any(c in key for c in " :\r\n"):
            raise VtopError(f"the header {key!r} has characters that no HTTP header may have")
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return lines.encode(), access.secrets
