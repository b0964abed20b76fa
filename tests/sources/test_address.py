"""What people type for a server reaches the right root, or is refused in one line that shows no password."""

from __future__ import annotations

import socket

import httpx
import pytest

from vtop.errors import VtopError
from vtop.sources.address import credentials, target


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("localhost", "http://localhost:8000"),
        (" localhost\n", "http://localhost:8000"),
        ("gpu7", "http://gpu7:8000"),
        ("gpu7:9000", "http://gpu7:9000"),
        ("gpu7:", "http://gpu7:8000"),
        (":8000", "http://localhost:8000"),
        ("8301", "http://localhost:8301"),
        ("/metrics", "http://localhost:8000"),
        ("my_host.lan/v1", "http://my_host.lan:8000"),
        ("http://h:8000", "http://h:8000"),
        ("http://h:8000/", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000"),
        ("http://h:8000/v1/models", "http://h:8000"),
        ("http://h:8000/v1/chat/completions", "http://h:8000"),
        ("http://h:8000/metrics", "http://h:8000"),
        ("http://h:8000/metrics/", "http://h:8000"),
        ("http://h:8000//metrics", "http://h:8000"),
        ("http://h", "http://h"),
        ("http://h:80", "http://h"),
        ("https://h", "https://h"),
        ("https://h:8443", "https://h:8443"),
        ("HTTPS://H:443/v1", "https://h"),
        ("https://gw/proxy/v1", "https://gw/proxy"),
        ("https://gw/a/b/metrics/", "https://gw/a/b"),
        ("https://user:secret@gw/proxy/v1", "https://gw/proxy"),
        ("unix:///run/vllm.sock", "unix:///run/vllm.sock"),
        ("unix:/run/vllm.sock", "unix:///run/vllm.sock"),
        ("http+unix://%2Frun%2Fvllm.sock", "unix:///run/vllm.sock"),
        ("münchen", "http://xn--mnchen-3ya:8000"),
    ],
)
def test_what_people_type_reaches_the_root(typed: str, url: str) -> None:
    assert target(typed).url == url
    assert httpx.URL(url).host or url.startswith("unix:///")


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("::1", "http://[::1]:8000"),
        ("[::1]", "http://[::1]:8000"),
        ("[::1]:8001", "http://[::1]:8001"),
        ("::1:8000", "http://[::1]:8000"),
        ("http://::1:8000", "http://[::1]:8000"),
        ("http://::1:8000/v1", "http://[::1]:8000"),
        ("http://[::1]:8000/metrics", "http://[::1]:8000"),
        ("fe80::1", "http://[fe80::1]:8000"),
        ("2001:db8:0:0:0:0:0:8000", "http://[2001:db8::8000]:8000"),
        ("https://[2001:db8::7]/v1", "https://[2001:db8::7]"),
    ],
)
def test_ipv6_may_lack_its_brackets(typed: str, url: str) -> None:
    assert target(typed).url == url


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("http://0.0.0.0:8000/v1", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("http://[::]:8000", "http://[::1]:8000"),
        (":::8000", "http://[::1]:8000"),
    ],
)
def test_a_server_that_listens_everywhere_is_reached_on_the_loopback(typed: str, url: str) -> None:
    assert target(typed).url == url
    assert target(typed).local


@pytest.mark.parametrize(("found", "local"), [("127.0.0.1", True), ("::1", True), ("192.0.2.7", False), (None, False)])
def test_a_name_under_localhost_is_this_machine_where_its_resolver_says_so(
    found: str | None, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: str, port: object, **_: object) -> list[tuple[object, ...]]:
        if found is None:
            raise socket.gaierror
        return [(0, 0, 0, "", (found, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert target("a.localhost:8000").local is local


@pytest.mark.parametrize("typed", ["localhost", "127.0.0.1", "127.1.2.3:9", "::1", "::ffff:127.0.0.1"])
def test_the_loopback_is_local(typed: str) -> None:
    assert target(typed).local


def test_this_machines_own_name_is_local() -> None:
    assert target(socket.gethostname()).local


@pytest.mark.parametrize("typed", ["gpu7", "192.0.2.1", "https://[2001:db8::7]", "localhost.example.org"])
def test_another_host_is_not_local(typed: str) -> None:
    assert not target(typed).local


def test_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: object) -> None:
        raise AssertionError("a DNS lookup")

    for name in ("getaddrinfo", "gethostbyname", "getfqdn"):
        monkeypatch.setattr(socket, name, hangs)
    assert not target("a-name-nobody-knows.example").local


def test_credentials_are_kept_apart() -> None:
    assert credentials("https://user:p%40ss@gw/v1") == ("user", "p@ss")
    assert credentials("user:secret@gw:8000") == ("user", "secret")
    assert credentials("token@gw") == ("token", "")
    assert credentials("gw:8000") is None
    assert target("user:secret@gw:8000").url == "http://gw:8000"


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("", "missing"),
        ("http://", "missing"),
        ("http:///v1", "missing"),
        ("//h:8000", "missing"),
        ("http:/h:8000", "://"),
        ("ftp://h", "neither http nor https"),
        ("h:99999", "no port"),
        ("h:0", "no port"),
        ("h:port", "no port"),
        ("http://8000", "alone is no host"),
        ("80000", "no port"),
        ("a..b", "no host name"),
        ("h ost", "no host name"),
        ("[zz]:8000", "IPv6"),
        ("[::1", "IPv6"),
        ("[::1]x", "IPv6"),
        ("fe80::1%eth0", "zone"),
        ("http://h/a b", "path"),
    ],
)
def test_a_wrong_address_is_one_line_that_says_what_was_expected(typed: str, why: str) -> None:
    with pytest.raises(VtopError) as caught:
        target(typed)
    line = str(caught.value)
    assert why in line
    assert "expected a server's address" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "typed", ["ftp://user:secret@h", "http://user:sec/secret@h", "h:8000/v1?key=secret", "user:secret@h:x"]
)
def test_an_error_shows_no_password(typed: str) -> None:
    with pytest.raises(VtopError) as caught:
        target(typed)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "why"), [("unix://vllm.sock", "names no socket"), (f"unix:///{'x' * 107}", "at most 107")]
)
def test_a_socket_that_cannot_be_is_said(typed: str, why: str) -> None:
    with pytest.raises(VtopError, match=why):
        target(typed)
