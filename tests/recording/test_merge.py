"""Several recordings as one session: each server keeps its numbers, and what makes no session is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest

from tests.session.made import Log, Server, device, fold
from vtop.errors import VtopError
from vtop.metrics.quantity import Quantity
from vtop.recording import (
    AnyEvent,
    End,
    Gpu,
    Identity,
    Load,
    LoadHost,
    Mark,
    Note,
    Outage,
    Request,
    Scrape,
    Start,
    Target,
    decode,
    encode,
)
from vtop.recording.cut import cut
from vtop.recording.merge import Extent, MergePlan, merged, plan
from vtop.session.frame.frame import View
from vtop.session.session import Session


class Made(Log):
    """A recording of one server, begun at a wall clock."""

    def __init__(self, url: str, unix_s: float, *, name: str = "", end: str | None = "quit") -> None:
        super().__init__()
        self.name = name or url.rpartition("/")[2]
        self.start = msgspec.structs.replace(self.start, unix_s=unix_s, servers=(Target(url=url),))
        self.server = Server()
        self.server.started_s = 500.0
        self.end = end

    def watch(self, seconds: int, *, tokens: int = 10) -> Made:
        for second in range(seconds):
            self.server.engine.running = 1.0 + second % 3
            self.server.engine.count(generation_tokens=tokens)
            self.scrape(second + 0.5, self.server)
        return self

    def closed(self) -> list[AnyEvent]:
        last_t = self.events[-1].t if self.events else 0.0
        ending: list[AnyEvent] = [End(t=last_t, reason=self.end)] if self.end is not None else []
        return [*self.events, *ending]


def planned(*recordings: Made) -> tuple[MergePlan, list[list[AnyEvent]]]:
    extents = []
    for one in recordings:
        extent = Extent(one.name, one.start)
        for event in one.closed():
            extent.take(event)
        extents.append(extent)
    made = plan(extents)
    return made, [next(one.closed() for one in recordings if one.name == part.extent.name) for part in made.parts]


def merge(*recordings: Made) -> list[AnyEvent]:
    """The lines of the merged recording, as a reader decodes them."""
    made, streams = planned(*recordings)
    return [decode(encode(event)) for event in merged(made, streams)]


def session_of(lines: Sequence[AnyEvent]) -> Session:
    start = lines[0]
    assert isinstance(start, Start)
    return fold(start, lines)


# --- side by side -------------------------------------------------------------------------------------------------


def test_servers_of_the_same_time_stand_side_by_side() -> None:
    one, two = Made("http://a:8000", 1000.0).watch(10), Made("http://b:8000", 1003.0).watch(10, tokens=7)
    lines = merge(two, one)  # in whatever order they are named
    session = session_of(lines)
    assert [server.target.url for server in session.servers] == ["http://a:8000", "http://b:8000"]
    assert session.start.unix_s == 1000.0
    at_s = 9.0
    frame, own = session.frame(at_s, View(window_s=5.0)), one.session().frame(at_s, View(window_s=5.0))
    other = two.session().frame(at_s - 3.0, View(window_s=5.0))
    assert own.generation_tokens.per_s == pytest.approx(10.0)
    assert frame.generation_tokens.per_s == pytest.approx(17.0)
    assert frame.requests.running.now == (own.requests.running.now or 0) + (other.requests.running.now or 0)


def test_the_merged_lines_are_in_order_and_say_how_they_were_merged() -> None:
    lines = merge(Made("http://a:8000", 1000.0).watch(4), Made("http://b:8000", 1000.2, end=None).watch(4))
    assert [line.t for line in lines] == sorted(line.t for line in lines)
    assert [line.text for line in lines if isinstance(line, Note)] == [
        "merged: 2 servers side by side: http://a:8000 from a:8000; http://b:8000 from b:8000",
        "end of a:8000: quit",
        "end of b:8000: broken off",
    ]
    assert [line for line in lines if isinstance(line, End)] == [lines[-1]]


def test_two_hosts_that_both_say_localhost_are_two_servers() -> None:
    one = Made("http://localhost:8000", 1000.0, name="a").watch(5)
    two = Made("http://localhost:8000", 1001.0, name="b")
    two.server.started_s = 777.0
    session = session_of(merge(one, two.watch(5)))
    assert [server.target.url for server in session.servers] == ["http://localhost:8000", "http://localhost:8000#2"]


def test_what_is_about_a_server_is_about_the_same_server_afterwards() -> None:
    one, two = Made("http://a:8000", 1000.0).watch(3), Made("http://b:8000", 1000.5).watch(3)
    two.add(Identity(server=0, version="0.26.0"), 3.0)
    two.add(Outage(server=0, at_s=3.1, took_s=0.0, reason="refused"), 3.1)
    two.add(Note(source="server", text="series vanished", server=0), 3.2)
    two.add(Mark(text="here"), 3.3)
    lines = merge(one, two)
    moved = [line for line in lines if isinstance(line, Identity | Outage) or getattr(line, "server", None) == 1]
    assert {type(line) for line in moved} == {Identity, Outage, Scrape, Note}
    assert all(line.server == 1 for line in moved if not isinstance(line, Mark))  # type: ignore[union-attr]
    (outage,) = [line for line in lines if isinstance(line, Outage)]
    assert (outage.t, outage.at_s) == (3.6, 3.6)
    assert any(isinstance(line, Mark) and line.t == 3.8 for line in lines)


def test_phases_of_load_keep_apart() -> None:
    def loaded(url: str, unix_s: float) -> Made:
        made = Made(url, unix_s).watch(4)
        made.add(LoadHost(host=0, name="gpu7", at_s=4.0, workers=(0,), offset_s=1.0, rtt_s=0.001, phase=0), 4.0)
        begin = Load(phase=0, state="begin", spec="c=1", shape="closed", concurrency=1)
        made.add(begin, 4.0)
        made.add(Request(id=0, phase=0, sent_s=4.1), 4.1)
        made.add(Request(id=0, phase=-1, end_s=4.2), 4.2)
        made.add(msgspec.structs.replace(begin, state="end"), 5.0)
        return made

    lines = merge(loaded("http://a:1", 1000.0), loaded("http://b:1", 1000.5))
    loads = [line for line in lines if isinstance(line, Load)]
    assert [(line.phase, line.server, line.state) for line in loads] == [
        (0, 0, "begin"), (1, 1, "begin"), (0, 0, "end"), (1, 1, "end"),
    ]  # fmt: skip
    assert [line.phase for line in lines if isinstance(line, Request)] == [0, -1, 1, -1]
    assert [line.phase for line in lines if isinstance(line, LoadHost)] == [0, 1]


# --- GPUs --------------------------------------------------------------------------------------------------------


def test_the_devices_of_two_hosts_are_all_there_in_every_line() -> None:
    one, two = Made("http://a:1", 1000.0), Made("http://b:1", 1000.4)
    for second in range(4):
        one.gpu(second + 0.1, device(0, power_w=100.0))
        two.gpu(second + 0.1, msgspec.structs.replace(device(0, power_w=300.0), uuid="other"))
    session = session_of(merge(one.watch(1), two.watch(1)))
    gpus = session.frame(3.0).gpus
    assert [(gpu.index, gpu.uuid, gpu.power.now) for gpu in gpus.devices] == [(0, "GPU-0", 100.0), (1, "other", 300.0)]
    assert gpus.power_w == 400.0


def test_the_same_devices_seen_twice_are_recorded_once() -> None:
    one, two = Made("http://a:1", 1000.0), Made("http://b:1", 1000.4)
    for second in range(4):
        one.gpu(second + 0.1, device(0, power_w=100.0))
        two.gpu(second + 0.1, device(0, power_w=100.0))
    one.add(Mark(), 9.0)  # it goes on
    lines = merge(one.watch(1), two.watch(1))
    assert len([line for line in lines if isinstance(line, Gpu)]) == 4


def test_a_device_of_a_recording_that_has_ended_is_gone() -> None:
    one, two = Made("http://a:1", 1000.0), Made("http://b:1", 1000.4)
    one.gpu(0.1, device(0))
    for second in range(9):
        two.gpu(second + 0.1, msgspec.structs.replace(device(0), uuid="other"))
    session = session_of(merge(one.watch(1), two.watch(1)))
    assert [gpu.uuid for gpu in session.frame(8.0).gpus.devices] == ["other"]


# --- one after another --------------------------------------------------------------------------------------------


def test_recordings_of_one_server_follow_each_other_with_a_gap() -> None:
    one, two = Made("http://a:8000", 1000.0, name="one").watch(10), Made("http://a:8000", 1040.0, name="two")
    two.server = one.server
    two.folders[0].forget()
    made, streams = planned(one, two.watch(10))
    assert made.words == "one server: http://a:8000 from one then two (not recorded in between: 30.5 s)"
    session = session_of([decode(encode(event)) for event in merged(made, streams)])
    (server,) = session.servers
    assert server.gaps == [(9.5, 40.5)]
    assert not server.restarts
    generated = server.total(Quantity.GENERATION_TOKENS)
    assert generated is not None
    assert generated.grown(0, len(server.t) - 1) == 190


def test_a_server_that_restarted_in_between_restarted() -> None:
    one, two = Made("http://a:8000", 1000.0, name="one").watch(10), Made("http://a:8000", 1040.0, name="two")
    two.server.started_s = 1030.0
    session = session_of(merge(one, two.watch(10)))
    assert session.servers[0].restarts == [10]


def test_a_chain_beside_another_server_is_both() -> None:
    one, two = Made("http://a:1", 1000.0, name="one").watch(5), Made("http://a:1", 1010.0, name="two").watch(5)
    beside = Made("http://b:1", 1002.0, name="beside").watch(12)
    made, _ = planned(two, beside, one)
    assert [part.servers for part in made.parts] == [(0,), (1,), (0,)]
    assert made.words.startswith("2 servers side by side: http://a:1 from one then two")


# --- what makes no sense ------------------------------------------------------------------------------------------


def test_one_server_twice_at_the_same_time_is_refused() -> None:
    one, two = Made("http://a:8000", 1000.0, name="one").watch(9), Made("http://a:8000", 1003.0, name="two").watch(9)
    with pytest.raises(VtopError, match="two and one watch http://a:8000 at the same time"):
        planned(one, two)


def test_other_servers_at_other_times_are_refused() -> None:
    one, two = Made("http://a:1", 1000.0, name="one").watch(9), Made("http://b:1", 9000.0, name="two").watch(9)
    with pytest.raises(VtopError, match="two and one have neither a server nor a moment in common"):
        planned(one, two)


def test_one_recording_is_nothing_to_merge() -> None:
    with pytest.raises(VtopError, match="two recordings or more"):
        planned(Made("http://a:1", 1000.0))


def test_what_touches_comes_after_and_a_scrape_is_not_there_twice() -> None:
    whole = Made("http://a:8000", 1000.0, name="whole").watch(20)
    halves = []
    for name, from_s, to_s in (("one", 0.0, 9.7), ("two", 9.7, math.inf)):
        start, *lines = cut(whole.start, whole.closed(), from_s, to_s, "cut")
        assert isinstance(start, Start)
        half = Made("http://a:8000", start.unix_s, name=name, end=None)
        half.events = lines
        halves.append(half)
    lines = merge(*halves)
    assert [line.at_s for line in lines if isinstance(line, Scrape)] == [second + 0.5 for second in range(20)]
    shown, expected = (fold(whole.start, one).frame(20.0, View(window_s=15.0)) for one in (lines, whole.events))
    assert msgspec.to_builtins(shown.generation_tokens) == msgspec.to_builtins(expected.generation_tokens)
