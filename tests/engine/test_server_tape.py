"""A recording of a simulated server reads like one of a real server: every number is there, and they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.virtual import FLAGS
from vtop.engine.server.request_parsing import ParsedRequest
from vtop.engine.server.simulated import Settings, SimulatedServer
from vtop.engine.server.virtual_recording import ORIGIN, tape
from vtop.recording import encode
from vtop.recording.events import AnyEvent
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session

OVERLOAD = Settings(replace(FLAGS, num_gpu_blocks=2049), enable_mfu_metrics=True)
ASKED = ParsedRequest((range(2048),), 768, ignore_eos=True)
FOR_S = 40.0


def events() -> list[AnyEvent]:
    recording = tape(OVERLOAD, ASKED, 48, FOR_S)
    recording.close("the time is up")
    return recording.take()


@pytest.fixture(scope="module")
def overload() -> list[AnyEvent]:
    return events()


@pytest.fixture(scope="module")
def frame(overload: Sequence[AnyEvent]) -> Frame:
    recording = tape(OVERLOAD, ASKED, 1, 0.1)
    session = Session(recording.start)
    recording.close("no more than its start was wanted")
    for event in overload:
        session.apply(event)
    return session.frame(FOR_S, View(window_s=FOR_S))


def test_the_same_settings_give_the_same_bytes(overload: Sequence[AnyEvent]) -> None:
    assert [encode(event) for event in events()] == [encode(event) for event in overload]


def test_it_says_everywhere_that_it_is_simulated(frame: Frame) -> None:
    (server,) = frame.servers
    assert frame.origin == ORIGIN == "simulated"
    assert "simulated" in (server.version or "")
    assert "simulated" in server.models[0]


def test_vtop_sees_the_overload_that_it_is(frame: Frame) -> None:
    assert frame.verdict.limit == "kv"
    assert frame.preemption.count.in_window is not None
    assert frame.preemption.count.in_window > 20
    assert frame.kv.pool_tokens == 32_784
    assert frame.requests.running.now is not None
    assert frame.requests.waiting.now is not None
    assert frame.requests.running.now + frame.requests.waiting.now == 48


def test_executed_tokens_from_the_write_bytes_are_those_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """vtop's account of recomputed tokens, held against an engine that knows what it executed."""
    made: list[SimulatedServer] = []

    class Known(SimulatedServer):
        def __init__(self, *settings: Any) -> None:
            super().__init__(*settings)
            made.append(self)

    monkeypatch.setattr("vtop.engine.server.virtual_recording.SimulatedServer", Known)
    recording = tape(OVERLOAD, ASKED, 48, 12.0)
    recording.close("the time is up")
    session = Session(recording.start)
    for event in recording.take():
        session.apply(event)
    found = session.frame(12.0, View(window_s=12.0)).recompute
    engine = made[0].engine
    assert engine.scheduler.preemptions > 0
    assert found.executed_tokens == pytest.approx(engine.scheduler.executed_tokens, abs=2 * 48)  # steps in flight
    assert found.since_start is not None
    assert found.since_start > 0


def test_client_and_server_say_the_same(frame: Frame) -> None:
    load, ttft = frame.load, frame.ttft
    assert load is not None
    assert (load.failed, load.in_flight) == (0, 48)
    assert load.done == ttft.finished > 50
    assert load.ttft.mean_s is not None
    assert ttft.total_s is not None
    assert 0.0 < load.ttft.mean_s - ttft.total_s < 0.1  # what a client sees before the server's clock begins


def test_the_parts_of_ttft_add_up(frame: Frame) -> None:
    parts = (frame.ttft.queue_s, frame.ttft.prefill_s, frame.ttft.frontend_s)
    known = [part for part in parts if part is not None]
    assert len(known) == 3
    assert sum(known) == pytest.approx(frame.ttft.total_s)
