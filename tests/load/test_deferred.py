"""Reading comes before understanding: a stamp waits for no other answer, and nothing that was read is lost or mixed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests.load.faults import DONE, Answer, Server, ask, at, four, serving, usage
from vtop.load.http.client import Client
from vtop.load.http.connection import LoadConnection
from vtop.load.http.deferred import AT_ONCE, SHARE, Backlog
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer


async def rounds(backlog: Backlog, number: int) -> list[int]:
    """How much of so much work was done after each round of the loop, until all was."""
    done: list[int] = []
    for k in range(number):
        backlog.add(partial(done.append, k))
    after: list[int] = []
    while len(done) < number:
        await asyncio.sleep(0)
        after.append(len(done))
        assert len(after) <= number
    assert done == list(range(number))
    return after


async def test_what_waits_is_done_in_order_and_others_have_their_turn() -> None:
    after = await rounds(Backlog(), 3 * AT_ONCE + 1)
    assert [b - a for a, b in pairwise((0, *after)) if b > a] == [AT_ONCE] * 3 + [1]


async def test_a_long_backlog_is_worked_off_in_bigger_portions() -> None:
    number = 4 * AT_ONCE * SHARE
    after = await rounds(Backlog(), number)
    portions = [b - a for a, b in pairwise((0, *after)) if b > a]
    assert portions[0] == number // SHARE
    assert portions[-2:-1] == [AT_ONCE]


async def test_work_that_fails_holds_up_no_other() -> None:
    backlog, done = Backlog(), list[int]()
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    def work(k: int) -> None:
        if k == 1:
            raise ZeroDivisionError
        done.append(k)

    for k in range(3 * AT_ONCE):
        backlog.add(partial(work, k))
    for _ in range(8):
        await asyncio.sleep(0)
    assert done == [0, *range(2, 3 * AT_ONCE)]
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError]


# --- on connections


WHOLE = b"".join((*four(), usage(4), DONE))


def client_of(server: Server) -> Client:
    return Client(f"http://127.0.0.1:{server.port}", clock=server.clock)


async def test_no_stamp_waits_until_another_answer_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers come at the same time; that understanding them takes a second each is in no stamp."""
    together = asyncio.Event()
    async with serving(monkeypatch.setattr, Answer(at((1.0, WHOLE)), go_on=together)) as server:
        take = Exchange.take

        def slow(self: Exchange, body: bytes, at: float) -> None:
            server.clock.now += 1.0
            take(self, body, at)

        monkeypatch.setattr(Exchange, "take", slow)
        client = client_of(server)
        exchanges = [Exchange(client.lay("/v1/completions", b"{}"), ExpectedAnswer()) for _ in range(2)]
        running = [asyncio.create_task(client.run(exchange)) for exchange in exchanges]
        async with asyncio.timeout(10.0):
            await server.requests_in(2)
            while any(exchange.headers_s is None for exchange in exchanges):
                await asyncio.sleep(0)
            for _ in range(8):  # until both answers wait for the word
                await asyncio.sleep(0)
            together.set()
            await asyncio.gather(*running)
        client.abort()
    assert [exchange.reading.first_s for exchange in exchanges] == [1.0, 1.0]
    assert [exchange.error for exchange in exchanges] == [None, None]
    assert server.clock.now >= 3.0


ENDS: dict[str, Callable[[Client, LoadConnection], object]] = {
    "aborted": lambda client, connection: client.abort(),
    "closed": lambda client, connection: connection.eof_received(),
    "cut": lambda client, connection: connection.connection_lost(ConnectionResetError()),
}


@pytest.mark.parametrize("end", ENDS)
async def test_what_was_read_before_the_end_counts(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch.setattr, Answer(at((1.0, WHOLE)), together=True)) as server:
        client = client_of(server)
        updated = LoadConnection.buffer_updated

        def buffer_updated(self: LoadConnection, nbytes: int) -> None:
            updated(self, nbytes)
            ENDS[end](client, self)

        monkeypatch.setattr(LoadConnection, "buffer_updated", buffer_updated)
        exchange = await ask(client)
        client.abort()
    assert (exchange.error, exchange.reading.output_tokens, exchange.end_s) == (None, 4, 1.0)
    assert client.connections == 0


async def test_an_answer_in_many_reads_is_understood_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte by itself, read before any is understood."""
    wire = b"".join(data for _, data in Answer(at((1.0, WHOLE))).wire())
    async with serving(monkeypatch.setattr, Answer(at((1.0, WHOLE)), together=True)) as server:
        updated = LoadConnection.buffer_updated

        def buffer_updated(self: LoadConnection, nbytes: int) -> None:
            view = self.get_buffer(-1)
            read = bytes(view[:nbytes])
            for byte in range(nbytes):
                view[:1] = read[byte : byte + 1]
                updated(self, 1)
                server.clock.now += 0.001

        monkeypatch.setattr(LoadConnection, "buffer_updated", buffer_updated)
        client = client_of(server)
        exchange = await ask(client)
        client.abort()
    first = wire.index(four()[0][-20:]) + 20  # where the first event is complete
    assert (exchange.error, exchange.reading.output_tokens, exchange.reading.chunks) == (None, 4, 4)
    assert exchange.reading.first_s == pytest.approx(1.0 + 0.001 * (first - 1))
    assert exchange.end_s == pytest.approx(1.0 + 0.001 * (len(wire) - 1))
