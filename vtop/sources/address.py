"""What a person types to name a server (`:8000`, `gpu7`, `http://h:8000/v1/`, `::1`) becomes its root URL."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from vtop.errors import VtopError
from vtop.recording.events import Target

DEFAULT_PORT = 8000
LONGEST_SOCKET = 107  # bytes of a path, on Linux (man 7 unix)
SCHEME_PORTS = {"http": 80, "https": 443}

_EXPECTED = "expected a server's address such as localhost:8000, :8000, http://host:8000 or http://[::1]:8000"
# What people copy from a client's settings or a browser; none of it is part of the root.
_KNOWN_PATHS = re.compile(
    r"(/v1(/(models|chat/completions|completions|embeddings|responses))?|/metrics|/health|/version|/docs)?/*$"
)
_NAME = re.compile(r"[\w.-]+")

_Wrong = Callable[[str], VtopError]


@dataclass(frozen=True, slots=True)
class _Parts:
    scheme: str
    host: str  # without brackets
    port: int | None
    path: str
    credentials: tuple[str, str] | None


def target(text: str) -> Target:
    """The server that `text` names. Raises VtopError when it names none."""
    if (path := _socket(text)) is not None:
        return Target(url=f"unix://{path}", local=True)
    parts = _split(text)
    host = f"[{parts.host}]" if ":" in parts.host else parts.host
    port = "" if parts.port in (None, SCHEME_PORTS[parts.scheme]) else f":{parts.port}"
    return Target(url=f"{parts.scheme}://{host}{port}{parts.path}", local=_local(parts.host))


def credentials(text: str) -> tuple[str, str] | None:
    """The user and password written before the host (`http://user:pass@host`), which `target` leaves out."""
    return _split(text).credentials if _socket(text) is None else None


def _socket(text: str) -> str | None:
    """The path of the Unix socket that is named (unix:///run/server.sock, http+unix://%2Frun%2Fserver.sock)."""
    scheme, colon, rest = text.strip().partition(":")
    if not colon or scheme.lower() not in ("unix", "http+unix"):
        return None
    path = rest.removeprefix("//")
    path = unquote(path) if scheme.lower() == "http+unix" else path
    if not path.startswith("/") or not path.isprintable():
        raise VtopError(f"{text.strip()}: it names no socket; expected its whole path such as unix:///run/server.sock")
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise VtopError(
            f"{text.strip()}: a socket's path is at most {LONGEST_SOCKET} bytes long; name a shorter link to it"
        )
    return path


def loopback(host: str) -> bool:
    """Whether a host, without brackets, is this machine talking to itself."""
    if host == "localhost":
        return True
    if host.endswith(".localhost"):
        return _resolves_to_loopback(host)
    address = _literal(host)
    return address is not None and address.is_loopback


def _split(text: str) -> _Parts:
    typed = text.strip()
    head, found, rest = typed.partition("://")
    scheme = head.lower() if found else ""
    if not found:
        rest = typed
    authority, slash, tail = rest.partition("/")
    userinfo, at, hostport = authority.rpartition("@")
    # an error shows neither a password nor a key in a query
    shown = f"{head}{found}{rest.rpartition('@')[2]}" if found else rest.rpartition("@")[2]
    shown = shown.partition("?")[0]

    def wrong(why: str) -> VtopError:
        return VtopError(f"{shown or 'an empty address'}: {why}; {_EXPECTED}")

    if found and scheme not in SCHEME_PORTS:
        raise wrong("the scheme is neither http nor https")
    if not found and slash and not hostport and not _KNOWN_PATHS.sub("", slash + tail, count=1):
        hostport = "localhost"  # a path alone, such as /metrics
    if not found and re.match(r"https?:/", rest):
        raise wrong("a scheme is followed by ://")
    if "@" in tail:
        raise wrong("a / in a user or password is written %2F")
    if "?" in rest or "#" in rest:
        raise wrong("a query or fragment is no part of a server's address")
    if not hostport:
        raise wrong("the host is missing")
    if not found and hostport.isascii() and hostport.isdecimal():
        hostport = f":{hostport}"  # a port alone
    host, port_text = _host_and_port(hostport)
    if host.startswith("["):
        raise wrong("the brackets hold no IPv6 address")
    port = None
    if port_text:
        if not (port_text.isascii() and port_text.isdecimal() and 0 < int(port_text) < 65536):
            raise wrong(f"{port_text!r} is no port (1 to 65535)")
        port = int(port_text)
    elif not found:
        port = DEFAULT_PORT
    if host.isdecimal():
        raise wrong(f"{host} alone is no host (a port is written :{host})")
    return _Parts(
        scheme=scheme or "http",
        host=_reachable(host.lower(), wrong),
        port=port,
        path=_prefix(slash + tail, wrong),
        credentials=_user_and_password(userinfo) if at else None,
    )


def _host_and_port(text: str) -> tuple[str, str]:
    """The two as typed. IPv6 may lack its brackets; a host that has wrong ones keeps them."""
    if text.startswith("["):
        inside, closed, after = text[1:].partition("]")
        if not closed or not _ipv6(inside) or (after and not after.startswith(":")):
            return text, ""
        return inside, after[1:]
    if text.count(":") > 1:
        before, _, last = text.rpartition(":")
        # `::1:8000` is an address by the letter, but a person means a port
        if last.isdecimal() and (int(last) >= 1024 or last in ("80", "443")) and _ipv6(before):
            return before, last
        return text, ""
    host, _, port = text.partition(":")
    return host or "localhost", port


def _reachable(host: str, wrong: _Wrong) -> str:
    """The host to connect to: a server that listens on every address is reached on the loopback one."""
    address = _literal(host)
    if address is not None:
        if address.is_unspecified:
            return "127.0.0.1" if address.version == 4 else "::1"
        return str(address)
    if "%" in host:
        raise wrong("an IPv6 zone is not supported")
    if not _NAME.fullmatch(host):
        raise wrong(f"{host!r} is no host name")
    try:
        return host.encode("idna").decode()
    except UnicodeError:  # a label is empty or too long
        raise wrong(f"{host!r} is no host name") from None


def _prefix(path: str, wrong: _Wrong) -> str:
    if re.search(r"[\s\\<>\"{}|^`]", path) or not path.isprintable():
        raise wrong("the path is not one of a URL")
    return _KNOWN_PATHS.sub("", re.sub("/+", "/", path), count=1)


def _user_and_password(userinfo: str) -> tuple[str, str]:
    user, _, password = userinfo.partition(":")
    return unquote(user), unquote(password)


def _local(host: str) -> bool:
    name = socket.gethostname().lower()
    if loopback(host) or host in (name, name.partition(".")[0]):
        return True
    address = _literal(host)
    if address is None:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as own:
            own.bind((host, 0))  # only an address of this machine can be bound; no packet is sent
    except OSError:
        return False
    return True


def _resolves_to_loopback(host: str) -> bool:
    """RFC 6761 says that a name under localhost is this machine; whether this machine's resolver agrees."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in host:
        return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def _ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
