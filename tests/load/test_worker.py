"""One phase in one worker, with a server that answers when the test says so: who is in flight when, and all ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count, pairwise
from typing import Any, cast

import pytest

from tests.load.faults import DONE, inband, token, usage
from vtop.load.http.client import Client
from vtop.load.http.deferred import AT_ONCE
from vtop.load.http.exchange import Exchange
from vtop.load.workers import phase_runner as module
from vtop.load.workers.line_writer import LineWriter
from vtop.load.workers.phase_runner import Running
from vtop.load.workers.protocol import Aim, News, Steady
from vtop.load.workload.prompts import LENGTH, Prompts
from vtop.load.workload.spec import phases
from vtop.recording.events import Request
from vtop.recording.vocabulary import ErrorClass

clock = time.monotonic


async def moment() -> None:
    """Until anything has happened, or a millisecond: for asking again whether a condition holds."""
    await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=0.001)


class Far:
    """The other side: a client whose requests end by `answer`."""

    def __init__(self) -> None:
        self.flying: list[tuple[Exchange, asyncio.Future[str | None]]] = []
        self.most = 0
        self.at_once: ErrorClass | None = None  # requests end by themselves, with this failure

    def lay(self, path: str, payload: bytes) -> bytes:
        return payload

    async def warm(self, connections: int) -> str | None:
        self.warmed = connections
        return None

    async def run(self, exchange: Exchange) -> None:
        if self.at_once is not None:
            exchange.finish(clock(), clock(), self.at_once)
            return
        exchange.sent_s = clock()
        if exchange.seen is not None:
            exchange.seen(exchange)
        one = exchange, asyncio.get_running_loop().create_future()
        self.flying.append(one)
        self.most = max(self.most, len(self.flying))
        broke = await one[1]
        self.flying.remove(one)
        if broke == "inband_error":  # in the midst of an answer, as a parser does
            exchange.begin(clock(), 200, b"text/event-stream")
            exchange.take(token() + inband("unexpected token"), clock())
            broke = None
        elif broke is None:
            exchange.begin(clock(), 200, b"text/event-stream")
            exchange.take(token(finish="length") + usage(1) + DONE, clock())
        exchange.finish(clock(), clock(), broke)

    def answer(self, count: int = 1, broke: str | None = None) -> None:
        for _, future in self.flying[:count]:
            if not future.done():
                future.set_result(broke)

    def abort(self) -> None:
        self.answer(len(self.flying), "cancelled_at_end")


class Told:
    def __init__(self) -> None:
        self.lines: list[Request] = []
        self.said: list[News] = []

    def event(self, event: Request) -> None:
        self.lines.append(event)

    def news(self, news: News) -> None:
        self.said.append(news)

    @property
    def requests(self) -> dict[int, Request]:
        return {line.id: line for line in self.lines}


class Phase:
    def __init__(self, spec: str, worker: int = 0) -> None:
        (phase,) = phases((f"{spec} in=4 out=1",))
        self.far, self.told = Far(), Told()
        prompts = Prompts(phase, model="tiny", entropy="e", vocabulary=range(300, 400))
        self.running = Running(
            phase,
            0,
            prompts,
            worker,
            phase.pool,
            client=cast(Client, self.far),
            path="/v1/completions",
            clock=clock,
            writer=cast(LineWriter, self.told),
            refused=lambda field, why: frozenset((field,)) if why is None else LENGTH,
        )

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(5.0):
            while not condition():
                await moment()

    async def answering(self, going: asyncio.Task[tuple[str, int]]) -> tuple[str, int]:
        """Answer all that comes until the phase has ended."""
        async with asyncio.timeout(10.0):
            while not going.done():
                self.far.answer(len(self.far.flying))
                await moment()
        return await going


@asynccontextmanager
async def begun(spec: str, worker: int = 0) -> AsyncIterator[tuple[Phase, asyncio.Task[tuple[str, int]]]]:
    phase = Phase(spec, worker)
    await phase.running.prepare()
    going = asyncio.create_task(phase.running.go(clock()))
    yield phase, going
    if not going.done():
        phase.running.stop("the test is over")
        phase.far.abort()
        async with asyncio.timeout(5.0):
            await going
    assert all(request.end_s is not None for request in phase.told.requests.values())


# --- closed loop -----------------------------------------------------------------------------------------------------


async def test_as_many_in_flight_as_wanted_and_the_next_when_one_is_answered() -> None:
    async with begun("c=3 n=5") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 3)
        phase.far.answer()
        await phase.until(lambda: 3 in phase.told.requests)
        assert len(phase.far.flying) == 3
        assert await phase.answering(going) == ("done", 0)
        assert sorted(phase.told.requests) == [0, 1, 2, 3, 4]


async def test_many_are_sent_a_few_at_a_time_so_that_answers_are_read_between() -> None:
    number = 5 * AT_ONCE
    async with begun(f"c={number} n={number}") as (phase, _):
        flying: list[int] = [0]
        async with asyncio.timeout(5.0):
            while len(phase.far.flying) < number:
                await asyncio.sleep(0)
                flying.append(len(phase.far.flying))
        assert max(b - a for a, b in pairwise(flying)) == AT_ONCE


async def test_raised_at_once_and_lowered_as_answers_come_no_request_lost() -> None:
    async with begun("c=2 n=40") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 2)
        phase.running.aim(Aim(0.0, concurrency=6))
        await phase.until(lambda: len(phase.far.flying) == 6)
        phase.running.aim(Aim(0.0, concurrency=1))
        phase.far.answer(5)
        await phase.until(lambda: len(phase.far.flying) == 1)
        before = len(phase.told.requests)
        phase.far.answer()
        await phase.until(lambda: len(phase.told.requests) == before + 1)
        assert len(phase.far.flying) == 1
        assert await phase.answering(going) == ("done", 0)
        assert sorted(phase.told.requests) == list(range(40))


async def test_nothing_spins_once_the_last_request_has_left() -> None:
    async with begun("c=4 n=4") as (phase, _):
        await phase.until(lambda: len(phase.far.flying) == 4)
        phase.far.answer(3)
        await phase.until(lambda: len(phase.far.flying) == 1)
        used_s, at_s = time.process_time(), clock()
        await phase.until(lambda: clock() > at_s + 0.2)
        assert time.process_time() - used_s < 0.1


async def test_a_time_ends_it_and_what_is_under_way_is_awaited() -> None:
    async with begun("c=2 for=1s") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 2)
        phase.running.until(clock())
        phase.far.answer()
        await phase.until(lambda: len(phase.far.flying) == 1)
        assert not going.done()
        phase.far.answer()
        assert await going == ("done", 0)
        assert len(phase.told.requests) == 2


async def test_what_has_no_answer_by_then_is_counted_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_S", 0.05)
    async with begun("c=3 n=3") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 3)
        phase.far.answer()
        reason, unfinished = await asyncio.wait_for(going, 5.0)
        assert (unfinished, reason[:12]) == (2, "2 unfinished")
        errors = [request.error for request in phase.told.requests.values()]
        assert sorted(map(str, errors)) == ["None", "cancelled_at_end", "cancelled_at_end"]


async def test_as_long_as_answers_come_they_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An H200 with more than it can hold needs longer than a minute for the last of its answers."""
    monkeypatch.setattr(module, "DRAIN_S", 0.01)
    async with begun("c=2 n=2") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 2)
        looks = count()

        def signs() -> tuple[int, int, int]:
            if (look := next(looks)) == 9:  # several silences later
                phase.far.answer()
            return 0, 1, look

        monkeypatch.setattr(phase.running, "_signs", signs)
        phase.far.answer()
        assert await asyncio.wait_for(going, 5.0) == ("done", 0)


async def test_the_warm_up_is_counted_by_each_worker_for_its_own_requests() -> None:
    for worker in (0, 1):  # of three slots one has two
        async with begun("c=3 n=4 warmup=5 workers=2", worker) as (phase, going):
            assert await phase.answering(going) == ("done", 0)
            assert phase.told.said == [Steady(0)]
            assert any(request.warmup for request in phase.told.requests.values())


async def test_a_server_that_is_gone_ends_the_phase_and_is_not_hammered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILING_S", 0.3)
    monkeypatch.setattr(module, "PAUSE_S", 0.02)
    async with begun("c=2 for=60s") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 2)
        phase.far.at_once = "connect"
        phase.far.answer(2, "reset")
        reason, unfinished = await asyncio.wait_for(going, 5.0)
        assert reason == "every request of the last 0 s failed, connect"
        assert unfinished == 0
        assert 10 <= len(phase.told.requests) < 100


async def test_failures_while_another_is_being_answered_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILING_S", 0.0)
    async with begun("c=2 n=30") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 2)
        streaming, _ = phase.far.flying[0]
        streaming.begin(clock(), 200, b"text/event-stream")
        streaming.take(token(), clock())
        assert streaming.seen is not None
        streaming.seen(streaming)
        for _ in range(20):
            phase.far.flying[1][1].set_result("reset")
            sent = len(phase.told.requests)
            await phase.until(lambda sent=sent: len(phase.told.requests) > sent)  # type: ignore[misc]
        assert not going.done()


# --- open loop -------------------------------------------------------------------------------------------------------


async def test_beyond_the_cap_requests_wait_and_the_wait_is_on_record() -> None:
    async with begun("rate=1000 n=10 max=3 arrival=constant") as (phase, going):
        await phase.until(lambda: len(phase.running._queue) == 7 and len(phase.far.flying) == 3)
        assert phase.far.most == 3
        released_s = clock()
        assert await phase.answering(going) == ("done", 0)
        assert phase.far.most == 3
        found = phase.told.requests
        assert sorted(found) == list(range(10))
        for k in range(10):
            due_s, admitted_s, sent_s = found[k].due_s, found[k].admitted_s, found[k].sent_s
            assert due_s is not None
            assert admitted_s is not None
            assert sent_s is not None
            assert due_s <= admitted_s <= sent_s
            assert (admitted_s >= released_s) == (k >= 3)
        gaps = [(found[k + 1].due_s or 0.0) - (found[k].due_s or 0.0) for k in range(9)]
        assert gaps == pytest.approx([0.001] * 9)


async def test_what_was_due_and_had_no_slot_is_unfinished_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_S", 0.05)
    async with begun("rate=1000 n=6 max=2") as (phase, going):
        reason, unfinished = await asyncio.wait_for(going, 5.0)
        assert (unfinished, reason[:12]) == (6, "6 unfinished")
        assert sorted(phase.told.requests) == list(range(6))
        unsent = [request for request in phase.told.requests.values() if request.sent_s is None]
        assert [request.detail for request in unsent] == ["it was due, and not sent"] * 4
        assert phase.far.most == 2  # none slipped in while the others were broken off


async def test_another_rate_takes_hold_for_all_workers_at_the_same_request() -> None:
    async def ids(worker: int, at_s: float) -> dict[int, float]:
        phase = Phase("rate=200 n=60 arrival=constant workers=2", worker)
        await phase.running.prepare()
        going = asyncio.create_task(phase.running.go(at_s))
        phase.running.aim(Aim(at_s + 0.0985, rate_per_s=500.0))  # at no request's time: rounding would decide
        phase.running.aim(Aim(at_s + 0.149, rate_per_s=100.0))
        await phase.answering(going)
        return {k: round((request.due_s or 0.0) - at_s, 6) for k, request in phase.told.requests.items()}

    at_s = clock() + 0.05
    one, other = await asyncio.gather(ids(0, at_s), ids(1, at_s))
    assert not one.keys() & other.keys()
    dues = [(one | other)[k] for k in range(60)]
    expected = (
        [k / 200 for k in range(20)]
        + [0.0985 + k / 500 for k in range(1, 26)]
        + [0.149 + k / 100 for k in range(1, 16)]
    )
    assert dues == pytest.approx(expected, abs=1e-5)


async def test_a_slow_schedule_hears_of_another_rate_at_once() -> None:
    async with begun("rate=0.01 n=3 arrival=constant") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 1)  # the next is due in 100 s
        phase.running.aim(Aim(clock(), rate_per_s=100.0))
        assert await phase.answering(going) == ("done", 0)
        assert sorted(phase.told.requests) == [0, 1, 2]


@pytest.mark.parametrize("spec", ["c=8 n=100", "rate=1000 n=1000 max=4"])
async def test_broken_off_at_once_and_nothing_is_sent_afterwards(spec: str) -> None:
    async with begun(spec) as (phase, going):
        await phase.until(lambda: len(phase.far.flying) >= 4)
        phase.running.stop("stopped")
        sent = len(phase.told.lines)
        phase.far.abort()
        reason, _ = await asyncio.wait_for(going, 1.0)
        assert reason == "stopped"
        assert all(line.end_s is not None for line in phase.told.lines[sent:])


async def test_a_refused_field_is_left_out_of_what_is_made_next() -> None:
    bodies: list[Any] = []
    async with begun("c=1 n=8") as (phase, going):
        await phase.until(lambda: len(phase.far.flying) == 1)
        exchange, future = phase.far.flying[0]
        exchange.refused = "return_token_ids"
        future.set_result("reset")
        while not going.done():
            bodies += [exchange.wire for exchange, _ in phase.far.flying if exchange.wire not in bodies]
            phase.far.answer(1)
            await moment()
        assert b"return_token_ids" not in bodies[-1]


@pytest.mark.parametrize(("broken", "asked"), [(2, True), (3, False)])
async def test_answers_that_keep_breaking_off_under_ignore_eos_are_asked_for_without_it(
    broken: int, asked: bool
) -> None:
    async with begun("c=1 n=12") as (phase, going):
        bodies: list[bytes] = []
        while not going.done():
            for exchange, _ in list(phase.far.flying):
                if exchange.wire not in bodies:
                    bodies.append(exchange.wire)
                    phase.far.answer(1, "inband_error" if len(bodies) <= broken else None)
            await moment()
        assert b'"ignore_eos":true' in bodies[0]
        assert (b"ignore_eos" in bodies[-1]) is asked
        assert b"min_tokens" not in bodies[-1]
        errors = [request.error for request in phase.told.requests.values()]
        assert errors == ["inband_error"] * broken + [None] * (12 - broken)
