"""Live, replayed, sought or read to the end: one recording gives the same frame for the same instant."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session.made import Log, Server, device, fold, read
from tests.session.scheduler import SHAPE
from tests.shipped_kinds import EACH, KINDS
from vtop.recording import AnyEvent, End, Event, Identity, LiveRecording, Load, Mark, Note, Request, Start
from vtop.recording.vocabulary import LoadState
from vtop.session.frame.frame import Frame, View

VIEWS = (View(), View(window_s=20.0, columns=7), View(window_s=60.0, columns=60), View(window_s=3600.0, columns=44))


def seen(frame: Frame) -> bytes:
    return msgspec.json.encode(frame)


def instants(events: list[AnyEvent], many: int) -> list[float]:
    """Instants at lines, just before them, between them and after the end."""
    ts = sorted({event.t for event in events})
    step = max(1, len(ts) // many)
    chosen = [0.0, *ts[::step], ts[-1], ts[-1] + 1.0, ts[-1] + 100.0]
    return [t + by for t in chosen for by in (-1e-6, 0.0, 0.4) if t + by >= 0]


def check_seek_equals_fold(start: Start, events: list[AnyEvent], many: int) -> None:
    whole = fold(start, events)
    asked = instants(events, many)
    random.Random(0).shuffle(asked)
    for number, now_s in enumerate(asked):
        view = VIEWS[number % len(VIEWS)]
        only = fold(start, events, now_s)
        assert seen(whole.frame(now_s, view)) == seen(only.frame(now_s, view)), now_s


@pytest.mark.parametrize("path", EACH)
def test_seek_equals_fold(path: Path) -> None:
    start, events = read(path)
    check_seek_equals_fold(start, events, 12 if len(events) < 1000 else 2)


@pytest.mark.parametrize("path", EACH)
def test_live_equals_replay_equals_fold(path: Path, tmp_path: Path) -> None:
    start, events = read(path)
    now = 0.0
    live = LiveRecording(start, lambda: now, tmp_path / "live.jsonl")
    screen = fold(live.start, [])
    shown: list[tuple[float, View, bytes]] = []
    every = max(9, len(events) // (120 if len(events) < 1000 else 15))
    for number, event in enumerate(events):
        now = event.t
        if isinstance(event, Event) and not isinstance(event, Start | End):
            live.append(event)
        for taken in live.take():
            screen.apply(taken)
        if number % every == 0 and not any(later.t == now for later in events[number + 1 : number + 3]):
            view = VIEWS[len(shown) % len(VIEWS)]
            shown.append((now, view, seen(screen.frame(now, view))))
    now += 1.0  # what is written at the very instant of a frame may come before or after it
    live.close("quit")
    replayed = fold(*read(tmp_path / "live.jsonl"))
    unended = [event for event in events if not isinstance(event, End)]
    folded = fold(start, unended)
    for now_s, view, frame in reversed(shown):
        until = fold(start, unended, now_s) if now_s == shown[-1][0] else folded
        assert frame == seen(replayed.frame(now_s, view)) == seen(until.frame(now_s, view))


def test_asking_again_or_in_any_order_changes_nothing() -> None:
    start, events = read(KINDS[0])
    session = fold(start, events)
    asked = [(t, view) for t in instants(events, 5) for view in VIEWS]
    first = [seen(session.frame(*one)) for one in asked]
    assert [seen(session.frame(*one)) for one in reversed(asked)] == first[::-1]


# what may happen in a session, one step a second or so
STEPS = st.one_of(
    st.sampled_from(["scrape", "work", "work", "finish", "preempt", "throw out", "decode", "decode", "drain"]),
    st.sampled_from(["restart", "outage", "pause", "late", "blind", "sick", "mark", "note", "identity", "gpu"]),
    st.sampled_from(
        ["gpu", "gpu comes", "gpu goes", "engine comes", "engine goes", "lack", "old names", "nan", "junk"]
    ),
    st.sampled_from(["load", "ask", "ask", "answer", "answer", "answer", "pool"]),
)


class OwnLoad:
    """Phases of vtop's own load, one after another: begun, warm, changed, ended; requests sent and answered."""

    def __init__(self) -> None:
        self.number = -1
        self.state: LoadState = "end"
        self.open: list[Request] = []
        self.asked = 0

    def load(self, size: int, server: int) -> Load:
        after: dict[LoadState, LoadState] = {"end": "begin", "begin": "steady", "steady": "change", "change": "end"}
        self.state = after[self.state]
        self.number += self.state == "begin"
        many = {"concurrency": size + 1} if self.number % 3 else {"rate_per_s": 0.5 * (size + 1)}
        return Load(
            phase=self.number,
            state=self.state,
            spec=f"c={size}",
            shape="closed" if self.number % 3 else "open",
            server=server,
            input_tokens=(100, 100 + size // 4),
            output_tokens=(20, 20),
            **many,
        )

    def ask(self, at_s: float) -> Request:
        self.asked += 1
        self.open.append(Request(id=self.asked, phase=self.number, due_s=at_s - 0.1, sent_s=at_s))
        return self.open[-1]

    def answer(self, at_s: float, size: int) -> Request | None:
        if not self.open:
            return None
        asked = self.open.pop(0)
        first_s = min(at_s, (asked.sent_s or 0.0) + 0.1 * size)
        timings = {"queue_time_ms": 20.0 * size, "time_to_first_token_ms": 30.0} if size % 2 else None
        error = "timeout" if size == 0 else None
        return msgspec.structs.replace(
            asked, first_s=first_s, last_s=at_s, end_s=at_s, timings=timings, error=error, output_tokens=20
        )


@st.composite
def stories(draw: st.DrawFn) -> Log:
    count = draw(st.integers(1, 3))
    log = Log(count)
    servers = [Server() for _ in range(count)]
    devices, at_s, own = [device()], 0.0, OwnLoad()
    for server in servers:
        server.pool_tokens = draw(st.sampled_from([None, 1600, 3200]))
    if draw(st.booleans()):
        log.add(own.load(3, 0), 0.0)
    for step, which, size in draw(
        st.lists(st.tuples(STEPS, st.integers(0, 2), st.integers(0, 5)), min_size=5, max_size=40)
    ):
        number = which % count
        server = servers[number]
        engine = server.engine
        at_s = round(at_s + (0.4 if step in ("gpu", "mark", "note", "load", "ask", "answer") else 1.0), 3)
        took_s, health, extra = 0.01, 200, ""
        match step:
            case "work":
                engine.running, engine.waiting, engine.kv = float(size), float(5 - size), size / 10
                engine.count(prompt_tokens=100.0 * size, generation_tokens=10.0 * size, prefix_cache_queries=100.0)
                engine.count(estimated_write_bytes_per_gpu=22528.0 * 110 * size, estimated_flops_per_gpu=1e9 * size)
                for _ in range(size):
                    engine.observe(iteration=12.0, time_to_first=0.05 * size, inter_token=0.02)
            case "finish":
                for _ in range(size):
                    engine.finish(queue=0.2 * size, frontend=0.01 * size)
            case "preempt":
                engine.count(num_preemptions=float(size))
            case "throw out":
                engine.running, engine.waiting = max(0.0, engine.running - 1 - size % 2), engine.waiting + 1 + size % 2
                engine.kv = 0.97 - size / 100
                engine.count(num_preemptions=float(size > 3))
            case "decode":
                engine.count(generation_tokens=7 * engine.running)
                engine.count(estimated_write_bytes_per_gpu=(22528.0 + 8192.0) * 7 * engine.running)
                for _ in range(7):
                    engine.observe(iteration=engine.running)
            case "drain":
                engine.running = engine.waiting = engine.kv = 0.0
            case "restart":
                server.restart(["0", "1"] if size == 5 else ["0"])
            case "outage":
                log.outage(at_s, server=number)
                continue
            case "pause":
                at_s += 4.0 * size
            case "gpu" | "gpu comes" | "gpu goes":
                if step == "gpu comes":
                    devices.append(device(len(devices), serving=size > 3))
                elif step == "gpu goes" and devices:
                    devices.pop(size % len(devices))
                watts, joules = 100.0 * size or None, 200.0 * at_s if size != 4 else None
                words = ("power cap",) if size > 3 else ()
                log.gpu(
                    at_s,
                    *[
                        msgspec.structs.replace(
                            one, power_w=watts, power_limit_w=400.0, energy_j=joules, throttle=words
                        )
                        for one in devices
                    ],
                )
                continue
            case "load":
                log.add(own.load(size, number), at_s)
                continue
            case "ask":
                log.add(own.ask(at_s), at_s)
                continue
            case "answer":
                answered = own.answer(at_s, size)
                if answered is None:
                    continue
                log.add(answered, at_s + 0.001)
                if answered.error is None:
                    engine.finish(queue=0.02 * size, prefill=0.03)
                at_s = round(at_s + 0.3, 3)
            case "pool":
                server.pool_tokens = 1600 * size or None
            case "engine comes":
                server.engines.setdefault(str(size), type(engine)())
            case "engine goes" if len(server.engines) > 1:
                server.engines.popitem()
            case "lack":
                server.without ^= {["vllm:num_preemptions_total", "vllm:kv_cache_usage_perc"][size % 2]}
            case "old names":
                extra = f'vllm:gpu_cache_usage_perc{{engine="0"}} 0.{size}\n'
            case "nan":
                extra = 'vllm:request_success_total{engine="0",finished_reason="abort"} NaN\n'
            case "mark" | "note":
                log.add(Mark(text="here") if step == "mark" else Note(source="gpu", text="NVML is gone"), at_s)
                continue
            case "identity":
                shape = SHAPE if size % 2 else None
                log.add(Identity(server=number, version=f"0.{size}", max_model_len=100 + size, shape=shape), at_s)
                continue
            case "blind":
                log.scrape(at_s, "process_start_time_seconds 5\n", server=number)
                continue
            case "sick":
                health = 503
            case "junk":
                extra = "mssql 7710-3\n"
            case "late":
                took_s = 0.4 * size
        log.scrape(at_s, server.exposition(extra), server=number, took_s=took_s, health=health)
        at_s = round(at_s + took_s, 3)
    log.add(Mark(text="end"), at_s)
    return log


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(stories())
def test_seek_equals_fold_whatever_happened(log: Log) -> None:
    check_seek_equals_fold(log.start, log.events, 6)


def _points(frame: Frame) -> dict[str, dict[int, float | None]]:
    """The columns of each chart by the number of the column since instant 0."""
    charts = frame.charts
    last = round(charts.end_s / charts.column_s)
    names = ["running", "waiting", "kv_used", "generation_per_s", "prompt_per_s", "queue_s", "frontend_s", "power_w"]
    names += ["preempted", "preemptions", "decode_per_step", "sm_mhz"]
    return {
        name: {last - len(points) + 1 + k: point for k, point in enumerate(points)}
        for name in names
        if (points := getattr(charts, name)) is not None
    }


def check_columns_stand_still(log: Log, step_s: float, view: View) -> None:
    session = log.session()
    drawn: dict[tuple[str, int], float | None] = {}
    now_s = 0.0
    while now_s < session.end_s:
        for name, points in _points(session.frame(now_s, view)).items():
            for column, point in points.items():
                if column < 1:
                    continue
                before = drawn.setdefault((name, column), point)
                assert (before is None) == (point is None), (name, column, now_s, before, point)
                assert point is None or point == pytest.approx(before, rel=1e-6, abs=1e-9), (name, column, now_s)
        now_s += step_s


@settings(max_examples=20, deadline=None, derandomize=True)
@given(stories().filter(lambda log: len(log.folders) == 1))
def test_what_was_drawn_once_never_changes(log: Log) -> None:
    check_columns_stand_still(log, 0.7, View(window_s=20.0, columns=13))


@pytest.mark.slow
def test_a_spike_never_moves() -> None:
    start, events = read(KINDS[0])
    log = Log()
    log.start, log.events = start, events
    for view in (View(window_s=100.0, columns=44), View(window_s=60.0, columns=60)):
        check_columns_stand_still(log, 1.37, view)
