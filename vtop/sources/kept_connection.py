"""A further request on a connection that httpx opened and left idle: h11 on its stream, a sixth of the time of httpx.

Opening it (addresses, TLS, redirects, failures in words) stays httpx's. What comes back looks like httpx's answer, as
far as `connection.py` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import h11
import httpcore
import httpx

AT_ONCE_BYTES: Final = 1 << 16  # of a page whole or half; a larger buffer would be mapped anew each time
MOST: Final = 8  # requests that are sent again and again


class KeptAnswer:
    """The answer's head; its body comes as `iter_raw` is read. Ended before that, the connection is of no more use."""

    def __init__(self, connection: KeptConnection, head: h11.Response) -> None:
        self._connection = connection
        self._body = b""
        self.status_code = head.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        self.reason_phrase = head.reason.decode("ascii", "ignore")
        self.is_redirect = 300 <= head.status_code < 400 and "location" in self.headers

    def iter_raw(self) -> Iterator[bytes]:
        """Raises httpx.TransportError, TimeoutError."""
        while type(event := self._connection.event()) is h11.Data:
            yield bytes(event.data)

    def close(self) -> None:
        self._connection.done()


class KeptConnection:
    """Used by one thread. `stream`: of httpcore, idle; `usable` as long as the server keeps it open.

    Raises httpx.TransportError and TimeoutError, as httpx's transport does.
    """

    def __init__(self, stream: Any, origin: tuple[str, str, int | None]) -> None:
        self.stream = stream
        self.origin = origin
        self.usable = True
        self._h11 = h11.Connection(h11.CLIENT)
        self._requests: dict[httpx.Request, h11.Request] = {}  # as h11 has them

    def ask(self, request: httpx.Request, timeout_s: float) -> KeptAnswer:
        """A GET without a body."""
        try:
            if (sent := self._requests.get(request)) is None:
                sent = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
                self._requests = {**self._requests, request: sent} if len(self._requests) < MOST else {request: sent}
            self.stream.write((self._h11.send(sent) or b"") + (self._h11.send(h11.EndOfMessage()) or b""), timeout_s)
        except httpcore.TimeoutException as error:
            raise self._over(httpx.WriteTimeout(str(error))) from error
        except (httpcore.NetworkError, h11.LocalProtocolError) as error:
            raise self._over(httpx.WriteError(str(error))) from error
        while type(event := self.event()) is not h11.Response:
            if type(event) is not h11.InformationalResponse:
                raise self._over(httpx.RemoteProtocolError("no answer"))
        return KeptAnswer(self, event)

    def event(self) -> Any:
        """The next of h11's events."""
        try:
            while (event := self._h11.next_event()) is h11.NEED_DATA:
                data = self.stream.read(AT_ONCE_BYTES)
                if not data and self._h11.their_state is h11.SEND_RESPONSE:
                    raise self._over(httpx.RemoteProtocolError("Server disconnected without sending a response."))
                self._h11.receive_data(data)
        except (httpcore.TimeoutException, TimeoutError) as error:
            raise self._over(httpx.ReadTimeout(str(error))) from error
        except httpcore.NetworkError as error:
            raise self._over(httpx.ReadError(str(error))) from error
        except h11.RemoteProtocolError as error:
            raise self._over(httpx.RemoteProtocolError(str(error))) from error
        return event

    def done(self) -> None:
        """The answer was read, or is not wanted to its end."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        else:
            self._over(httpx.ReadError(""))

    def _over(self, error: httpx.TransportError) -> httpx.TransportError:
        self.usable = False
        self.stream.close()
        return error
