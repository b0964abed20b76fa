"""A cut shows the same numbers as the recording it was cut out of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session.fleets import Replica, events, start
from tests.session.made import RECORDINGS, Log, Server, device, fold, read
from vtop.recording import (
    AnyEvent,
    End,
    Gpu,
    Host,
    Identity,
    Load,
    LoadHost,
    Mark,
    Note,
    Outage,
    Request,
    Scrape,
    Start,
    TargetChange,
    Unknown,
    decode,
    encode,
)
from vtop.recording.check import RecordingCheck
from vtop.recording.cut import cut
from vtop.recording.vocabulary import LoadState
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session

Recorded = tuple[Start, list[AnyEvent]]


def cut_of(recorded: Recorded, from_s: float, to_s: float) -> Recorded:
    """The cut, through its lines."""
    start, events = recorded
    lines = [decode(encode(event)) for event in cut(start, events, from_s, to_s, "cut")]
    assert isinstance(lines[0], Start)
    return lines[0], lines


# --- the same numbers ---------------------------------------------------------------------------------------------


@cache
def shipped(name: str) -> Recorded:
    (path,) = [path for path in RECORDINGS if path.name.partition(".")[0] == name]
    return read(path)


@cache
def troubled() -> Recorded:
    """Two servers: one restarts, one is gone for a while, series come and go, GPUs and identities change."""
    log = Log(servers=2)
    one, two = Server(("0", "1")), Server(model="n")
    for second in range(60):
        at_s = float(second)
        one.engine.running, one.engine.waiting, one.engine.kv = 3.0 + second % 5, second % 3, (second % 7) / 10
        one.engine.count(prompt_tokens=100 + second, generation_tokens=7, prefix_cache_queries=50, prefix_cache_hits=20)
        one.engine.observe(time_to_first=0.05 * (second % 4), inter_token=0.02)
        one.engine.finish(queue=0.4 * (second % 3), prefill=0.2)
        two.engine.running = second % 2
        two.engine.count(generation_tokens=second, num_preemptions=second % 2)
        two.engine.finish(decode=2.0)
        if second == 20:
            one.restart(("0", "1"))
        if second == 33:
            one.without = {"vllm:num_preemptions_total"}
        if second == 40:
            one.without = set()
        if second % 10 == 0:
            log.add(Identity(server=0, version=f"0.{second}", models=("m",), max_model_len=1000 + second), at_s)
        log.gpu(at_s + 0.2, device(power_w=400.0 + second), device(1, power_w=None if second % 9 == 0 else 80.0))
        log.scrape(at_s + 0.25, one, took_s=0.01 * (second % 4))
        if 26 <= second < 34:
            log.outage(at_s + 0.5, server=1, detail="connection refused")
        else:
            log.scrape(at_s + 0.5, two, server=1, health=200 if second % 11 else 503)
    return log.start, log.events


@cache
def folded(make: Callable[[], Recorded]) -> Session:
    return fold(*make())


def whole() -> Recorded:
    return shipped("overload_loaded")


def plain() -> Recorded:
    return shipped("sweep_c64")


def numbers(frame: Frame) -> dict[str, Any]:
    """What a cut must show alike: gauges, what grew in the window, the requests; not what is counted since the
    session began, and no chart, whose columns stand at whole multiples of session time."""
    counts = {
        "prompt": frame.prompt_tokens,
        "generation": frame.generation_tokens,
        "finished": frame.requests.finished,
        "rejected": frame.requests.rejected,
        "preemptions": frame.preemption.count,
    }
    servers = [
        (one.url, one.models, one.version, one.max_model_len, one.uptime_s, one.age_s, one.took_s, one.scrape_bytes)
        for one in frame.servers
    ]
    return {
        "unix_s": frame.unix_s,
        "window_s": frame.window_s,
        "servers": servers,
        "tries": [(one.tries, one.engines, one.bad_lines) for one in frame.servers],
        "status": [one.status.kind for one in frame.servers],
        "engines": frame.engines,
        "running": frame.requests.running,
        "waiting": frame.requests.waiting,
        "waiting_by_reason": frame.requests.waiting_by_reason,
        "finished_by_reason": frame.requests.finished_by_reason,
        "counts": {name: (count.in_window, count.per_s) for name, count in counts.items()},
        "kv": frame.kv,
        "iteration": frame.iteration,
        "ttft": frame.ttft,
        "latencies": frame.latencies,
        "prefix": (frame.prefix_cache.hit_ratio, frame.prefix_cache.hit_tokens, frame.prefix_cache.asked_tokens),
        "gpus": frame.gpus,
        "in_flight": frame.load is not None and (frame.load.in_flight, frame.load.answering),
    }


BEFORE_THE_FIRST_SCRAPE = ("unix_s", "servers", "tries", "engines", "waiting_by_reason", "in_flight")


def alike(one: Any, other: Any) -> bool:
    """Equal but for the last digits of a difference."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-6, abs=1e-6)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def window_inside(session: Session, now_s: float, from_s: float) -> float:
    """The longest window at an instant that does not reach beyond the beginning of the cut."""
    scrapes = max(server.at_s[server.visible(now_s) - 1] for server in session.servers if server.visible(now_s))
    readings = session.gpus.visible(now_s)
    latest = min(scrapes, session.gpus.at_s[readings - 1]) if readings else scrapes
    return max(0.001, latest - from_s - 1e-6)


@settings(max_examples=15)
@given(
    make=st.sampled_from([troubled, whole, plain]),
    begin=st.floats(0.05, 0.9),
    length=st.floats(0.05, 1.0),
    places=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=4),
)
def test_every_frame_of_a_cut_is_the_frame_of_the_whole(
    make: Callable[[], Recorded], begin: float, length: float, places: Sequence[float]
) -> None:
    whole_session = folded(make)
    from_s = round(begin * whole_session.end_s, 3)
    to_s = round(from_s + length * (whole_session.end_s - from_s), 3)
    start, events = cut_of(make(), from_s, to_s)
    session = fold(start, events)
    for place in places:
        now_s = round(place * (to_s - from_s), 3) + 0.0002  # not on a line
        if now_s + from_s >= to_s:
            continue
        view = View(window_s=window_inside(whole_session, from_s + now_s, from_s))
        frame, whole_frame = session.frame(now_s, view), whole_session.frame(from_s + now_s, view)
        shown, expected = msgspec.to_builtins(numbers(frame)), msgspec.to_builtins(numbers(whole_frame))
        if whole_frame.load is not None and frame.load is None:
            shown["in_flight"] = expected["in_flight"]  # the phase had ended before the cut
        if not all(server.visible(now_s) > 1 or server.outages_by(now_s) for server in session.servers):
            expected = {name: expected[name] for name in BEFORE_THE_FIRST_SCRAPE}  # a window begins with a scrape
        for name, value in expected.items():
            assert alike(shown[name], value), (name, from_s, to_s, now_s)


def test_a_phase_that_begins_in_the_cut_has_all_its_numbers() -> None:
    start, events = cut_of(shipped("sweep"), 240.0, 330.0)
    found, expected = fold(start, events).frame(72.0).load, fold(*shipped("sweep")).frame(312.0).load
    assert found is not None
    assert expected is not None
    assert found.phase == expected.phase == 3
    shown, wanted = msgspec.to_builtins(found), msgspec.to_builtins(expected)
    assert shown.pop("begin_s") == pytest.approx(wanted.pop("begin_s") - 240.0)
    assert (shown.pop("phases"), wanted.pop("phases")) == (3, 4)  # begun so far
    for name, value in wanted.items():
        assert alike(shown[name], value), name


# --- its lines ----------------------------------------------------------------------------------------------------


def test_a_cut_begins_with_a_whole_scrape_of_each_server_and_is_closed() -> None:
    start, events = cut_of(troubled(), 30.1, 45.0)
    assert (start.unix_s, start.t) == (10_030.1, 0.0)
    for server in (0, 1):
        first = next(event for event in events if isinstance(event, Scrape) and event.server == server)
        assert first.full
        assert first.le
        assert first.t == 0.0
        assert first.at_s < 0
    assert events[-1] == End(t=14.9, reason="cut")
    assert [event.t for event in events] == sorted(event.t for event in events)


def test_a_cut_of_a_cut_is_a_cut() -> None:
    once = cut_of(troubled(), 10.0, 50.0)
    twice = cut_of((once[0], once[1]), 5.0, 20.0)
    straight = cut_of(troubled(), 15.0, 30.0)
    shown, expected = (fold(*one).frame(12.0, View(window_s=10.0)) for one in (twice, straight))
    assert alike(msgspec.to_builtins(numbers(shown)), msgspec.to_builtins(numbers(expected)))


def test_a_cut_from_the_beginning_to_the_end_is_the_recording() -> None:
    start, events = shipped("sweep_c64")
    _, lines = cut_of((start, events), 0.0, float("inf"))
    assert lines[0] == start
    assert lines[2:] == [event for event in events if not isinstance(event, Start)]


def log_of(*events: Any) -> Recorded:
    log = Log()
    for event in events:
        log.add(event, event.t)
    return log.start, log.events


def test_events_of_an_unknown_type_in_the_stretch_stay_and_move() -> None:
    start, events = log_of(Mark(t=1.0, text="before"), Mark(t=6.0, text="in"), Mark(t=9.0, text="after"))
    events += [decode(b'{"type":"later","t":9.0,"x":1}')]
    events.sort(key=lambda event: event.t)
    _, lines = cut_of((start, events), 5.0, 9.0)
    assert [line.text for line in lines if isinstance(line, Mark)] == ["in", "after"]
    (unknown,) = [line for line in lines if isinstance(line, Unknown)]
    assert msgspec.json.decode(unknown.line) == {"type": "later", "t": 4.0, "x": 1}


def phase(number: int, t: float, state: LoadState) -> Load:
    return Load(t=t, phase=number, state=state, spec=f"c={number + 1}", shape="closed", concurrency=number + 1)


def request(number: int, t: float, *, phase: int = 1, **stamps: float) -> Request:
    return Request(t=t, id=number, phase=phase, **stamps)  # type: ignore[arg-type]


def test_requests_across_the_edges_keep_their_lines_and_those_of_before_are_gone() -> None:
    recorded = log_of(
        phase(0, 0.0, "begin"),
        request(0, 0.1, phase=0, sent_s=0.1),
        request(0, 0.9, phase=0, sent_s=0.1, first_s=0.5, last_s=0.9, end_s=0.9),
        phase(0, 1.0, "end"),
        phase(1, 2.0, "begin"),
        phase(1, 2.5, "steady"),
        request(1, 3.0, sent_s=3.0),
        request(1, 4.0, sent_s=3.0, first_s=3.9, last_s=4.0, end_s=4.0),
        request(2, 4.5, sent_s=4.5),
        request(2, 4.8, sent_s=4.5, first_s=4.7),
        request(2, 6.0, sent_s=4.5, first_s=4.7, last_s=6.0, end_s=6.0),
        request(3, 6.5, sent_s=6.5),
        request(3, 9.0, sent_s=6.5, first_s=6.6, last_s=9.0, end_s=9.0),
        phase(1, 9.5, "end"),
    )
    start, lines = cut_of(recorded, 5.0, 8.0)
    loads = [line for line in lines if isinstance(line, Load)]
    assert [(line.phase, line.state, line.t) for line in loads] == [(1, "begin", 0.0), (1, "steady", 0.0)]
    requests = [line for line in lines if isinstance(line, Request)]
    assert [(line.id, line.t, line.sent_s, line.first_s, line.end_s) for line in requests] == [
        (2, 0.0, -0.5, None, None),
        (2, 0.0, -0.5, -0.3, None),
        (2, 1.0, -0.5, -0.3, 1.0),
        (3, 1.5, 1.5, None, None),
    ]
    part = fold(start, lines).frame(2.9).load
    assert part is not None
    assert (part.in_flight, part.done, part.answering) == (1, 1, 0)


def test_what_the_machine_said_last_is_known_at_the_beginning() -> None:
    recorded = log_of(
        Host(t=1.0, at_s=1.0, cpu_ratio=0.5),
        Host(t=1.5, at_s=1.5, load_cpu_ratio=0.25),
        Gpu(t=2.0, at_s=2.0, took_s=0.0, gpus=(device(),)),
        Note(t=2.5, source="gpu", text="NVML hangs"),
        Note(t=2.6, source="server", text="of before"),
        Mark(t=6.0, text="in"),
    )
    _, lines = cut_of(recorded, 5.0, 7.0)
    assert {line.at_s for line in lines if isinstance(line, Host | Gpu)} == {-4.0, -3.5, -3.0}
    assert [line.text for line in lines if isinstance(line, Note)] == ["cut", "NVML hangs"]


def test_the_hosts_of_a_load_that_runs_are_known_at_the_beginning_and_those_of_one_before_are_not() -> None:
    def sender(t: float, number: int, *, after: bool = False) -> LoadHost:
        known: dict[str, Any] = {"host": 0, "name": "gpu7", "workers": (0, 1), "rtt_s": 0.001}
        return LoadHost(t=t, at_s=t, offset_s=t, phase=number, after=after, **known)

    recorded = log_of(
        sender(0.5, 0), phase(0, 1.0, "begin"), phase(0, 2.0, "end"), sender(2.1, 0, after=True),
        sender(2.5, 1), phase(1, 3.0, "begin"), phase(1, 9.0, "end"), sender(9.1, 1, after=True),
    )  # fmt: skip
    found = [line for line in cut_of(recorded, 5.0, 10.0)[1] if isinstance(line, LoadHost)]
    assert [(line.phase, line.after, line.at_s, line.offset_s) for line in found] == [
        (1, False, -2.5, 2.5), (1, True, 4.1, 9.1),
    ]  # fmt: skip


def test_only_the_attempts_that_failed_since_the_latest_scrape_are_known() -> None:
    log = Log()
    log.outage(1.0)
    log.scrape(2.0, Server())
    log.outage(3.0)
    log.outage(4.0)
    log.add(Mark(), 9.0)
    _, lines = cut_of((log.start, log.events), 5.0, 9.0)
    assert [(line.t, line.at_s) for line in lines if isinstance(line, Outage)] == [(1e-6, -2.0), (1e-6, -1.0)]


def test_a_stretch_without_a_line_still_has_what_was_known() -> None:
    recorded = log_of(Gpu(t=2.0, at_s=2.0, took_s=0.0, gpus=(device(),)), Mark(t=9.0))
    _, lines = cut_of(recorded, 4.0, 6.0)
    assert [type(line) for line in lines] == [Start, Note, Gpu, End]
    assert lines[-1].t == 2.0


def test_a_scrape_that_was_never_whole_does_not_pretend_to_be() -> None:
    part = Scrape(t=1.0, server=0, at_s=1.0, took_s=0.0, bytes=1, values={"vllm:num_requests_running": 1.0})
    _, lines = cut_of(log_of(part, Mark(t=6.0)), 5.0, 7.0)
    (scrape,) = [line for line in lines if isinstance(line, Scrape)]
    assert not scrape.full


def test_a_server_that_came_later_is_still_watched_in_a_cut_after_that() -> None:
    fleet = [Replica(), Replica(), Replica(waiting=5.0)]
    begin, lines = start(fleet[:2]), events(fleet, 30)
    there = TargetChange(t=10.0, server=2, target=start(fleet).servers[2])
    told: list[AnyEvent] = sorted([*lines, there], key=lambda event: event.t)
    cut_begin, cut_lines = cut_of((begin, told), 15.0, 25.0)
    frame = fold(cut_begin, cut_lines).frame(9.0, View(window_s=5.0))
    assert [server.url for server in frame.servers] == ["http://r0:8000", "http://r1:8000", "http://r2:8000"]
    assert frame.requests.waiting.now == 5.0


def test_check_counts_the_scrapes_of_a_server_that_came_later() -> None:
    fleet = [Replica(), Replica()]
    check = RecordingCheck(start(fleet[:1]))
    check.take(TargetChange(t=0.0, server=1, target=start(fleet).servers[1]))
    for event in events(fleet, 5):
        check.take(event)
    found = check.contents()
    assert [server.scrapes for server in found.servers] == [5, 5]
    assert not any("no line before it names" in problem for problem in found.problems)
