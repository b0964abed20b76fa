"""One odd answer never ends the watching: it costs itself, says why, and the next tick asks again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from statistics import median

import pytest

from tests.sources.test_server import PAGE, Reply, of, serving, vllm, watch
from vtop import faults
from vtop.access import Access
from vtop.metrics.page_layout import MOST_VALUES
from vtop.recording.events import Event, Identity, Note, Outage, Scrape, Target, decode, encode
from vtop.sources import gpu, host, server
from vtop.sources.connection import Failure
from vtop.sources.health import Health
from vtop.sources.server import ServerSource
from vtop.sources.shape import shape_of

DEEP = b"[" * 200_000
BUCKETS = b"""# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",BOUND} 1
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0"} 2
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 3
vllm:time_to_first_token_seconds_count{engine="0"} 3
vllm:time_to_first_token_seconds_sum{engine="0"} 4
"""


def saying(path: str, body: bytes) -> Callable[[str], Reply]:
    return lambda asked: Reply(200, body) if asked == path else vllm(asked)


def until(met: Callable[[], bool]) -> None:
    """Looks every few milliseconds, for at most ten seconds."""
    ended = threading.Event()
    for _ in range(2000):
        if met():
            return
        ended.wait(0.005)
    raise AssertionError("it never was")


def cleared() -> list[str]:
    """The faults so far, which a test meant to happen."""
    said, faults.told[:] = list(faults.told), []
    return said


@pytest.mark.parametrize("bound", ["", 'le="abc"', 'le=""', 'le="NaN"', 'le="-Inf"', 'le="0x1p3"', 'le="1_0"'])
def test_a_bucket_without_a_usable_bound_costs_its_line_only(bound: str) -> None:
    page = PAGE + BUCKETS.replace(b"BOUND", bound.encode()).replace(b",}", b"}")
    first, *_ = of(watch(saying("/metrics", page), 2), Scrape)
    read = decode(encode(first))
    assert isinstance(read, Scrape)
    assert (first.bad_lines, first.first_bad) == (1, "vllm:time_to_first_token_seconds_bucket")
    assert read.le == {"vllm:time_to_first_token_seconds": (1.0,)}
    assert [(counts.n, counts.count, counts.sum) for counts in read.hists.values()] == [((2, 1), 3, 4)]


@pytest.mark.parametrize("path", ["/version", "/v1/models"])
@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        b'{"version":"1","data":[{"id":"x"}],"x":' + DEEP + b"]" * 200_000 + b"}",
        b'{"data":[{"id":"x","y":' + DEEP + b"]" * 200_000 + b'}],"version":"1"}',
        b"\xff\xfe",
        b"",
        b"null",
    ],
    ids=["open", "deep", "deep inside", "no text", "nothing", "null"],
)
def test_json_that_cannot_be_read_is_said_with_who_answers(path: str, body: bytes) -> None:
    events = watch(saying(path, body), 2)
    (who,) = of(events, Identity)
    assert who.note == f"{path}: not the JSON that was expected"
    assert len(of(events, Scrape)) == 2


@pytest.mark.parametrize("said", [10**30, 9 * 10**3999, -5, True, 1.5, "8192", [[]]])
def test_a_length_that_is_none_costs_itself_not_the_models_name(said: object) -> None:
    body = json.dumps({"data": [{"id": "m", "max_model_len": said}]})
    events = watch(saying("/v1/models", body.encode()), 1)
    (who,) = of(events, Identity)
    assert (who.models, who.max_model_len, who.note) == (("m",), None, None)
    assert decode(encode(who)) == who


@pytest.mark.parametrize("root", ["/proc/self/mem", "/dev", "/\0", "/" + "a" * 10_000, 5, ["/"], "a/../b"])
def test_a_root_that_leads_nowhere_gives_no_shape(root: object) -> None:
    body = json.dumps({"data": [{"id": "m", "max_model_len": 8, "root": root}]}).encode()
    (who,) = of(watch(saying("/v1/models", body), 1), Identity)
    assert (who.models, who.shape) == (("m",), None)


def test_a_config_that_is_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    body = json.dumps({"data": [{"id": "m", "max_model_len": 8, "root": str(tmp_path)}]}).encode()
    events = watch(saying("/v1/models", body), 2)
    (who,) = of(events, Identity)
    assert (who.shape, len(of(events, Scrape))) == (None, 2)


@pytest.mark.parametrize("text", [DEEP, b'{"hidden_size":' + b"9" * 4000 + b"}", b"\xff", b"[]", b"x" * (1 << 21)])
def test_a_config_that_cannot_be_read_is_none(text: bytes, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_bytes(text)
    assert shape_of(config) is None


def test_an_endless_device_is_no_config() -> None:
    assert shape_of(Path("/dev/zero")) is None


def test_a_fault_of_vtops_own_is_an_outage_with_its_cause_and_the_next_tick_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([KeyError("Bearer sk-secret"), RecursionError(), None, None])
    real = server.ServerSource._scrape

    def scrape(self: server.ServerSource, at_s: float) -> Scrape:
        if (error := next(answers)) is not None:
            raise error
        return real(self, at_s)

    monkeypatch.setattr(server.ServerSource, "_scrape", scrape)
    events = watch(vllm, 4)
    assert [type(event) for event in events if not isinstance(event, Identity)] == [Outage, Outage, Scrape, Scrape]
    outages = of(events, Outage)
    assert {outage.reason for outage in outages} == {"fault"}
    assert outages[0].detail.startswith("vtop itself failed reading what the server answered (KeyError in server.py:")
    assert outages[0].detail.endswith(f"; the traceback is in {faults.log_path()}")
    assert "sk-secret" not in outages[0].detail
    assert len(cleared()) == 2
    log = faults.log_path().read_text()
    assert "Traceback" in log
    assert "KeyError" in log
    assert faults.log_path().stat().st_mode & 0o077 == 0


def test_a_fault_while_reading_gpus_is_a_note_and_the_next_reading_tries_again() -> None:
    class Odd:
        NVMLError = RuntimeError

        def nvmlInit(self) -> None:
            raise ZeroDivisionError

    events: list[Event] = []
    ticks = iter([False] * 3 + [True])
    gpu.GpuSource(events.append, lambda: 0.0, nvml=Odd(), wait=lambda _: next(ticks)).run()
    assert [event.text for event in of(events, Note)] == cleared()
    assert len(events) == 1


def test_a_fault_while_reading_this_machine_is_a_note_and_ends_no_reading() -> None:
    events: list[Event] = []
    ticks = iter([False] * 4 + [True] * 2)
    read = iter([(1, 2), None, (1, 2), (2, 4), (3, 6)])

    def cores() -> tuple[int, int]:
        if (one := next(read)) is None:
            raise ZeroDivisionError
        return one

    clock = iter(range(100))
    host.HostSource(
        events.append, lambda: float(next(clock)), cores=cores, spent=lambda: 0.0, wait=lambda _: next(ticks)
    ).run()
    assert [type(event).__name__ for event in events] == ["Note", "Host", "Host"]
    assert len(cleared()) == 1


# Bounds


def test_a_health_that_hangs_delays_no_scrape_and_is_told_when_its_time_is_up() -> None:
    hang = threading.Event()

    def script(path: str, request: object) -> Reply:
        if path == "/health":
            hang.wait(10)
        return vllm(path)

    events: list[Event] = []
    with serving(script) as host_:
        source = ServerSource(
            0, Target(url=host_.url), Access(), events.append, time.monotonic, interval_s=0.05, timeout_s=0.6
        )
        source.start()
        until(lambda: any(scrape.health == 0 for scrape in of(events, Scrape)))
        source.stop()
        hang.set()
    scrapes = of(events, Scrape)
    assert scrapes[0].health is None
    apart_s = [b.at_s - a.at_s for a, b in pairwise(scrapes)][1:]  # the first was let a moment
    assert median(apart_s) < 0.15
    assert not of(events, Outage)


def test_a_health_that_is_quick_again_is_asked_beside_no_longer() -> None:
    slow = iter([True])

    def near(within_s: float) -> int:
        if next(slow, False):
            raise Failure("timeout", "")
        return 200

    asked: list[float] = []

    def far(within_s: float) -> int:
        asked.append(within_s)
        return 503

    health = Health(near, far, patience_s=2.0, name="health")
    assert [health.status(), health.status()] == [None, None]
    health.wait(5)
    assert health.status() == 200  # far it was quick
    assert asked == [2.0]


def test_an_answer_too_large_is_asked_for_less_and_less_often() -> None:
    monkey = [len(PAGE) - 1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "PAGE_LIMIT_BYTES", monkey[0])
        events = watch(vllm, 8)
    outages = of(events, Outage)
    assert {outage.reason for outage in outages} == {"size"}
    apart_s = [b.at_s - a.at_s for a, b in pairwise(outages)]
    assert apart_s == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert [note.text for note in of(events, Note)] == [
        "/metrics is asked less often: its answer is too large to be read each time"
    ]


def test_a_scrape_of_far_too_many_lines_is_not_read() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "MOST_LINES", 3)
        (outage,) = of(watch(vllm, 1), Outage)
    assert (outage.reason, outage.detail) == ("size", "/metrics: more than 3 lines, not read; /health: 200")


@pytest.mark.parametrize(
    ("said", "wait_s"), [("5", 5.0), ("0", 1.0), ("900", 60.0), ("soon", 1.0), ("-3", 1.0), ("9" * 50, 1.0)]
)
def test_a_server_that_asks_for_patience_is_given_it(said: str, wait_s: float) -> None:
    def script(path: str) -> Reply:
        return Reply(503, b"busy", {"retry-after": said}) if path == "/metrics" else vllm(path)

    first, second, *_ = of(watch(script, 3), Outage)
    assert second.at_s - first.at_s == wait_s


def test_a_label_with_a_value_for_each_request_fills_no_memory_and_is_told() -> None:
    pages = count()

    def script(path: str) -> Reply:
        if path != "/metrics":
            return vllm(path)
        number = next(pages)
        lines = [
            f'vllm:request_success_total{{engine="0",finished_reason="r{number}-{k}"}} 1' for k in range(MOST_VALUES)
        ]
        return Reply(200, PAGE + "\n".join(lines).encode() + b"\n")

    events = watch(script, 4)
    series = {name for scrape in of(events, Scrape) for name in scrape.values}
    assert len(series) == MOST_VALUES + 3
    assert 'vllm:request_success_total{engine="0",finished_reason="other"}' in series
    assert [note.text for note in of(events, Note)] == [
        "/metrics: finished_reason has more than 512 values; the rest is taken together as other"
    ]


def test_series_that_stand_there_twice_are_counted_once_and_told() -> None:
    first, *_ = of(watch(saying("/metrics", PAGE + PAGE), 1), Scrape)
    assert sorted(value for value in first.values.values() if value is not None) == [3.0, 17.0]
    assert (first.bad_lines, first.first_bad) == (2, "vllm:num_requests_running")


def test_thirty_thousand_buckets_take_no_minute() -> None:
    lines = "".join(f'vllm:e2e_request_latency_seconds_bucket{{le="{n}.5"}} 1\n' for n in reversed(range(30_000)))
    page = PAGE + (lines + 'vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 1\n').encode()
    began = time.process_time()
    first, *_ = of(watch(saying("/metrics", page), 1), Scrape)
    assert len(first.le["vllm:e2e_request_latency_seconds"]) == 30_000
    assert time.process_time() - began < 3
