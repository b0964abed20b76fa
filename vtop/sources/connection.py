"""The conversation with one server over HTTP: a path is asked for, and an answer or a failure in words comes back.

No request takes longer, and no answer becomes larger, than it may; no key or password gets into a failure's text.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from vtop.access import Access, longest_first, socket_path
from vtop.errors import VtopError
from vtop.recording.events import Target
from vtop.recording.vocabulary import OutageReason
from vtop.sources.addresses import FirstAddress
from vtop.sources.kept_connection import KeptAnswer, KeptConnection
from vtop.sources.proxy import Route

REDIRECTS = 3
OWN_HEADERS = {"accept-encoding": "identity", "user-agent": "vtop", "connection": "keep-alive"}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    phrase: str  # "Not Found"
    body: bytes
    retry_after_s: float | None = None  # how long the server asks to be left alone


class Failure(Exception):
    """No usable answer. `detail` is for people."""

    def __init__(self, reason: OutageReason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class ServerConnection:
    """Keeps one connection to a server alive; used by one thread, hung up by any. Raises VtopError for bad access."""

    def __init__(
        self, target: Target, access: Access, route: Route, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._target_url = target.url
        self._root = "http://localhost" if socket_path(target.url) is not None else target.url
        self._access = access
        self._proxy = route.proxy
        self._headers = _headers(access)
        self.shows_who_asks = any(name.lower() == "authorization" for name, _ in self._headers)
        self._secrets = _secrets(access, route)
        self._tls = self._root.startswith("https:")
        check(access)
        # A transport, not a client: what a client adds (cookies, its own redirects) is not wanted and is half the CPU
        self._transport = transport or self._open()
        self._requests: dict[str, httpx.Request] = {}  # path -> what is sent for it, past its redirects
        self._stream: Any = None  # the live connection's httpcore.NetworkStream
        self._kept: KeptConnection | None = None  # the same, where further requests need no httpx
        self._keeps = transport is None and route.proxy is None
        self._opened = False  # by the request under way
        self._deadline_s = 0.0
        self._over = False

    def get(self, path: str, *, timeout_s: float, limit_bytes: int) -> HttpAnswer:
        """The answer to GET `path`, whatever its status. Raises Failure."""
        request = self._requests.get(path) or self._request(httpx.URL(self._root + path))
        try:
            answer, request = self._answered(request, timeout_s, limit_bytes)
        except Failure as failure:
            self._requests.pop(path, None)
            raise Failure(failure.reason, self.clean(f"{path}: {failure.detail}", 400)) from None
        self._requests[path] = request
        return answer

    def post(
        self, path: str, form: Mapping[str, str], *, timeout_s: float, limit_bytes: int, gzip: bool = False
    ) -> HttpAnswer:
        """The answer to a form that is posted, whatever its status. gzip: the answer may come compressed.

        Only for what asks and changes nothing: it is sent again where a kept connection was closed. Raises Failure.
        """
        request = self._request(httpx.URL(self._root + path), form=form, gzip=gzip)
        try:
            return self._answered(request, timeout_s, limit_bytes)[0]
        except Failure as failure:
            raise Failure(failure.reason, self.clean(f"{path}: {failure.detail}", 400)) from None

    def _answered(self, request: httpx.Request, timeout_s: float, limit_bytes: int) -> tuple[HttpAnswer, httpx.Request]:
        """The answer, past its redirects, and the request that had it."""
        self._deadline_s = time.monotonic() + timeout_s
        known = True  # the server that the key is for
        for _ in range(REDIRECTS + 1):
            answer, location = self._ask(request, timeout_s, limit_bytes)
            if location is None:
                return answer, request
            to = self._followed(request.url, answer.status, location)
            known = known and _same_door(request.url, to)
            request = self._request(to, known=known, like=request)
        raise Failure("status", f"more than {REDIRECTS} redirects, the last to {_bare(request.url)}")

    def clean(self, text: str, limit: int = 120) -> str:
        """Text from the world in one line, fit for a recording: no secrets, no control characters, not too long."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= limit else f"{text[: limit - 1]}…"

    def hang_up(self) -> None:
        """End the request under way, and all later ones, at once. Any thread may call this."""
        self._over = True
        stream = self._stream
        if stream is not None:
            try:
                socket.socket.shutdown(stream.get_extra_info("socket"), socket.SHUT_RDWR)
            except OSError:
                return  # it was closed already

    def close(self) -> None:
        self._transport.close()

    def _ask(self, request: httpx.Request, timeout_s: float, limit_bytes: int) -> tuple[HttpAnswer, str | None]:
        """The answer, and where it redirects to. A kept connection that the server had closed is tried anew once."""
        request.extensions = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout_s)}
        request.extensions["trace"] = self._watch
        for again in (False, True):
            self._opened = False
            try:
                response = self._sent(request)
                break
            except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                kept = self._stream is not None and not self._opened
                self._stream = self._kept = None
                if again or self._over or not kept or isinstance(error, httpx.ConnectError):
                    raise _failure(error, timeout_s, self._tls) from None
            except (httpx.TransportError, TimeoutError) as error:
                raise _failure(error, timeout_s, self._tls) from None
        body = bytearray()
        try:
            location = response.headers.get("location") if response.is_redirect else None
            encoding = response.headers.get("content-encoding", "identity")
            unpack = _unpacked(encoding)
            for chunk in response.iter_raw():
                body += unpack(chunk, limit_bytes + 1 - len(body))
                if len(body) > limit_bytes:
                    raise Failure("size", f"larger than {limit_bytes / 2**20:.0f} MiB, not read any further")
                self._left_s()
        except zlib.error:
            raise Failure("parse", f"what is labelled {encoding} is none") from None
        except (httpx.TransportError, TimeoutError) as error:
            failure = _failure(error, timeout_s, self._tls)
            what = f"not finished in {timeout_s:g} s" if failure.reason == "timeout" else failure.detail
            if body and failure.reason == "reset":
                what = "the connection was cut"
            raise Failure(failure.reason, f"{what}, {len(body)} bytes had come") from None
        finally:
            response.close()
        self._keep(request, response)
        retry_s = _retry_after_s(response.headers.get("retry-after"))
        return HttpAnswer(response.status_code, response.reason_phrase, bytes(body), retry_s), location

    def _sent(self, request: httpx.Request) -> httpx.Response | KeptAnswer:
        if self._over:
            raise Failure("reset", "vtop hung up")
        kept = self._kept
        if kept is not None and kept.usable and request.method == "GET" and kept.origin == _origin(request.url):
            return kept.ask(request, self._left_s())
        return self._transport.handle_request(request)

    def _keep(self, request: httpx.Request, response: httpx.Response | KeptAnswer) -> None:
        """Ask on the connection of an answer that is through itself, without httpx, from now on."""
        if not self._keeps or not self._opened or not isinstance(response, httpx.Response):
            return
        lasts = "close" not in response.headers.get("connection", "").lower()
        if lasts and response.extensions.get("http_version") == b"HTTP/1.1":
            self._kept = KeptConnection(self._stream, _origin(request.url))

    def _request(
        self,
        url: httpx.URL,
        *,
        known: bool = True,
        form: Mapping[str, str] | None = None,
        gzip: bool = False,
        like: httpx.Request | None = None,
    ) -> httpx.Request:
        """known: whether it goes to the server that was named, who may see the key and the headers given. like: one
        that was redirected."""
        accept = "text/plain" if url.path.rstrip("/").endswith("/metrics") else "application/json"
        headers = [("accept", accept), *(self._headers if known else OWN_HEADERS.items())]
        if gzip or (like is not None and like.headers["accept-encoding"] == "gzip"):
            headers = [(name, "gzip" if name == "accept-encoding" else value) for name, value in headers]
        body = urlencode(form).encode() if form is not None else like.content if like is not None else b""
        if not body:
            return httpx.Request("GET", url, headers=headers)
        headers.append(("content-type", "application/x-www-form-urlencoded"))
        return httpx.Request("POST", url, headers=headers, content=body)

    def _followed(self, url: httpx.URL, status: int, location: str) -> httpx.URL:
        """Where a redirect leads, if it may be followed: the key must not leave for another host or go in clear."""
        try:
            to = url.join(location)
        except httpx.InvalidURL:
            raise Failure("status", f"{status} to what is no URL") from None
        if to.host != url.host or to.scheme not in ("http", "https"):
            raise Failure("status", f"{status} to another host, {_bare(to)}; not followed")
        if (url.scheme, to.scheme) == ("https", "http"):
            raise Failure("status", f"{status} from https to {_bare(to)}; not followed")
        if to.scheme == "https" and not self._tls:
            self._tls = True
            self._transport.close()
            self._transport = self._open()
        return to.copy_with(username=None, password=None, fragment=None)

    def _watch(self, name: str, info: dict[str, Any]) -> None:
        """httpcore tells of its steps; of interest is a new connection."""
        if name.endswith(("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")):
            self._opened = True
            self._stream = stream = info["return_value"]
            read: Callable[[int, float], bytes] = stream.read

            def read_in_time(max_bytes: int, timeout: float | None = None) -> bytes:
                return read(max_bytes, self._left_s())

            stream.read = read_in_time  # httpcore limits each read: a server that dribbles would never time out
            if self._over:
                self.hang_up()

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _open(self) -> httpx.HTTPTransport:
        proxy = None if self._proxy is None else httpx.Proxy(self._proxy)
        transport = httpx.HTTPTransport(
            verify=self._trust(), trust_env=False, proxy=proxy, uds=socket_path(self._target_url)
        )
        if proxy is None and socket_path(self._target_url) is None:
            transport._pool._network_backend = FirstAddress()
        return transport

    def _trust(self) -> ssl.SSLContext:
        if not self._tls:
            return Access(insecure=True).trust() or ssl.create_default_context()
        if (context := self._access.trust()) is not None:
            return context
        try:
            return httpx.create_ssl_context()
        except OSError:
            raise VtopError("the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read") from None


def _unpacked(encoding: str) -> Callable[[bytes, int], bytes]:
    """What makes plain bytes of a piece of an answer, at most so many. Raises Failure for what cannot be unpacked."""
    if encoding.lower() == "identity":
        return lambda piece, most: piece
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):  # the others need packages, and nobody asked for them
        raise Failure("parse", f"the answer is compressed ({encoding}), which was not asked for")
    decoder = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)  # either header
    return decoder.decompress


def check(access: Access) -> None:
    """Raises VtopError for headers, a key or certificates that cannot be used; no message shows a value."""
    _headers(access)
    access.trust()


def _headers(access: Access) -> list[tuple[str, str]]:
    for name, value in access.headers:
        if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII):
            raise VtopError("--header: expected a header's name, a colon and its value, such as 'X-Tenant: blue'")
        if not _fits(value):
            raise VtopError(f"--header {name}: its value has characters that no HTTP header may have")
    headers = dict(OWN_HEADERS)
    if access.authorization is not None:
        if not _fits(access.authorization):
            raise VtopError("the API key has characters that no HTTP header may have: expected one line of ASCII")
        headers["authorization"] = access.authorization
    given = {name.lower() for name, _ in access.headers}
    own = [(name, value) for name, value in headers.items() if name not in given]
    return own + [(name, value.strip()) for name, value in access.headers]


def _fits(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _secrets(access: Access, route: Route) -> tuple[str, ...]:
    proxy = httpx.URL(route.proxy).password if route.proxy is not None else ""
    return longest_first([*access.secrets, proxy])


def _retry_after_s(said: str | None) -> float | None:
    """Of a Retry-After header; None where it names no number of seconds (a date would need the server's clock)."""
    return float(said) if said is not None and re.fullmatch(r"\s*\d{1,9}\s*", said, re.ASCII) else None


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _same_door(url: httpx.URL, to: httpx.URL) -> bool:
    """Whether both lead to the same server: another port of a host is another's, but for http that becomes https."""
    ports = {"http": 80, "https": 443}
    at, there = ((one.scheme, one.port or ports[one.scheme]) for one in (url, to))
    return at == there or (at, there) == (("http", 80), ("https", 443))


def _tried(error: BaseException) -> str:
    """The addresses that did not answer, where there were several."""
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, TimeoutError) and cause.strerror):
        cause = cause.__cause__ or cause.__context__
    return f" ({cause.strerror})" if isinstance(cause, TimeoutError) else ""


def _bare(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}{url.path}"


def _failure(error: Exception, timeout_s: float, tls: bool) -> Failure:
    """What happened, in words. The text of `error` itself is used nowhere: it may quote a header."""
    if isinstance(error, httpx.ConnectTimeout):
        return Failure("timeout", f"no connection in {timeout_s:g} s" + _tried(error))
    if isinstance(error, (httpx.TimeoutException, TimeoutError)):
        return Failure("timeout", f"no answer in {timeout_s:g} s")
    if isinstance(error, httpx.ProxyError):
        return Failure("status", "the proxy lets nothing through")
    connecting = isinstance(error, httpx.ConnectError)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Failure("tls", f"its certificate is not trusted: {cause.verify_message} (--ca-file or --insecure)")
    if isinstance(cause, ssl.SSLError) and (connecting or not isinstance(cause, ssl.SSLEOFError)):
        plain = " (does it speak http, not https?)" if cause.reason == "WRONG_VERSION_NUMBER" else ""
        return Failure("tls", f"TLS failed: {cause.reason}{plain}")
    if isinstance(cause, socket.gaierror):
        return Failure("dns", f"the host's name is not known ({cause.strerror})")
    if connecting:
        why = cause.strerror if isinstance(cause, OSError) and cause.strerror else "no connection"
        return Failure("refused", why)
    if isinstance(error, httpx.RemoteProtocolError) and "without sending" in str(error):
        return Failure("reset", "closed without an answer" + ("" if tls else " (does it speak https, not http?)"))
    if isinstance(error, httpx.RemoteProtocolError) and "complete message" not in str(error):
        return Failure("parse", "the answer is no HTTP")
    return Failure("reset", "the connection was cut")
