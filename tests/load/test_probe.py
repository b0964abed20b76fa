"""What a load asks the server before it begins."""

from __future__ import annotations

import pytest

from tests.load.faults import Answer, at
from tests.load.standin import JSON, Host, standing_in
from vtop.access import Access, Endpoint
from vtop.errors import VtopError
from vtop.load.workers import probe
from vtop.load.workers.probe import Model, NotUp
from vtop.load.workload.prompts import VOCABULARY


def endpoint(host: Host) -> Endpoint:
    return Endpoint(host.standin.url)


def saying(host: Host, status: str, body: bytes) -> None:
    host.standin.models = Answer(at((0.0, body)), status=status, headers=JSON, framing="length", together=True)


def test_the_model_and_its_longest_sequence() -> None:
    with standing_in() as host:
        assert probe.model(endpoint(host)) == Model("tiny", 4096)
        assert probe.model(endpoint(host), "tiny").name == "tiny"
        with pytest.raises(VtopError, match="it serves tiny"):
            probe.model(endpoint(host), "huge")


def test_a_server_that_is_not_up_is_told_from_one_that_cannot_be_loaded() -> None:
    with standing_in() as host:
        saying(host, "503 Service Unavailable", b"")
        with pytest.raises(NotUp):
            probe.model(endpoint(host))
        for status, body in (("404 Not Found", b"{}"), ("200 OK", b"<html>"), ("200 OK", b'{"data":[]}')):
            saying(host, status, body)
            with pytest.raises(VtopError, match="OpenAI-compatible") as found:
                probe.model(endpoint(host))
            assert not isinstance(found.value, NotUp)
        for status in ("401 Unauthorized", "403 Forbidden"):
            saying(host, status, b"{}")
            with pytest.raises(VtopError, match="key"):
                probe.model(endpoint(host))
        host.down()
        with pytest.raises(NotUp, match="refused"):
            probe.model(endpoint(host))


def test_a_user_and_password_of_the_address_and_headers_go_along() -> None:
    with standing_in() as host:
        url = host.standin.url
        probe.model(Endpoint(url, Access(basic=("me", "päss"))))
        probe.model(Endpoint(url, Access("sesame", (("X-Tenant", "blue"),))))
        probe.model(Endpoint(url, Access("sesame", (("Authorization", "Digest x"),))))
        basic, bearer, given = (head.split(b"\r\n") for head in host.standin.heads)
    assert b"authorization: Basic bWU6cMOkc3M=" in basic
    assert {b"authorization: Bearer sesame", b"x-tenant: blue"} <= set(bearer)
    assert [line for line in given if line.startswith(b"authorization")] == [b"authorization: Digest x"]


def test_without_tokenize_there_are_ids_all_the_same_and_chat_says_what_it_lacks() -> None:
    with standing_in() as host:
        assert probe.vocabulary(endpoint(host), "tiny") == tuple(VOCABULARY)
        with pytest.raises(VtopError, match="/tokenize: 404"):
            probe.count_tokens(endpoint(host), "tiny", "hello")
