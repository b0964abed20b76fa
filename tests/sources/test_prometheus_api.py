"""A Prometheus over HTTP: what it refuses is asked for in smaller pieces, or said in one line with what to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from vtop.access import Access
from vtop.errors import VtopError
from vtop.recording import Target
from vtop.sources.prometheus.api import PrometheusApi, quoted

Form = dict[str, str]
Reply = tuple[int, object, dict[str, str]]
Script = Callable[[str, Form, dict[str, str]], Reply]


@contextmanager
def prometheus(script: Script, **access: object) -> Iterator[tuple[PrometheusApi, list[str]]]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, said, headers = script(self.path, form, dict(self.headers))
            text = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in {"content-length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        warned: list[str] = []
        target = Target(url=f"http://127.0.0.1:{server.server_port}/prom", local=True)
        api = PrometheusApi(target, Access(**access), wait=lambda _: None, warn=warned.append)  # type: ignore[arg-type]
        try:
            yield api, warned
        finally:
            api.close()
            server.shutdown()


def matrix(*values: list[object], **more: object) -> dict[str, object]:
    row = {"metric": {"__name__": "up"}, "values": list(values)}
    return {"status": "success", "data": {"resultType": "matrix", "result": [row]}, **more}


def refused(status: int, error: str, **headers: str) -> Reply:
    return status, {"status": "error", "errorType": "execution", "error": error}, headers


def test_samples_are_asked_for_by_a_range_selector_below_the_path_that_was_given() -> None:
    seen: list[tuple[str, Form]] = []

    def script(path: str, form: Form, _: object) -> Reply:
        seen.append((path, form))
        return 200, matrix([100.5, "1"], [101.5, "NaN"], [102.5, "+Inf"]), {}

    with prometheus(script) as (api, _):
        ((until_s, (one,)),) = api.samples("up", 100.0, 110.0)
    assert until_s == 110.0
    assert seen[0][0] == "/prom/api/v1/query"
    assert seen[0][1] == {
        "query": "up[10000ms]", "time": "110.000", "partial_response": "false", "max_source_resolution": "0s"
    }  # fmt: skip
    times, values = one.columns()
    assert times == [100.5, 101.5, 102.5]
    assert str(values) == "[1.0, nan, inf]"


def test_a_window_that_is_too_much_is_halved_and_said() -> None:
    def script(_: str, form: Form, __: object) -> Reply:
        length_ms = int(form["query"].partition("[")[2].removesuffix("ms]"))
        if length_ms > 30_000:
            return refused(422, "query processing would load too many samples into memory in query execution")
        return 200, matrix([float(form["time"]), "1"]), {}

    with prometheus(script) as (api, warned):
        ends = [end_s for end_s, _ in api.samples("up", 0.0, 100.0)]
    assert ends == [25.0, 50.0, 75.0, 100.0]
    assert len(warned) == 1
    assert "refuses a window for its size" in warned[0]


def test_what_is_too_much_in_the_smallest_window_is_an_error_with_advice() -> None:
    with (
        prometheus(lambda *_: refused(422, "too many samples")) as (api, _),
        pytest.raises(VtopError, match=r"refuses even 6 s of up: too many samples; see --match, --core"),
    ):
        list(api.samples("up", 0.0, 100.0))


def test_one_that_is_too_busy_is_asked_again() -> None:
    answers = [refused(429, "too many requests", **{"retry-after": "1"}), (200, matrix([1.0, "1"]), {})]
    with prometheus(lambda *_: answers.pop(0)) as (api, warned):
        assert len(list(api.samples("up", 0.0, 2.0))) == 1
    assert "429 too many requests: it is asked more slowly" in warned[0]


def test_its_warnings_are_said_once() -> None:
    with prometheus(lambda *_: (200, matrix([1.0, "1"], warnings=["a store is gone"]), {})) as (api, warned):
        list(api.samples("up", 0.0, 20.0, 10.0))
    assert warned == ["Prometheus warns, what it gave may be incomplete: a store is gone"]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (refused(400, "invalid parameter"), r"/api/v1/query: 400 invalid parameter$"),
        ((401, b"", {}), r"401 Unauthorized; --api-key, VTOP_API_KEY or -H"),
        ((404, b"<html>", {}), r"404 Not Found; is it a Prometheus\?"),
        ((200, b"<html>hello", {}), r"it answers, but not as a Prometheus does"),
        ((200, {"status": "success", "data": {"result": []}}, {}), r"it answers, but not as a Prometheus does"),
        ((200, b"[" * 200_000, {}), r"it answers, but not as a Prometheus does"),
        ((200, b'{"status":"success","data":' + b"[" * 200_000, {}), r"it answers, but not as a Prometheus does"),
        ((200, {"status": "success", "data": {"result": [10**400]}}, {}), r"it answers, but not as a Prometheus does"),
        ((200, {"status": "success", "data": {"result": ["NaN"]}}, {}), r"it answers, but not as a Prometheus does"),
        ((200, {"status": "success", "data": {"result": [1e306]}}, {}), r"it answers, but not as a Prometheus does"),
    ],
)
def test_what_is_refused_is_one_line_with_what_to_do(reply: Reply, said: str) -> None:
    with prometheus(lambda *_: reply) as (api, _), pytest.raises(VtopError, match=said):
        api.clock_s()


@pytest.mark.parametrize(
    "odd",
    [
        [5.5, "abc"], [5.5, None], [5.5, {}], [5.5, "1", "2"], [5.5], "x", {}, [1e306, "1"], [-1e17, "1"],
        ["NaN", "1"], [10**400, "1"], [None, "1"],
    ],
)  # fmt: skip
def test_a_sample_that_is_none_costs_itself(odd: Any) -> None:
    with prometheus(lambda *_: (200, matrix([1.0, "7"], odd, [3.0, "NaN"]), {})) as (api, _):
        ((_, (found,)),) = list(api.samples("up", 0.0, 10.0))
    assert found.columns()[0] == [1.0, 3.0]
    assert found.columns()[1][0] == 7.0


def test_a_key_goes_along_and_a_tenant_s_header() -> None:
    seen: dict[str, str] = {}

    def script(_: str, __: Form, headers: dict[str, str]) -> Reply:
        seen.update({name.lower(): value for name, value in headers.items()})
        return 200, {"status": "success", "data": {"resultType": "scalar", "result": [1.5e9, "1.5e9"]}}, {}

    with prometheus(script, api_key="k", headers=(("X-Scope-OrgID", "blue"),)) as (api, _):
        assert api.clock_s() == 1.5e9
    assert (seen["authorization"], seen["x-scope-orgid"]) == ("Bearer k", "blue")


def test_a_packed_answer_is_asked_of_another_host_only() -> None:
    packed = gzip.compress(json.dumps(matrix([1.0, "1"])).encode())
    asked: list[str] = []

    def script(_: str, __: Form, headers: dict[str, str]) -> Reply:
        asked.append({name.lower(): value for name, value in headers.items()}["accept-encoding"])
        return 200, packed, {"content-encoding": "gzip"}

    with prometheus(script) as (api, _):
        assert len(list(api.samples("up", 0.0, 2.0))) == 1, "it is labelled, though nobody asked for it"
        api._gzip = True
        assert len(list(api.samples("up", 0.0, 2.0))) == 1
    assert asked == ["identity", "gzip"]


def test_a_small_answer_that_unpacks_to_a_huge_one_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(b" " * 3_000_000)
    monkeypatch.setattr("vtop.sources.prometheus.api.LIMIT_BYTES", 1 << 20)
    with prometheus(lambda *_: (200, packed, {"content-encoding": "gzip"})) as (api, _):
        api._gzip = True
        with pytest.raises(VtopError, match="larger than 1 MiB"):
            api.clock_s()


@pytest.mark.parametrize("result", [[1.796e9, "1.796e9"], [{"metric": {}, "value": [1.796e9, "1.795e9"]}]])
def test_its_clock_is_that_of_the_answer(result: object) -> None:
    said = {"status": "success", "data": {"resultType": "scalar", "result": result}}
    with prometheus(lambda *_: (200, said, {})) as (api, _):
        assert api.clock_s() == 1.796e9


@pytest.mark.parametrize("at", [0, 1, -5.0, 1e300, 10**400, "NaN", "+Inf", None, [1], "soon"])
def test_a_clock_of_another_century_is_no_prometheus(at: object) -> None:
    said = {"status": "success", "data": {"resultType": "scalar", "result": [at, "1"]}}
    with prometheus(lambda *_: (200, said, {})) as (api, _), pytest.raises(VtopError, match="not as a Prometheus does"):
        api.clock_s()


def test_series_without_a_name_are_no_answer_to_a_range_selector() -> None:
    said = {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "1"]]}]}}
    with prometheus(lambda *_: (200, said, {})) as (api, _), pytest.raises(VtopError, match="not as a Prometheus does"):
        api.window("up", 10.0, 5.0)


def test_a_value_is_quoted_as_promql_has_it() -> None:
    assert quoted('a"b\\c\n') == '"a\\"b\\\\c\\n"'
