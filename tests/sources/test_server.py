"""A watched server: what it answers, or fails to answer, becomes the right event, in time and without secrets."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import socketserver
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, TypeVar

import httpx
import pytest

from vtop.access import Access
from vtop.errors import VtopError
from vtop.recording.events import Event, Identity, Note, Outage, Scrape, Target, encode
from vtop.sources import addresses, processes, proxy
from vtop.sources.address import target
from vtop.sources.command import Command
from vtop.sources.server import ServerSource

PAGE = b"""# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# HELP vllm:generation_tokens_total Tokens.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 17.0
"""
MODELS = b'{"object":"list","data":[{"id":"lora","max_model_len":null},{"id":"m","max_model_len":4096}]}'


@dataclass(slots=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


T = TypeVar("T", bound=Event)

Script = Callable[[str, BaseHTTPRequestHandler], Reply | None]  # None: the script wrote, or cut, by itself


def vllm(path: str, _: object = None) -> Reply:
    """What a healthy vLLM says."""
    known = {"/metrics": PAGE, "/health": b"", "/version": b'{"version":"0.26.0"}', "/v1/models": MODELS}
    return Reply(200, known[path]) if path in known else Reply(404, b'{"detail":"Not Found"}')


def metrics_only(reply: Callable[[BaseHTTPRequestHandler], Reply | None]) -> Script:
    return lambda path, request: reply(request) if path == "/metrics" else vllm(path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append(self.path)
        reply = self.server.script(self.path, self)
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, ValueError):  # the other side hung up
            self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except (ConnectionError, ValueError):
            return

    def log_message(self, format: str, *args: Any) -> None:
        return


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Script, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script = script
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(script)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Hand:
    """A clock moved by hand, and the wait that goes with it: it ends the source after so many waits."""

    def __init__(self, waits: int = 1_000_000) -> None:
        self.now_s = 0.0
        self.waits = waits
        self.done = threading.Event()

    def clock(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        self.waits -= 1
        if self.waits <= 0:
            self.done.set()
        return self.waits <= 0


def watch(
    script: Callable[[str], Reply], ticks: int, *, took_s: Callable[[int], float] = lambda _: 0.0, **more: Any
) -> list[Event]:
    """The events of so many ticks against a scripted server without a socket; the n-th page takes `took_s(n)`."""
    hand = Hand(ticks)
    pages = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal pages
        if request.url.path == "/metrics":
            hand.now_s += took_s(pages)
            pages += 1
        reply = script(request.url.path)
        return httpx.Response(reply.status, headers=reply.headers, stream=httpx.ByteStream(reply.body))

    events: list[Event] = []
    target = Target(url="http://127.0.0.1:8000")
    transport = httpx.MockTransport(answer)
    ServerSource(0, target, Access(), events.append, hand.clock, wait=hand.wait, transport=transport, **more).start()
    assert hand.done.wait(5)
    return events


def once(url: str, access: Access | None = None, *, local: bool = True, **more: Any) -> list[Event]:
    """The events of two pages from a real server."""
    events: list[Event] = []
    target = Target(url=url, local=local)
    ServerSource(0, target, access or Access(), events.append, monotonic, wait=lambda _: False, **more).once()
    return events


def of(events: list[Event], kind: type[T]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def the_outage(events: list[Event]) -> Outage:
    assert len(of(events, Outage)) == 1
    assert not of(events, Scrape)
    return of(events, Outage)[0]


# What a healthy server says


def test_a_page_becomes_a_scrape_with_the_health_beside_it() -> None:
    with serving(vllm) as server:
        first, second = of(once(server.url), Scrape)
    assert first.full
    assert first.bytes == len(PAGE)
    assert first.health == 200
    assert first.model == "m"
    assert 3.0 in first.values.values()
    assert not second.full
    assert second.values == {}


def test_who_answers_is_asked_once() -> None:
    with serving(vllm) as server:
        (who,) = of(once(server.url), Identity)
        assert server.seen.count("/v1/models") == 1
    assert who.version == "0.26.0"
    assert who.models == ("lora", "m")
    assert who.max_model_len == 4096  # a LoRA adapter's row says null
    assert who.note is None


def test_a_given_shape_stands_in_for_a_config_that_cannot_be_read(tmp_path: Path) -> None:
    given = {"hidden_size": 64}
    with serving(vllm) as server:
        (who,) = of(once(server.url, shape=given), Identity)
    assert who.shape == given
    (tmp_path / "config.json").write_text('{"hidden_size": 128, "secret": "no"}')
    body = json.dumps({"data": [{"id": "m", "root": str(tmp_path), "max_model_len": 4096}]}).encode()
    with serving(lambda path, _: Reply(200, body) if path == "/v1/models" else vllm(path)) as server:
        (who,) = of(once(server.url, shape=given), Identity)
    assert who.shape == {"hidden_size": 128}


def test_once_says_whether_the_server_answered() -> None:
    source = ServerSource(0, Target(url=free_url()), Access(), lambda _: None, monotonic, wait=lambda _: False)
    assert not source.once()
    with serving(vllm) as server:
        assert ServerSource(0, Target(url=server.url), Access(), lambda _: None, monotonic, wait=lambda _: False).once()


def test_one_connection_serves_all_requests() -> None:
    ports = set()

    def script(path: str, request: BaseHTTPRequestHandler) -> Reply:
        ports.add(request.client_address[1])
        return vllm(path)

    with serving(script) as server:
        once(server.url)
    assert len(ports) == 1


def test_only_the_first_request_of_a_connection_goes_through_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    through = httpx.HTTPTransport.handle_request

    def counted(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return through(self, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", counted)
    with serving(lambda path, _: vllm(path)) as server:
        events = once(server.url)
        assert len(server.seen) == 6
    assert asked == ["/metrics"]
    assert len(of(events, Scrape)) == 2


def test_a_root_below_a_prefix_is_asked_there() -> None:
    with serving(lambda path, _: vllm(path.removeprefix("/proxy"))) as server:
        assert len(of(once(f"{server.url}/proxy"), Scrape)) == 2
        assert all(path.startswith("/proxy/") for path in server.seen)


def test_a_dead_engine_is_seen_in_the_health() -> None:
    events = watch(lambda path: Reply(503) if path == "/health" else vllm(path), 1)
    assert of(events, Scrape)[0].health == 503


def test_no_answer_to_health_is_0() -> None:
    def script(path: str) -> Reply:
        if path == "/health":
            raise httpx.ConnectError("")
        return vllm(path)

    assert of(watch(script, 1), Scrape)[0].health == 0


# Ticks


def test_ticks_do_not_drift() -> None:
    scrapes = of(watch(vllm, 5, took_s=lambda _: 0.1), Scrape)
    assert [scrape.at_s for scrape in scrapes] == [0, 1, 2, 3, 4]


def test_missed_ticks_are_skipped_without_a_burst() -> None:
    scrapes = of(watch(vllm, 5, took_s=lambda page: 2.3 if page == 1 else 0.0), Scrape)
    assert [scrape.at_s for scrape in scrapes] == [0, 1, 4, 5, 6]


def test_a_slow_page_makes_the_pace_slower_up_to_eight_intervals() -> None:
    events = watch(vllm, 20, took_s=lambda _: 5.0)
    at_s = [scrape.at_s for scrape in of(events, Scrape)]
    assert at_s[-1] - at_s[-2] == 8
    assert [note.text for note in of(events, Note)] == [
        "/metrics takes 5.0 s: from now on asked every 2 s",
        "/metrics takes 5.0 s: from now on asked every 4 s",
        "/metrics takes 5.0 s: from now on asked every 8 s",
    ]


def test_the_pace_returns_when_pages_are_fast_again() -> None:
    events = watch(vllm, 12, took_s=lambda page: 0.8 if page < 4 else 0.1)
    at_s = [scrape.at_s for scrape in of(events, Scrape)]
    assert at_s == [0, 1, 2, 4, 6, 8, 10, 11, 12, 13, 14, 15]
    assert "fast again" in of(events, Note)[-1].text


def test_one_slow_page_changes_nothing() -> None:
    events = watch(vllm, 8, took_s=lambda page: 0.9 if page % 2 else 0.1)
    assert not of(events, Note)


def test_a_hanging_server_never_has_two_scrapes_in_flight() -> None:
    with silent() as (url, hung_up, requests):
        arrived = threading.Event()
        source = ServerSource(
            0, Target(url=url), Access(), lambda _: arrived.set(), monotonic, interval_s=0.01, timeout_s=0.3
        )
        source.start()
        assert arrived.wait(5)
        assert requests == ["/metrics", "/health"]  # 30 intervals have passed
        source.stop()
        assert hung_up.wait(5)


def test_stop_hangs_up_at_once_and_no_event_follows() -> None:
    events: list[Event] = []
    with silent() as (url, hung_up, requests):
        source = ServerSource(0, Target(url=url), Access(), events.append, monotonic, timeout_s=600)
        source.start()
        assert requests.arrived.wait(5)
        source.stop()
        assert hung_up.wait(5)  # far sooner than the time-out
    assert events == []


# Failures


def test_a_closed_port_is_refused() -> None:
    outage = the_outage(once(free_url()))
    assert outage.reason == "refused"
    assert outage.detail == "/metrics: Connection refused"


def test_an_unknown_name_is_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        outage = the_outage(once("http://gpu7.invalid:8000", Access(proxy=""), local=False))
    assert outage.reason == "dns"
    assert "Name or service not known" in outage.detail


def test_metrics_may_fail_while_v1_works() -> None:
    with serving(metrics_only(lambda _: Reply(500, b"PermissionError: /prom\n  at line 7"))) as server:
        events = once(server.url)
    assert the_outage(events).detail == "/metrics: 500 PermissionError: /prom; /health: 200"
    assert of(events, Identity)[0].models == ("lora", "m")


def test_who_answers_is_not_asked_at_every_failure() -> None:
    events = watch(lambda path: Reply(500) if path == "/metrics" else vllm(path), 5)
    assert len(of(events, Outage)) == 5
    assert len(of(events, Identity)) == 1


def test_a_status_without_a_body_shows_its_name() -> None:
    events = watch(lambda path: Reply(404) if path == "/metrics" else vllm(path), 1)
    assert the_outage(events).detail == "/metrics: 404 Not Found; /health: 200"


def test_a_long_or_wild_body_is_cut_to_one_clean_line() -> None:
    wild = b"\x1b[31m\x00" + b"x" * 5000
    outage = the_outage(watch(lambda path: Reply(500, wild) if path == "/metrics" else vllm(path), 1))
    assert outage.detail.isprintable()
    assert len(outage.detail) < 160


def test_a_key_for_v1_only_is_said_in_the_identity() -> None:
    events = watch(lambda path: Reply(401) if path.startswith("/v1") else vllm(path), 1)
    (who,) = of(events, Identity)
    assert who.version == "0.26.0"
    assert who.models == ()
    assert who.note == "/v1/models: 401 (an API key is needed: --api-key or VTOP_API_KEY)"
    assert of(events, Scrape)


def test_a_key_for_everything_is_said_in_the_outage() -> None:
    with serving(lambda path, _: Reply(200 if path == "/health" else 401)) as server:
        without = the_outage(once(server.url))
        wrong = the_outage(once(server.url, Access(api_key="sk-wrong")))
    assert without.reason == "status"
    assert without.detail == ("/metrics: 401 (an API key is needed: --api-key or VTOP_API_KEY); /health: 200")
    assert wrong.detail == "/metrics: 401 (the key given is not accepted); /health: 200"


@pytest.mark.parametrize(
    ("access", "authorization"),
    [
        (Access(api_key="sk-1\n"), "Bearer sk-1"),
        (Access(basic=("user", "p@ss")), "Basic dXNlcjpwQHNz"),
        (Access(api_key="sk-1", headers=(("Authorization", "Token t"),)), "Token t"),
    ],
)
def test_every_request_shows_who_asks(access: Access, authorization: str) -> None:
    def guarded(path: str, request: BaseHTTPRequestHandler) -> Reply:
        return vllm(path) if request.headers.get_all("authorization") == [authorization] else Reply(401)

    with serving(guarded) as server:
        events = once(server.url, access)
    assert [scrape.health for scrape in of(events, Scrape)] == [200, 200]
    assert of(events, Identity)[0].note is None


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><html>login</html>", b'{"status":"ok"}', b""])
def test_the_wrong_service_is_no_metrics_page(body: bytes) -> None:
    outage = the_outage(watch(lambda path: Reply(200, body) if path == "/metrics" else vllm(path), 1))
    assert outage.reason == "parse"
    assert "not a metrics page" in outage.detail


@pytest.mark.parametrize(
    ("encoding", "body", "why"),
    [
        ("gzip", gzip.compress(PAGE), None),
        ("deflate", zlib.compress(PAGE), None),
        ("gzip", PAGE, "what is labelled gzip is none"),
        ("gzip", gzip.compress(b"a 1\n" * (2**23 + 9)), "larger than 32 MiB"),  # a bomb of 32 KiB
        ("br", b"\x1b", "compressed (br)"),
    ],
    ids=["gzip", "deflate", "mislabelled", "bomb", "brotli"],
)
def test_a_compressed_page_nobody_asked_for_is_unpacked_up_to_the_limit(
    encoding: str, body: bytes, why: str | None
) -> None:
    def compressed(request: BaseHTTPRequestHandler) -> Reply:
        assert request.headers["accept-encoding"] == "identity"
        assert request.headers["accept"] == "text/plain"
        return Reply(200, body, {"content-encoding": encoding})

    with serving(metrics_only(compressed)) as server:
        events = once(server.url)
    if why is None:
        assert of(events, Scrape)[0].model == "m"
    else:
        assert why in the_outage(events).detail


class OverSocket(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    script = staticmethod(vllm)
    seen: ClassVar[list[str]] = []


# httpcore leaves a Unix socket that cannot be connected to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_on_a_unix_socket_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OverSocket(str(tmp_path / "vllm.sock"), Handler) as server:
        monkeypatch.setattr(Handler, "disable_nagle_algorithm", False)  # which only TCP has
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        events = once(target(f"unix://{tmp_path}/vllm.sock").url)
        server.shutdown()
    assert [scrape.model for scrape in of(events, Scrape)] == ["m", None]
    assert of(events, Identity)[0].version == "0.26.0"
    assert the_outage(once(f"unix://{tmp_path}/gone.sock")).detail.startswith("/metrics: No such file")


@contextmanager
def swallowing() -> Iterator[tuple[socket.AddressFamily, tuple[str, int]]]:
    """An address where connections are neither taken nor refused: its backlog is full."""
    with socket.socket() as server, contextlib.ExitStack() as waiting:
        server.bind(("127.0.0.2", 0))
        server.listen(0)
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        yield socket.AF_INET, server.getsockname()


def test_an_address_that_swallows_packets_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "NEXT_AFTER_S", 0.01)
    with swallowing() as silent_one, serving(vllm) as server:
        answering = socket.AF_INET, ("127.0.0.1", server.server_address[1])
        assert addresses.first_to_answer([silent_one, answering], 5.0) == answering[1]
        refusing = socket.AF_INET, ("127.0.0.3", server.server_address[1])
        with pytest.raises(TimeoutError, match=r"127\.0\.0\.2: no answer"):
            addresses.first_to_answer([silent_one, refusing], 0.05)
        with pytest.raises(addresses.NotReached, match=r"127\.0\.0\.3: Connection refused; 127\.0\.0\.4: Conn"):
            addresses.first_to_answer([refusing, (socket.AF_INET, ("127.0.0.4", server.server_address[1]))], 5.0)


def test_of_a_name_with_several_addresses_the_one_that_answers_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "NEXT_AFTER_S", 0.01)
    resolve = socket.getaddrinfo
    with swallowing() as silent_one, serving(vllm) as server:
        port = server.server_address[1]
        rows = [(silent_one[0], socket.SOCK_STREAM, 6, "", silent_one[1])]
        rows += [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda host, *a, **k: rows if host == "two.test" else resolve(host, *a, **k)
        )
        assert len(of(once(f"http://two.test:{port}"), Scrape)) == 2


def test_something_that_is_no_http_is_said() -> None:
    def mail(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"220 mail.example ready\r\n\r\n")

    with serving(lambda _, request: mail(request)) as server:
        outage = the_outage(once(server.url))
    assert (outage.reason, outage.detail) == ("parse", "/metrics: the answer is no HTTP; /health: no answer")


def test_a_page_cut_by_the_connection_is_an_outage() -> None:
    with serving(metrics_only(lambda _: Reply(200, PAGE, {"content-length": "9000", "connection": "close"}))) as server:
        outage = the_outage(once(server.url))
    assert outage.reason == "reset"
    assert f"{len(PAGE)} bytes had come" in outage.detail


def test_a_page_cut_by_the_server_keeps_its_good_lines() -> None:
    cut = PAGE[: PAGE.rindex(b"model_name")]
    first = of(watch(lambda path: Reply(200, cut) if path == "/metrics" else vllm(path), 1), Scrape)[0]
    assert first.bad_lines == 1
    assert first.values


def test_a_connection_reset_is_an_outage() -> None:
    def reset(request: BaseHTTPRequestHandler) -> None:
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()

    with serving(metrics_only(reset)) as server:
        outage = the_outage(once(server.url))
        assert server.seen.count("/metrics") == 1
    assert outage.reason == "reset"
    assert outage.detail == "/metrics: the connection was cut; /health: 200"


def test_a_kept_connection_that_the_server_had_closed_is_tried_anew() -> None:
    """The server's keep-alive time ran out just as the second page was asked for."""
    seen = 0

    def script(path: str, _: object) -> Reply | None:
        nonlocal seen
        seen += path == "/metrics"
        return None if path == "/metrics" and seen == 2 else vllm(path)

    with serving(script) as server:
        events = once(server.url)
    assert seen == 3
    assert not of(events, Outage)
    assert len(of(events, Scrape)) == 2


def test_a_reconnect_asks_again_who_answers() -> None:
    page = 0

    def script(path: str) -> Reply:
        nonlocal page
        page += path == "/metrics"
        if page == 3:
            raise httpx.ConnectError("")
        return Reply(200, b'{"version":"0.27.0"}') if page > 3 and path == "/version" else vllm(path)

    events = watch(script, 6)
    assert [who.version for who in of(events, Identity)] == ["0.26.0", "0.27.0"]


def test_the_command_of_a_server_is_looked_for_when_it_is_asked_who_it_is_and_not_with_every_page() -> None:
    looked = 0

    def started_by() -> Command:
        nonlocal looked
        looked += 1
        return Command("vllm serve", {"max-num-seqs": 7}, os.getpid(), processes.began(os.getpid()))

    (who,) = of(watch(vllm, 150, started_by=started_by), Identity)
    assert (who.command, who.flags) == ("vllm serve", {"max-num-seqs": 7})
    assert looked == 1
    (who,) = of(watch(vllm, 3), Identity)
    assert (who.command, who.flags) == (None, None)


def test_a_server_that_restarts_between_two_pages_is_asked_who_it_is_again() -> None:
    pages, flags = 0, iter(({"max-num-seqs": 128}, {"max-num-seqs": 10}))

    def script(path: str) -> Reply:
        nonlocal pages
        pages += path == "/metrics"
        fallen = PAGE.replace(b" 17.0", b" 1.0") if pages > 3 else PAGE
        return Reply(200, fallen) if path == "/metrics" else vllm(path)

    gone = 2**22 + 1  # no pid is as high

    def started_by() -> Command:
        return Command("vllm serve", {**next(flags)}, gone, 1)

    events = watch(script, 6, started_by=started_by)
    assert [who.flags for who in of(events, Identity)] == [{"max-num-seqs": 128}, {"max-num-seqs": 10}]
    assert isinstance(events[events.index(of(events, Identity)[1]) - 1], Scrape)


def test_a_server_too_busy_to_say_who_it_is_is_asked_again_a_minute_later() -> None:
    asked = 0

    def script(path: str) -> Reply:
        nonlocal asked
        asked += path == "/v1/models"
        if path == "/v1/models" and asked == 1:
            raise httpx.ReadTimeout("")
        return vllm(path)

    first, second = of(watch(script, 200), Identity)
    assert first.note == "/v1/models: no answer in 2 s"
    assert second.models == ("lora", "m")
    assert asked == 2


def test_the_first_page_after_an_outage_is_a_full_line() -> None:
    page = 0

    def script(path: str) -> Reply:
        nonlocal page
        page += path == "/metrics"
        return Reply(500) if path == "/metrics" and page == 3 else vllm(path)

    assert [scrape.full for scrape in of(watch(script, 5), Scrape)] == [True, False, True, False]


# Limits


def test_a_page_of_22_mb_is_read() -> None:
    label = b"x" * 7_300_000
    page = PAGE + b"".join(b'x_info{cfg="%s"} 1\n' % label for _ in range(3))
    with serving(metrics_only(lambda _: Reply(200, page))) as server:
        first, _ = of(once(server.url), Scrape)
    assert first.bytes == len(page) > 21_000_000
    assert len(encode(first)) < 5_000


def test_a_page_without_end_is_not_read_to_its_end() -> None:
    sent = 0

    def endless(request: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sent += request.connection.send(b"#" * 2**20)

    with serving(metrics_only(endless)) as server:
        outage = the_outage(once(server.url))
    assert outage.reason == "size"
    assert "32 MiB" in outage.detail
    assert sent < 2**26


@pytest.mark.parametrize("first_bytes", [b"HTTP/1.1 200 OK\r\n\r\nvllm:", b"HTTP/1.1 200 OK\r\nx: "])
def test_a_dribbling_server_is_left_after_the_time_out(first_bytes: bytes) -> None:
    left = threading.Event()

    def dribble(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(first_bytes)
        try:
            while not left.wait(0.02):
                request.wfile.write(b"1")
        finally:
            left.set()

    with serving(metrics_only(dribble)) as server:
        outage = the_outage(once(server.url, timeout_s=0.3))
        assert left.wait(5)
    assert outage.reason == "timeout"
    assert "in 0.3 s" in outage.detail
    assert outage.detail.endswith("/health: 200")
    assert outage.took_s < 2


# Redirects


def test_a_redirect_on_the_same_host_is_followed_and_remembered() -> None:
    def script(path: str, _: object) -> Reply:
        return Reply(307, headers={"location": "/metrics/"}) if path == "/metrics" else vllm(path.rstrip("/"))

    with serving(script) as server:
        assert len(of(once(server.url), Scrape)) == 2
        assert server.seen.count("/metrics") == 1


def test_a_redirect_to_another_port_of_the_host_does_not_carry_the_key() -> None:
    heard: list[tuple[str | None, str | None]] = []

    def other(path: str, request: BaseHTTPRequestHandler) -> Reply:
        heard.append((request.headers["authorization"], request.headers["x-tenant"]))
        return vllm(path)

    with serving(other) as elsewhere:
        place = {"location": f"{elsewhere.url}/metrics"}
        with serving(metrics_only(lambda _: Reply(302, headers=place))) as server:
            events = once(server.url, Access(api_key="k-1", headers=(("x-tenant", "blue"),)))
    assert len(of(events, Scrape)) == 2
    assert heard == [(None, None)] * 2


def test_a_redirect_to_another_host_is_named_and_not_followed() -> None:
    place = {"location": "https://user:pw@login.example/sso?token=t0ken"}
    events = watch(lambda path: Reply(302, headers=place) if path == "/metrics" else vllm(path), 1)
    outage = the_outage(events)
    assert outage.reason == "status"
    assert outage.detail == ("/metrics: 302 to another host, https://login.example/sso; not followed; /health: 200")


def test_a_redirect_in_a_circle_ends() -> None:
    events = watch(lambda _: Reply(302, headers={"location": "/metrics"}), 1)
    assert "more than 3 redirects" in the_outage(events).detail


# TLS


def test_https_to_a_server_that_speaks_http_is_a_tls_outage() -> None:
    with serving(vllm) as server:
        outage = the_outage(once(server.url.replace("http:", "https:")))
    assert outage.reason == "tls"
    assert "not https?" in outage.detail


def test_a_certificate_must_be_trusted_unless_told_otherwise(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(vllm, context) as server:
        url = server.url.replace("http:", "https:")
        outage = the_outage(once(url))
        assert len(of(once(url, Access(ca_file=str(certificate))), Scrape)) == 2
        assert len(of(once(url, Access(insecure=True)), Scrape)) == 2
    assert outage.reason == "tls"
    assert "--ca-file or --insecure" in outage.detail


def test_http_that_redirects_to_https_checks_the_certificate(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(vllm, context) as safe:
        https = safe.url.replace("http:", "https:")
        with serving(lambda path, _: Reply(308, headers={"location": https + path})) as server:
            assert the_outage(once(server.url)).reason == "tls"
            assert len(of(once(server.url, Access(ca_file=str(certificate))), Scrape)) == 2


# Proxies


ENVIRONMENT = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    "variables",
    [
        {"HTTP_PROXY": "http://127.0.0.1:9"},
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
        {"ALL_PROXY": "socks://127.0.0.1:9"},
        {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost,fd00::/8"},
    ],
)
def test_the_loopback_never_goes_to_a_proxy(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with serving(vllm) as server:
        events = once(server.url)
        assert len(of(events, Scrape)) == 2
        assert len(of(once(server.url, Access(proxy="http://127.0.0.1:9")), Scrape)) == 2
    assert not of(events, Note)


@pytest.mark.parametrize("url", ["socks://:pw123@p:1", "socks5://p:1", "ftp://p", "http://:x", "http://p:port"])
def test_a_proxy_that_cannot_be_used_is_one_note(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(proxy, "find_spec", lambda _: None)
    monkeypatch.setenv("ALL_PROXY", url)
    monkeypatch.setenv("NO_PROXY", "localhost,fd00::/8,[")
    hand, events = Hand(), list[Event]()
    transport = httpx.MockTransport(lambda _: httpx.Response(500, stream=httpx.ByteStream(b"")))
    target = Target(url="http://gpu7.invalid:8000", local=False)
    ServerSource(0, target, Access(), events.append, hand.clock, wait=hand.wait, transport=transport).once()
    (note,) = of(events, Note)
    assert "ALL_PROXY" in note.text
    assert "pw123" not in note.text
    assert of(events, Outage)[0].detail == "/metrics: 500 Internal Server Error; /health: 500"


def test_a_proxy_is_used_for_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda path, _: vllm(path.removeprefix("http://gpu7.invalid:8000"))) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        assert len(of(once("http://gpu7.invalid:8000", local=False), Scrape)) == 2
        assert server.seen[0] == "http://gpu7.invalid:8000/metrics"


def test_an_outage_behind_a_proxy_names_it_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = free_url()
    monkeypatch.setenv("http_proxy", url.replace("//", "//user:pw123@"))
    outage = the_outage(once("http://gpu7.invalid:8000", local=False))
    assert outage.reason == "refused"
    assert outage.detail.endswith(f"(via proxy {url})")
    assert "pw123" not in outage.detail


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("gpu7", "http://gpu7:8000", True),
        ("gpu7:8000", "http://gpu7:8000", True),
        ("gpu7:8001", "http://gpu7:8000", False),
        ("10.0.0.7:8000", "http://10.0.0.7:8000", True),
        ("10.0.0.7:8001,10.0.0.8", "http://10.0.0.7:8000", False),
        ("[fd00::7]:8000", "http://[fd00::7]:8000", True),
        ("[fd00::7]:8001", "http://[fd00::7]:8000", False),
        (".lan", "http://gpu7.lan", True),
        ("*", "http://gpu7", True),
        ("10.0.0.0/8", "http://10.1.2.3:8000", True),
        ("fd00::/8", "http://[fd00::1]:8000", True),
        ("[fd00::1]", "http://[fd00::1]:8000", True),
        ("10.0.0.0/8", "http://11.1.2.3:8000", False),
        ("fd00::/8,lan", "http://gpu7:8000", False),
    ],
)
def test_no_proxy_holds_for_names_and_networks(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, url: str, direct: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    route = proxy.choose(Target(url=url, local=False))
    assert (route.proxy is None) == direct
    assert route.trouble is None


# Secrets


@pytest.mark.parametrize("status", [200, 401, 403, 500])
def test_the_key_is_never_in_an_event(status: int) -> None:
    """The server says back all it was told, in every place that an event quotes."""

    def echo(path: str, request: BaseHTTPRequestHandler) -> Reply:
        told = " ".join(request.headers.values())
        if path == "/v1/models":
            return Reply(200, b'{"data":[{"id":"%s"}]}' % told.encode())
        return Reply(status, told.encode(), {"location": f"/{told}"})

    secrets = ("sk-5ecret", "pa55word", "t3nant")
    headers = (("X-Tenant", secrets[2]),)
    with serving(echo) as server:
        for access in (Access(api_key=secrets[0], headers=headers), Access(basic=("user", secrets[1]))):
            events = once(server.url, access)
            assert of(events, Outage)
            written = b"\n".join(encode(event) for event in events).decode() + repr(access)
            assert not any(secret in written for secret in (*secrets, "dXNlcjpwYTU1d29yZA"))


@pytest.mark.parametrize(
    "access",
    [
        Access(api_key="sk-5ecret\nx: y"),
        Access(api_key="sk-5ecret–"),
        Access(headers=(("X-Key", "sk-5ecret\r\n"),)),
        Access(headers=(("Authorization Bearer sk-5ecret", ""),)),
    ],
)
def test_what_no_header_can_carry_is_refused_without_showing_it(access: Access) -> None:
    with pytest.raises(VtopError) as caught:
        ServerSource(0, Target(url="http://h"), access, lambda _: None, monotonic)
    assert "5ecret" not in str(caught.value)


def test_a_ca_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.pem", tmp_path / "empty.pem"):
        if path.name == "empty.pem":
            path.write_text("nothing")
        with pytest.raises(VtopError, match="--ca-file"):
            ServerSource(0, Target(url="https://h"), Access(ca_file=str(path)), lambda _: None, monotonic)


def free_url() -> str:
    """Where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


class Requests(list[str]):
    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()


@contextmanager
def silent() -> Iterator[tuple[str, threading.Event, Requests]]:
    """A server that reads and never answers: its URL, whether someone hung up on it, the paths it was asked for."""
    hung_up, requests = threading.Event(), Requests()

    def never(path: str, request: BaseHTTPRequestHandler) -> None:
        requests.append(path)
        requests.arrived.set()
        request.connection.recv(1)  # returns when the other side goes
        hung_up.set()

    with serving(never) as server:
        yield server.url, hung_up, requests
