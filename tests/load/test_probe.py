"""What a load asks the server before it begins."""

from __future__ import annotations

import contextlib
import json
import socket
import threading

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


@pytest.mark.parametrize(
    "body",
    [
        b'{"data":{"a":1}}',
        b'{"data":"xyz"}',
        b'{"data":[1]}',
        b'{"data":[{}]}',
        b'{"data":[{"id":null}]}',
        b'{"data":[{"id":""}]}',
        b'{"data":[{"id":"\\ud800x"}]}',
        b"[" * 200_000,
        b'{"data":[{"id":"x","n":' + b"9" * 5000 + b"}]}",
        b"\xff",
    ],
    ids=range(10),
)
def test_models_that_are_none_are_one_line(body: bytes) -> None:
    with standing_in() as host:
        saying(host, "200 OK", body)
        with pytest.raises(VtopError, match="no model in it; a load needs an OpenAI-compatible server"):
            probe.model(endpoint(host))


@pytest.mark.parametrize("length", [-5, 0, 10**30, True, 1.5, "8192", None])
def test_a_longest_sequence_that_is_none_is_not_known(length: object) -> None:
    with standing_in() as host:
        saying(host, "200 OK", json.dumps({"data": [{"id": "m", "max_model_len": length}]}).encode())
        assert probe.model(endpoint(host)) == Model("m", None)


@pytest.mark.parametrize(
    "tokens", [[[1], [2]], [10**30 + n for n in range(200)], [-n for n in range(200)], [True] * 300, ["a"] * 200, {}]
)
def test_a_vocabulary_that_is_none_is_not_taken(tokens: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_ask", lambda *_: (200, {"tokens": tokens}))
    assert probe.vocabulary(Endpoint("http://a"), "m") == tuple(VOCABULARY)


def test_an_answer_without_end_is_not_read_further() -> None:
    with standing_in() as host:
        host.standin.models = Answer(at((0.0, b"x" * (5 << 20))), headers=JSON, framing="none", together=True)
        with pytest.raises(VtopError, match="more than 4 MiB"):
            probe.model(endpoint(host))


def test_what_answers_no_http_is_told_without_its_escapes_and_without_the_key() -> None:
    with standing_in() as host:
        host.standin.models = Answer(at((0.0, b"HTTX \x1b]0;sk-secret\x07 200\r\n\r\n")), framing="raw", together=True)
        with pytest.raises(VtopError, match="no HTTP") as found:
            probe.model(Endpoint(host.standin.url, Access("sk-secret")))
    assert str(found.value).isprintable()
    assert "sk-secret" not in str(found.value)


def test_what_is_no_model_list_is_said_at_once_and_what_dribbles_when_its_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No HTTP and an answer without end are no server to wait for; a head in bytes is one, for a while."""
    monkeypatch.setattr(probe, "TIMEOUT_S", 0.1)
    for said, error, words in (
        (b"SSH-2.0-OpenSSH_9.6\r\n", VtopError, "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b"x" * (5 << 20), VtopError, "more than 4 MiB"),
        (b"", NotUp, "no answer, or not all of it, in 0.1 s"),
        (b"HTTP/1.1 200 OK\r\nx: ", NotUp, "no answer, or not all of it, in 0.1 s"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            over = threading.Event()
            talking = threading.Thread(target=_say_and_dribble, args=(listening, said, over))
            talking.start()
            with pytest.raises(error, match=words) as found:
                probe.model(Endpoint(f"http://127.0.0.1:{listening.getsockname()[1]}"))
            over.set()
            talking.join()
            assert isinstance(found.value, NotUp) == (error is NotUp)


def _say_and_dribble(listening: socket.socket, said: bytes, over: threading.Event) -> None:
    line, _ = listening.accept()
    with contextlib.suppress(OSError), line:
        line.recv(65536)
        line.sendall(said)
        while not over.wait(0.02):
            line.sendall(b"x" if said else b"")
