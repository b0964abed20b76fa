"""A process that sends requests: told what to do over its standard input, it tells what happened over its output.

Run by the controller as `python -m vtop.load.workers.worker`. It ends when its input does, whatever ended that.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from statistics import median

import msgspec

from vtop import faults
from vtop.errors import VtopError
from vtop.load.http.client import Client
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer
from vtop.load.workers import probe
from vtop.load.workers.line_writer import LineWriter
from vtop.load.workers.phase_runner import Running
from vtop.load.workers.protocol import (
    Aim,
    Begin,
    Done,
    Failed,
    Finish,
    Order,
    Prepare,
    Pulse,
    Ready,
    Refused,
    Setup,
    Until,
)
from vtop.load.workload.dataset import Item, read
from vtop.load.workload.phase import PlannedPhase
from vtop.load.workload.prompts import LENGTH, TOKEN_IDS, Prompts
from vtop.recording.vocabulary import Api

TICK_S = 0.01  # of the lag sampler
TRY_S = 15.0  # a server that is busy for longer is not waited for to try its fields
LAST_S = 1.5  # after the end of the orders nothing may take longer
TRIAL = -1  # the phase of requests that are in no phase
TOKEN_COUNTS = "return_token_ids"  # with them each event tells its tokens
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class Worker:
    """Carries out the phases of a load, or its share of them."""

    def __init__(self, setup: Setup, writer: LineWriter) -> None:
        self._setup = setup
        self._say = writer
        self._without: frozenset[str] = frozenset()
        self._tried: set[str] = set()
        self._trials = setup.worker  # ids of theirs
        self._client = Client(
            setup.endpoint.url,
            clock=self._now,
            access=setup.endpoint.access,
        )
        self._running: Running | None = None
        self._origin_s = setup.origin_s  # on this host's clock

    def _now(self) -> float:
        return round(time.monotonic() - self._origin_s, 6)

    async def work(self, orders: asyncio.Queue[Order | None]) -> None:
        """Until there are no more orders. One phase at a time: the controller waits for its end."""
        async with asyncio.TaskGroup() as tasks:  # what goes wrong in a task ends the worker, and is told by it
            task: asyncio.Task[None] | None = None
            while (order := await orders.get()) is not None:
                match order:
                    case Prepare():
                        self._origin_s = self._setup.origin_s + order.ahead_s
                        task = tasks.create_task(self._prepare(order))
                    case Begin(at_s=at_s) if self._running is not None:
                        task = tasks.create_task(self._run(self._running, at_s))
                    case Aim() if self._running is not None:
                        self._running.aim(order)
                    case Until(at_s=at_s) if self._running is not None:
                        self._running.until(at_s)
                    case Finish():
                        self._break_off(task)
            self._break_off(task)

    def _break_off(self, task: asyncio.Task[None] | None) -> None:
        if self._running is not None and self._running.begun:
            self._running.stop("stopped")
        elif task is not None:
            task.cancel()
        self._client.abort()

    async def _prepare(self, order: Prepare) -> None:
        index = order.phase
        phase = self._setup.phases[index]
        try:
            if phase.api not in self._tried:
                await self._try_fields(phase.api)
                self._tried.add(phase.api)
            prompts = await asyncio.to_thread(self._prompts, index)  # may ask the server how it counts
            self._running = running = Running(
                phase,
                index,
                prompts,
                order.worker,
                order.workers,
                client=self._client,
                path=PATHS[phase.api],
                clock=self._now,
                writer=self._say,
                refused=self._drop,
            )
            caveats = (*prompts.caveats, *await running.prepare())
        except VtopError as error:
            self._say.news(Failed(str(error)))
            return
        gc.collect()
        gc.freeze()  # so that no collection in the midst of it walks through what is laid ready
        self._say.news(Ready(index, caveats))

    async def _run(self, running: Running, at_s: float) -> None:
        pulse = asyncio.create_task(self._pulse())
        try:
            reason, unfinished = await running.go(at_s)
        finally:
            pulse.cancel()
            self._running = None
        self._say.news(Done(running.index, reason, unfinished))

    def _prompts(self, index: int) -> Prompts:
        setup = self._setup
        phase = setup.phases[index]
        return Prompts(
            phase,
            model=setup.model,
            entropy=setup.entropy,
            index=index,
            vocabulary=setup.vocabulary,
            items=read(phase),
            count_tokens=partial(probe.count_tokens, setup.endpoint, setup.model),
            without=self._without,
        )

    async def _try_fields(self, api: Api) -> None:
        """A request of one token shows what the server does not take: optional fields, or token ids as a prompt, as
        gateways do not. No measured request pays for it."""
        ids = self._setup.vocabulary[:1] if api == "completions" else ()
        for _ in range(8):
            exchange = await self._try(api, Item(text=None if ids else "hello", ids=ids or None, output_tokens=1))
            if exchange.refused is not None:
                self._drop(exchange.refused)
            elif _brought_no_ids(exchange) and TOKEN_COUNTS not in self._without:
                self._without |= {TOKEN_COUNTS}  # not refused, but of no use: running usage may say it instead
            elif ids and exchange.status in (400, 415, 422, 500, 501):
                ids = ()
                if (await self._try(api, Item(text="hello", output_tokens=1))).error is None:
                    self._drop(TOKEN_IDS)
                    return
            else:
                return

    async def _try(self, api: Api, item: Item) -> Exchange:
        setup = self._setup
        prompts = Prompts(
            replace(PlannedPhase(), concurrency=1, api=api, output=None),
            model=setup.model,
            entropy=f"{setup.entropy} trial {self._trials}",
            vocabulary=setup.vocabulary,
            items=(item,),
            without=self._without,
        )
        exchange = Exchange(self._client.lay(PATHS[api], prompts.payload(0)), ExpectedAnswer(output_tokens=1))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TRY_S):
                await self._client.run(exchange)
        self._say.event(exchange.record(id=self._trials, phase=TRIAL, warmup=True))
        self._trials += setup.workers
        return exchange

    def _drop(self, field: str, why: str | None = None) -> frozenset[str]:
        """All that is to be left out."""
        if field not in self._without:
            self._without |= {field} if why is None else LENGTH
            self._say.news(Refused(field, why))
        return self._without

    async def _pulse(self) -> None:
        """Once a second of a phase: how much CPU, how late the loop."""
        lags: list[float] = []
        cpu_s, at_s = time.process_time(), time.monotonic()
        while True:
            due_s = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            lags.append(max(0.0, now_s - due_s))
            if now_s - at_s >= 1.0:
                spent_s = time.process_time()
                self._say.news(Pulse((spent_s - cpu_s) / (now_s - at_s), median(lags), max(lags)))
                lags, cpu_s, at_s = [], spent_s, now_s


def _brought_no_ids(exchange: Exchange) -> bool:
    return exchange.status == 200 and exchange.reading.first_s is not None and not exchange.reading.by_ids


def _listen(loop: asyncio.AbstractEventLoop, orders: asyncio.Queue[Order | None]) -> None:
    """Orders from standard input; its end is the end of all."""
    decoder = msgspec.json.Decoder(Order)
    with contextlib.suppress(RuntimeError):  # the loop has ended by itself
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(orders.put_nowait, decoder.decode(line))
        loop.call_soon_threadsafe(orders.put_nowait, None)
    time.sleep(LAST_S)
    os._exit(1)  # whatever it is still about


async def _main(setup: Setup, writer: LineWriter) -> None:
    loop = asyncio.get_running_loop()
    orders: asyncio.Queue[Order | None] = asyncio.Queue()
    threading.Thread(target=_listen, args=(loop, orders), name="orders", daemon=True).start()
    await Worker(setup, writer).work(orders)


def allow_files() -> None:
    """A connection is an open file; the usual 1,024 are a limit for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    line = sys.stdin.buffer.readline()
    if not line:  # whoever started it is gone already
        return
    setup = msgspec.json.decode(line, type=Setup)
    allow_files()
    writer = LineWriter()
    gc.set_threshold(100_000, 50, 50)  # a full collection in the middle of a burst would be seen as latency
    try:
        asyncio.run(_main(setup, writer))
    except Exception as error:
        writer.news(Failed(f"a load process broke off: {faults.put_down(error, 'sending the load')}"))
        writer.close()
        os._exit(1)  # in good order Python would wait for the thread that reads the orders, and abort
    writer.close()


if __name__ == "__main__":
    main()
