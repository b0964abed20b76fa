"""Every fault on a real connection: the right stamps, counts and verdict. Time is the script's; nothing sleeps."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.load import faults
from tests.load.faults import DONE, FAULTS, Answer, Clock, Server, ask, at, each, four, serving, token, usage
from vtop import faults as fault
from vtop.access import Access
from vtop.errors import VtopError
from vtop.load.http.client import Client
from vtop.load.http.connection import LoadConnection, Patience
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer
from vtop.recording.events import Request

PLAIN = Answer(each(1.0, (*four(), usage(4), DONE)))
FOREVER = Patience(stall_s=None)
HANGS = Answer(each(1.0, four()[:2]), "hang", unfinished=True)


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """A test that waits for what never comes fails, rather than hang."""

    def fail(*_: object) -> None:
        raise TimeoutError("waited for what never came")

    signal.signal(signal.SIGALRM, fail)
    signal.alarm(30)
    yield
    signal.alarm(0)


def client_of(server: Server, patience: Patience = FOREVER, **more: Any) -> Client:
    return Client(f"http://127.0.0.1:{server.port}", clock=server.clock, patience=patience, **more)


def fields(request: Request, values: dict[str, Any]) -> dict[str, Any]:
    return {key: getattr(request, key) for key in values}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_read_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, expected = FAULTS[name]
    async with serving(monkeypatch.setattr, answer) as server:
        client = client_of(server)
        exchange = await ask(client)
        client.abort()
    request = exchange.record(id=1, phase=0)
    assert request.error == expected.error, request.detail
    assert fields(request, expected.values) == expected.values
    assert request.end_s is not None
    for phrase in ("secret garden", "the king"):
        assert phrase not in (request.detail or "")


async def test_a_load_does_not_go_through_the_environment_s_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that holds chunks back would falsify each gap: there is none between the load and its server."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with serving(monkeypatch.setattr, PLAIN) as server:
        client = client_of(server)
        exchange = await ask(client)
        client.abort()
    assert exchange.record(id=1, phase=0).error is None


async def test_the_stamps_of_a_request_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(each(1.0, (*four(), usage(4), DONE), 3.0), head_s=2.0)
    async with serving(monkeypatch.setattr, answer) as server:
        server.clock.now = 0.5
        client = client_of(server)
        exchange = Exchange(client.lay("/v1/completions", faults.PAYLOAD), ExpectedAnswer(), due_s=0.25)
        await client.run(exchange)
        client.abort()
    stamps = [getattr(exchange, name) for name in ("due_s", "admitted_s", "sent_s", "headers_s")]
    assert stamps == [0.25, 0.5, 0.5, 2.0]
    assert exchange.connect_s == 0.0
    assert exchange.reading.first_s == 3.0


async def test_a_request_is_told_of_when_sent_and_at_its_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Request] = []
    async with serving(monkeypatch.setattr, PLAIN) as server:
        client = client_of(server)
        wire = client.lay("/v1/completions", faults.PAYLOAD)
        exchange = Exchange(wire, ExpectedAnswer(), seen=lambda known: told.append(known.record(id=7, phase=2)))
        await client.run(exchange)
        client.abort()
    assert [(request.sent_s, request.first_s, request.end_s) for request in told] == [
        (0.0, None, None),
        (0.0, 1.0, None),
    ]
    assert {(request.id, request.phase) for request in told} == {(7, 2)}


# --- the request


async def test_a_request_is_what_a_server_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, PLAIN) as server:
        url = f"http://127.0.0.1:{server.port}/base/"
        client = Client(url, clock=server.clock, access=Access("sk-1\n", (("X-Tenant", "blue"),)), patience=FOREVER)
        await ask(client)
        client.abort()
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == faults.PAYLOAD
    assert head.split(b"\r\n") == [
        b"POST /base/v1/completions HTTP/1.1",
        b"host: 127.0.0.1:%d" % server.port,
        b"user-agent: vtop",
        b"accept: text/event-stream, application/json",
        b"accept-encoding: identity",
        b"content-type: application/json",
        b"authorization: Bearer sk-1",
        b"x-tenant: blue",
        b"content-length: %d" % len(faults.PAYLOAD),
    ]


def test_basic_and_ipv6() -> None:
    client = Client("http://[::1]:9", clock=Clock(), access=Access(basic=("a", "b")))
    wire = client.lay("/v1/completions", b"{}")
    assert b"\r\nhost: [::1]:9\r\n" in wire
    assert b"\r\nauthorization: Basic YTpi\r\n" in wire


@pytest.mark.parametrize("headers", [(("X-A", "b\r\nX-C: d"),), (("X A", "b"),), (("X-A", "ü"),)])
def test_a_header_that_cannot_be_is_the_users_error(headers: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(VtopError):
        Client("http://localhost", clock=Clock(), access=Access(headers=headers))


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://"])
def test_a_url_that_cannot_be_is_the_users_error(url: str) -> None:
    with pytest.raises(VtopError):
        Client(url, clock=Clock())


async def test_no_key_gets_into_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b'{"error":"Incorrect API key provided: sk-very-secret, with tenant-blue"}'
    async with serving(monkeypatch.setattr, Answer(at((1.0, said)), status="401 No", framing="length")) as server:
        client = client_of(server, access=Access("sk-very-secret", (("X-Tenant", "tenant-blue"),)))
        exchange = await ask(client)
        client.abort()
    assert exchange.detail == "Incorrect API key provided: ***, with ***"


async def test_a_refused_field_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b'{"detail":[{"type":"extra_forbidden","loc":["body","return_token_ids"],"msg":"Extra inputs"}]}'
    async with serving(
        monkeypatch.setattr, Answer(at((1.0, said)), status="400 No", framing="length"), PLAIN
    ) as server:
        client = client_of(server)
        refused, accepted = await ask(client), await ask(client)
        client.abort()
    assert (refused.refused, refused.error) == ("return_token_ids", "http_status")
    assert (accepted.refused, accepted.error) == (None, None)


async def test_a_big_request_is_sent_when_its_last_byte_is(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = b'{"prompt":"' + b"x" * 24_000_000 + b'"}'
    async with serving(monkeypatch.setattr, PLAIN) as server:
        server.hears.clear()
        client = client_of(server)
        await client.warm(1)
        exchange = Exchange(client.lay("/v1/completions", payload), ExpectedAnswer())
        running = asyncio.ensure_future(client.run(exchange))
        await asyncio.wait({running}, timeout=0)
        assert exchange.admitted_s == 0.0
        assert exchange.sent_s is None
        server.clock.now = 0.75
        server.hears.set()
        await running
        client.abort()
    assert exchange.sent_s == 0.75
    assert (exchange.error, exchange.reading.first_s) == (None, 1.0)
    assert len(server.requests[0]) == len(exchange.wire)


async def test_a_request_is_sent_when_the_kernel_is_called_and_not_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On two cores the server that the call wakes may run first: its TTFT had come out longer than the client's."""
    async with serving(monkeypatch.setattr, PLAIN) as server:
        client = client_of(server)
        await client.warm(1)
        sockets: Any = vars(asyncio.selector_events)["_SelectorSocketTransport"]
        write = sockets.write

        def slow(transport: Any, data: bytes) -> None:
            write(transport, data)
            if b"POST" in data[:4]:
                server.clock.now = 0.5

        monkeypatch.setattr(sockets, "write", slow)
        exchange = await ask(client)
        client.abort()
    assert exchange.sent_s == 0.0
    assert (exchange.error, exchange.reading.first_s) == (None, 1.0)


async def test_many_big_requests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = b'{"prompt":"' + b"x" * 300_000 + b'"}'
    async with serving(monkeypatch.setattr, PLAIN) as server:
        client = client_of(server)
        exchanges = await asyncio.gather(*(ask(client, payload=payload) for _ in range(32)))
        client.abort()
    assert [exchange.error for exchange in exchanges] == [None] * 32
    assert all(exchange.sent_s is not None for exchange in exchanges)


async def test_small_writes_go_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    original = LoadConnection.connection_made

    def connection_made(self: LoadConnection, transport: asyncio.BaseTransport) -> None:
        found.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        original(self, transport)

    monkeypatch.setattr(LoadConnection, "connection_made", connection_made)
    async with serving(monkeypatch.setattr, PLAIN) as server:
        client = client_of(server)
        await client.warm(1)
        client.abort()
    assert found == [1]


# --- connections


async def test_an_answer_is_read_to_its_end_and_its_connection_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, PLAIN) as server:
        client = client_of(server)
        exchanges = [await ask(client) for _ in range(5)]
        client.abort()
    assert (server.accepted, client.opened, client.stale) == (1, 1, 0)
    assert [exchange.kept for exchange in exchanges] == [False, True, True, True, True]
    assert [exchange.connect_s is None for exchange in exchanges] == [False, True, True, True, True]


async def test_kinds_of_answers_that_keep_their_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Answer(at((1.0, b'{"error":"busy"}')), status="503 No", framing="length")
    answers = (refused, Answer((), framing="length"), PLAIN, PLAIN)
    async with serving(monkeypatch.setattr, *answers) as server:
        client = client_of(server)
        errors = [(await ask(client)).error for _ in answers]
        client.abort()
    assert errors == ["http_status", "truncated", None, None]
    assert server.accepted == 1


async def test_a_connection_that_is_to_close_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(PLAIN.pieces, headers=("content-type: text/event-stream", "connection: close"))
    async with serving(monkeypatch.setattr, answer) as server:
        client = client_of(server)
        for _ in range(2):
            assert (await ask(client)).error is None
        assert client.connections == 0
    assert server.accepted == 2


async def test_there_is_no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()
    async with serving(monkeypatch.setattr, Answer(PLAIN.pieces, go_on=gate)) as server:
        client = client_of(server)
        running = [asyncio.ensure_future(ask(client)) for _ in range(256)]
        await server.requests_in(256)
        assert (server.now_open, client.connections) == (256, 256)
        gate.set()
        assert {exchange.error for exchange in await asyncio.gather(*running)} == {None}
        client.abort()


async def test_connections_can_be_opened_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, PLAIN) as server:
        client = client_of(server)
        assert await client.warm(70) is None
        assert client.connections == 70
        exchanges = await asyncio.gather(*(ask(client) for _ in range(70)))
        assert await client.warm(70) is None
        client.abort()
    assert client.opened == 70
    assert {(exchange.kept, exchange.connect_s) for exchange in exchanges} == {(True, None)}


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_a_stale_connection_is_tried_anew_once(then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Answer((), then, framing="raw")
    async with serving(monkeypatch.setattr, PLAIN, gone, PLAIN) as server:
        client = client_of(server)
        await ask(client)
        exchange = await ask(client)
        client.abort()
    assert (exchange.error, exchange.retried, exchange.kept, client.stale) == (None, True, False, 1)
    assert exchange.connect_s is not None
    assert len(server.requests) == 3


async def test_it_is_not_tried_a_third_time(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Answer((), "close", framing="raw")
    async with serving(monkeypatch.setattr, PLAIN, gone, gone) as server:
        client = client_of(server)
        await ask(client)
        exchange = await ask(client)
        client.abort()
    assert (exchange.error, exchange.retried, client.stale, len(server.requests)) == ("reset", True, 1, 3)


async def test_a_server_that_cuts_after_a_long_silence_is_no_stale_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()
    gone = Answer(at((0.0, b""), (36.0, b"")), "reset", framing="raw", go_on=gate)
    async with serving(monkeypatch.setattr, PLAIN, gone) as server:
        client = client_of(server)
        await ask(client)
        running = asyncio.ensure_future(ask(client))
        await server.requests_in(2)
        gate.set()
        exchange = await running
        client.abort()
    assert (exchange.error, exchange.retried, client.stale) == ("reset", False, 0)
    assert exchange.detail == "the connection was cut after 30.0 s of silence, nothing of an answer had come"


async def test_nothing_is_tried_anew_once_an_answer_began(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Answer(at((1.0, b"HTTP/1.1 200 OK\r\n")), "reset", framing="raw")
    async with serving(monkeypatch.setattr, PLAIN, cut) as server:
        client = client_of(server)
        await ask(client)
        exchange = await ask(client)
        client.abort()
    assert (exchange.error, exchange.retried, len(server.requests)) == ("reset", False, 2)


async def test_an_answer_to_nothing_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    unasked = Answer(
        (*PLAIN.pieces, (7.0, b"0\r\n\r\nHTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")), unfinished=True
    )
    wire = tuple(unasked.wire())
    raw = Answer((*wire[:-1], (7.0, unasked.pieces[-1][1])), framing="raw")
    async with serving(monkeypatch.setattr, raw, PLAIN) as server:
        client = client_of(server)
        first, second = await ask(client), await ask(client)
        client.abort()
    assert (first.error, second.error, second.kept, second.retried) == (None, None, False, False)


async def test_nine_in_a_hundred_are_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Answer((), "close", framing="raw")
    answers = [lost if n % 11 == 10 else PLAIN for n in range(100)]
    async with serving(monkeypatch.setattr, *answers, PLAIN) as server:
        client = client_of(server)
        exchanges = await asyncio.gather(*(ask(client) for _ in range(100)))
        client.abort()
    errors = [exchange.error for exchange in exchanges]
    assert (errors.count(None), errors.count("reset"), len(server.requests)) == (91, 9, 100)


# --- no connection


async def test_a_refused_connection() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        client = Client(f"http://127.0.0.1:{unused.getsockname()[1]}", clock=Clock())
        exchange = await ask(client)
        assert await client.warm(3) == "connection refused"
    assert (exchange.error, exchange.detail, exchange.sent_s) == ("connect", "connection refused", None)
    assert exchange.record(id=1, phase=0).end_s == 0.0


async def test_a_connection_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: object, **kwargs: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    client = Client("http://127.0.0.1:9", clock=Clock(), patience=Patience(connect_s=0.001))
    exchange = await ask(client)
    assert (exchange.error, exchange.detail) == ("connect", "no connection in 0.001 s")


async def test_a_host_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    exchange = await ask(Client("http://nowhere", clock=Clock()))
    assert (exchange.error, exchange.detail) == ("connect", "the host's name is not known (Name or service not known)")


async def test_another_address_of_the_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two(*args: object, **kwargs: object) -> list[Any]:
        return [(None, None, None, None, (address, 0)) for address in ("127.0.0.77", "127.0.0.1")]

    async with serving(monkeypatch.setattr, PLAIN) as server:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
        client = Client(f"http://twice:{server.port}", clock=server.clock, patience=FOREVER)
        assert (await ask(client)).error is None
        client.abort()


@contextmanager
def no_more_files() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_too_many_open_files_are_this_machines_limit() -> None:
    with no_more_files():
        exchange = await ask(Client("http://127.0.0.1:9", clock=Clock()))
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert exchange.error == "client_limit"
    assert exchange.detail == f"no more open files than {limit} (0 connections); see ulimit -n"


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (errno.ENFILE, "this machine has no more open files (1 connections)"),
        (errno.ENOBUFS, "this machine has no memory for another socket (1 connections)"),
        (errno.EADDRNOTAVAIL, "no local port is free (1 connections)"),
    ],
)
async def test_what_this_machine_lacks_for_another_connection_is_no_failure_of_the_server(
    code: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exhausted(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    async with serving(monkeypatch.setattr, HANGS) as server:
        client = client_of(server)
        hanging = asyncio.ensure_future(ask(client))
        await server.hanging.wait()
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", exhausted)
        exchange = await ask(client)
        client.abort()
        await hanging
    assert exchange.error == "client_limit"
    assert (exchange.detail or "").startswith(what)


async def test_a_socket_that_the_kernel_has_no_memory_for_is_this_machines_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(monkeypatch.setattr, HANGS) as server:
        client = client_of(server)
        asking = asyncio.ensure_future(ask(client))
        await server.hanging.wait()
        (connection,) = client._all
        connection.connection_lost(OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS)))
        exchange = await asking
        connection.abort()
    assert (exchange.error, exchange.detail) == ("client_limit", "this machine has no memory for another socket")


@pytest.mark.parametrize("order", [("::1", "127.0.0.1"), ("127.0.0.1", "::1")])
async def test_a_machine_without_ipv6_has_ports_all_the_same(
    order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 9)) for host in order]

    async def refused(_: object, host: str, port: int) -> None:
        code = errno.EADDRNOTAVAIL if ":" in host else errno.ECONNREFUSED
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refused)
    exchange = await ask(Client("http://twice:9", clock=Clock()))
    assert (exchange.error, exchange.detail) == ("connect", "connection refused")


# --- ends


async def test_a_stalled_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Answer(each(0.0001, four()[:2], 0.0001), "hang", unfinished=True)  # never silent for as long as stall_s
    async with serving(monkeypatch.setattr, quick) as server:
        client = client_of(server, Patience(stall_s=0.001))
        running = asyncio.ensure_future(ask(client))
        await server.hanging.wait()
        server.clock.now = 12.0
        exchange = await running
        await server.client_gone.wait()
    assert (exchange.error, exchange.end_s) == ("stalled", 12.0)
    assert exchange.detail == "no byte for 12.0 s, 2 events with tokens had come"


async def test_comments_keep_an_answer_from_stalling(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(at(*each(0.9, (b": ping\n\n",) * 50, 0.9), *each(0.1, (*four(), usage(4), DONE), 45.5)))
    async with serving(monkeypatch.setattr, answer) as server:
        client = client_of(server, Patience(stall_s=1.0))
        exchange = await ask(client)
        client.abort()
    assert (exchange.error, exchange.reading.first_s) == (None, 45.5)


async def test_an_answer_that_takes_too_long_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, HANGS) as server:
        server.clock.now = 0.5
        client = client_of(server, Patience(stall_s=None, total_s=0.001))
        exchange = await ask(client)
        await server.client_gone.wait()
    assert exchange.error == "timeout"
    assert exchange.detail is not None
    assert exchange.detail.startswith("not finished in 0.001 s")


async def test_an_answer_is_not_waited_for_after_its_done(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(each(1.0, (*four(), usage(4), DONE)), "hang", unfinished=True)
    monkeypatch.setattr("vtop.load.http.connection.LINGER_S", 0.001)
    async with serving(monkeypatch.setattr, answer) as server:
        client = client_of(server)
        running = asyncio.ensure_future(ask(client))
        await server.hanging.wait()
        server.clock.now = 8.0
        exchange = await running
    assert (exchange.error, exchange.end_s, exchange.reading.last_s) == (None, 8.0, 4.0)


async def test_the_server_sees_an_abort_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, HANGS) as server:
        client = client_of(server)
        first_token = asyncio.Event()
        exchange = Exchange(client.lay("/v1/completions", faults.PAYLOAD), ExpectedAnswer())
        exchange.seen = lambda known: first_token.set() if known.reading.first_s is not None else None
        running = asyncio.ensure_future(client.run(exchange))
        await first_token.wait()
        client.abort()
        await server.client_gone.wait()
        await running
    assert (exchange.error, exchange.reading.chunks, client.connections) == ("cancelled_at_end", 1, 0)
    assert exchange.record(id=1, phase=0).output_tokens == 1


async def test_a_cancelled_request_closes_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, HANGS) as server:
        client = client_of(server)
        running = asyncio.ensure_future(ask(client))
        await server.requests_in(1)
        running.cancel()
        await server.client_gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert client.connections == 0


async def test_an_abort_ends_what_is_still_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    connecting = asyncio.Event()

    async def never(*args: object, **kwargs: object) -> None:
        connecting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    client = Client("http://127.0.0.1:9", clock=Clock())
    running = asyncio.ensure_future(ask(client))
    await connecting.wait()
    client.abort()
    assert (await running).error == "cancelled_at_end"


async def test_an_abort_right_after_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Client._connect

    async def aborted(self: Client) -> LoadConnection:
        connection = await connect(self)
        asyncio.get_running_loop().call_soon(self.abort)
        return connection

    monkeypatch.setattr(Client, "_connect", aborted)
    async with serving(monkeypatch.setattr, PLAIN) as server:
        exchange = await ask(client_of(server))
    assert (exchange.error, server.requests) == ("cancelled_at_end", [])


async def test_a_server_that_hangs_up_on_whoever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Client._connect
    hung_up = asyncio.Event()

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def after_it_hung_up(self: Client) -> LoadConnection:
        connection = await connect(self)
        await hung_up.wait()
        return connection

    monkeypatch.setattr(Client, "_connect", after_it_hung_up)
    monkeypatch.setattr(Client, "_forget", lambda *_: hung_up.set())
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        exchange = await ask(Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", clock=Clock()))
    assert (exchange.error, exchange.retried) == ("reset", False)


@pytest.mark.parametrize("method", ["take", "finish"])
async def test_an_error_of_our_own_ends_the_request_and_is_told(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Exchange, method, broken)
    async with serving(monkeypatch.setattr, Answer(PLAIN.pieces, together=True)) as server:
        client = client_of(server)
        exchange = await ask(client)
    assert exchange.error == "fault"
    assert exchange.end_s is not None
    assert exchange.detail == fault.told[0]
    assert exchange.detail.startswith("vtop itself failed understanding an answer (ZeroDivisionError in ")
    assert exchange.record(id=0, phase=0).error == "fault"
    fault.told.clear()


# --- bounds


JSON_TYPE = ("content-type: application/json",)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(at((1.0, b"data: " + b"x" * 9_000_000)), framing="none", then="hang"), "a line or an event"),
        (Answer(at((1.0, (b"data: " + b"x" * 99 + b"\n") * 90_000)), framing="none", then="hang"), "an event of more"),
        (Answer(at((1.0, b"data:\n" * 400_000)), framing="none", then="hang"), "a line or an event"),
        (Answer(at((1.0, token() * 2_000)), framing="none", then="hang"), "it does not end: "),
        (Answer(at((1.0, b"x" * 9_000_000)), headers=JSON_TYPE, framing="none", then="hang"), "more than 8,192 KiB"),
        (Answer(at((1.0, b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200_000)), framing="raw", then="hang"), "headers of"),
    ],
    ids=["line", "event", "empty lines", "events", "json", "headers"],
)  # fmt: skip
async def test_an_answer_without_end_is_not_read_further(
    answer: Answer, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(monkeypatch.setattr, answer) as server:
        client = client_of(server)
        exchange = Exchange(client.lay("/v1/completions", faults.PAYLOAD), ExpectedAnswer(output_tokens=4))
        await client.run(exchange)
        client.abort()
    assert exchange.error == "truncated"
    assert why in (exchange.detail or "")


async def test_of_a_long_error_the_beginning_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"error":{"message":"no room"}}' + b" " * 1_000_000
    answer = Answer(at((1.0, body)), status="500 X", headers=JSON_TYPE, framing="none", then="hang")
    async with serving(monkeypatch.setattr, answer) as server:
        client = client_of(server)
        exchange = await ask(client)
        client.abort()
    assert (exchange.error, exchange.status) == ("http_status", 500)


# --- TLS


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = b'{"prompt":"' + b"x" * 3_000_000 + b'"}'
    async with serving(monkeypatch.setattr, PLAIN, tls=server_tls(certificate)) as server:
        trust = Access(ca_file=str(certificate))
        client = Client(f"https://127.0.0.1:{server.port}", clock=server.clock, access=trust, patience=FOREVER)
        first, second = await ask(client), await ask(client, payload=payload)
        client.abort()
    for exchange in (first, second):
        assert (exchange.error, exchange.reading.chunks, exchange.reading.output_tokens) == (None, 4, 4)
        assert exchange.sent_s is not None
    assert (server.accepted, second.kept, first.reading.gaps_us) == (1, True, (1_000_000,) * 3)


async def test_a_certificate_that_is_not_trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # the server's side of it
    async with serving(monkeypatch.setattr, PLAIN, tls=server_tls(certificate)) as server:
        client = Client(f"https://127.0.0.1:{server.port}", clock=server.clock)
        exchange = await ask(client)
    assert exchange.error == "connect"
    assert exchange.detail is not None
    assert exchange.detail.startswith("its certificate is not trusted: self-signed certificate")


async def test_https_to_a_server_that_speaks_http() -> None:
    async def bad_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(bad_request, "127.0.0.1", 0) as server:
        client = Client(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", clock=Clock())
        exchange = await ask(client)
    assert (exchange.error, exchange.detail) == ("connect", "TLS failed: WRONG_VERSION_NUMBER (is it http, not https?)")


async def test_a_tls_server_that_is_cut_mid_stream(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(each(1.0, (token(), token())), "reset", unfinished=True)
    async with serving(monkeypatch.setattr, answer, tls=server_tls(certificate)) as server:
        trust = Access(ca_file=str(certificate))
        client = Client(f"https://127.0.0.1:{server.port}", clock=server.clock, access=trust, patience=FOREVER)
        exchange = await ask(client)
        client.abort()
    assert exchange.error == "reset"
    assert exchange.reading.chunks == 2


async def test_a_load_over_a_unix_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, Answer(each(1.0, (*four(), usage(4), DONE)))) as server:
        path = str(tmp_path / "vllm.sock")
        listening = await asyncio.get_running_loop().create_unix_server(lambda: faults.Line(server), path)
        client = Client(f"unix://{path}", clock=server.clock)
        exchange = await ask(client)
        client.abort()
        listening.close()
    assert (exchange.error, exchange.status) == (None, 200)
    assert b"host: localhost" in server.requests[0]


async def test_of_two_addresses_the_load_takes_the_one_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtop.load.http.client.NEXT_AFTER_S", 0.01)
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.2", 0))
        full.listen(0)
        port = full.getsockname()[1]
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.2", port))
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(asyncio.Protocol, "127.0.0.1", port)

        async def both(*args: Any, **more: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]

        monkeypatch.setattr(loop, "getaddrinfo", both)
        client = Client(f"http://two.test:{port}", clock=Clock())
        assert await client.warm(1) is None
        client.abort()
        listening.close()
