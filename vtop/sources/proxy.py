"""Which proxy the way to a server goes through: none for this machine itself, else what the environment says.

httpx reads the same variables, but sends even localhost to the proxy and fails on an IPv6 network in NO_PROXY.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.request import getproxies, proxy_bypass

import httpx

from vtop.recording.events import Target


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a server; direct when `proxy` is None."""

    proxy: str | None = None
    shown: str = ""  # the proxy without its credentials
    trouble: str | None = None  # why a proxy that was asked for is not used


def choose(target: Target, asked: str | None = None) -> Route:
    """The way to `target`. asked: a proxy's URL, "" for none at all, None for what the environment says."""
    if target.local or asked == "":
        return Route()
    url = httpx.URL(target.url)
    if asked is not None:
        return _through(asked, "--proxy")
    proxies = getproxies()
    name = url.scheme if proxies.get(url.scheme) else "all"
    if not proxies.get(name) or _bypassed(url, proxies.get("no", "")):
        return Route()
    return _through(proxies[name], f"{name.upper()}_PROXY")


def _through(text: str, source: str) -> Route:
    text = text if "://" in text else f"http://{text}"
    scheme, _, rest = text.partition("://")
    shown = f"{scheme}://{rest.rpartition('@')[2].rstrip('/')}"
    try:
        proxy = httpx.URL(text)
    except httpx.InvalidURL:
        why = "it is no URL"
    else:
        if not proxy.host:
            why = "it names no host"
        elif proxy.scheme not in ("http", "https", "socks5", "socks5h"):
            why = f"{proxy.scheme}:// is not known, expected http, https or socks5"
        elif proxy.scheme.startswith("socks5") and find_spec("socksio") is None:
            why = "SOCKS needs the package socksio"
        else:
            return Route(proxy=text, shown=shown)
    return Route(trouble=f"the proxy {shown} of {source} is not used: {why}")


def _bypassed(url: httpx.URL, no_proxy: str) -> bool:
    try:
        address = ipaddress.ip_address(url.host)
    except ValueError:
        return bool(proxy_bypass(url.netloc.decode("ascii")))
    port = url.port or (443 if url.scheme == "https" else 80)
    return "*" in no_proxy or any(address in network for network in _networks(no_proxy, port))


def _networks(no_proxy: str, port: int) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """The addresses and networks that need no proxy; those with a port where it is this one."""
    networks = []
    for entry in map(str.strip, no_proxy.split(",")):
        with_port = re.fullmatch(r"(\[[^\]]+\]|[^:]+):(\d+)", entry)
        if with_port is not None and int(with_port[2]) != port:
            continue
        try:
            networks.append(ipaddress.ip_network((with_port[1] if with_port else entry).strip("[]"), strict=False))
        except ValueError:
            continue  # a name
    return networks
