"""A process that sends requests: told what to do over its standard input, it tells what happened over its output.

Run by the conductor as `python -m vtop.load.worker`. It ends when its input does, whatever ended that.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median

import msgspec

from vtop.errors import VtopError
from vtop.load import probe
from vtop.load.client import Client
from vtop.load.exchange import Exchange
from vtop.load.orders import NEWS, Aim, Begin, Done, Failed, Finish, News, Order, Pulse, Ready, Refused, Setup, Steady
from vtop.load.prompts import Item, Prompts, read
from vtop.load.reading import Asked
from vtop.load.schedule import closed_ids, due_times, share
from vtop.load.spec import Phase
from vtop.recording.events import Request, encode

TICK_S = 0.01  # of the lag sampler
DRAIN_S = 60.0  # how long a phase waits for its last answers
AHEAD_S = 0.5  # requests of an open loop are made ready so long before their time
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class Worker:
    """Carries out the phases of a load, or its share of them."""

    def __init__(self, setup: Setup, out: Voice) -> None:
        self._setup = setup
        self._say = out
        self._without: frozenset[str] = frozenset()
        self._client = Client(
            setup.door.url,
            clock=self._now,
            headers=setup.door.headers,
            bearer=setup.door.bearer,
            basic=setup.door.basic,
            tls=setup.door.tls(),
        )
        self._running: PhaseRun | None = None

    def _now(self) -> float:
        return round(time.monotonic() - self._setup.origin_s, 6)

    async def work(self, orders: asyncio.Queue[Order | None]) -> None:
        """Until there are no more orders."""
        pulse = asyncio.create_task(self._pulse())
        phase: asyncio.Task[None] | None = None
        await self._try_fields()
        self._say.news(Ready())
        while (order := await orders.get()) is not None:
            if isinstance(order, Begin):
                phase = asyncio.create_task(self._phase(order))
            elif isinstance(order, Aim) and self._running is not None:
                self._running.aim(order)
            elif isinstance(order, Finish) and phase is not None:
                await self._break_off(phase)
        if phase is not None:
            await self._break_off(phase)
        pulse.cancel()

    async def _break_off(self, phase: asyncio.Task[None]) -> None:
        self._client.abort()
        if self._running is not None:
            self._running.stop("stopped")
        self._client.abort()
        await asyncio.wait({phase}, timeout=1.0)

    async def _phase(self, order: Begin) -> None:
        phase = self._setup.phases[order.phase]
        try:
            items = read(phase)
            run = PhaseRun(self, phase, order, items, self._prompts(order.phase, items))
        except VtopError as error:
            self._say.news(Failed(str(error)))
            return
        self._running = run
        try:
            reason = await run.go()
        finally:
            self._running = None
        self._say.news(Done(order.phase, reason))

    def _prompts(self, index: int, items: tuple[Item, ...]) -> Prompts:
        setup = self._setup
        return Prompts(
            setup.phases[index],
            model=setup.model,
            entropy=setup.entropy,
            index=index,
            vocabulary=setup.vocabulary,
            items=items,
            count_tokens=partial(probe.count_tokens, setup.door, setup.model),
            without=self._without,
        )

    async def _try_fields(self) -> None:
        """A request of one token shows which optional fields the server does not take; no measured one pays for it."""
        tiny = replace(Phase(), concurrency=1, api=self._setup.phases[0].api, output=None)
        setup = self._setup
        for _ in range(8):
            prompts = Prompts(
                tiny,
                model=setup.model,
                entropy=f"{setup.entropy} try {setup.worker}",
                vocabulary=setup.vocabulary,
                items=(Item(text="hello", output_tokens=1),),
                without=self._without,
            )
            exchange = Exchange(self._client.lay(PATHS[tiny.api], prompts.payload(0)), Asked(output_tokens=1))
            await self._client.run(exchange)
            if exchange.refused is None:
                return
            self._drop(exchange.refused)

    def _drop(self, field: str) -> None:
        if field not in self._without:
            self._without |= {field}
            self._say.news(Refused(field))

    async def _pulse(self) -> None:
        """Once a second: how much CPU, how late the loop."""
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


class PhaseRun:
    """One phase under way in one worker."""

    def __init__(self, worker: Worker, phase: Phase, order: Begin, items: tuple[Item, ...], prompts: Prompts) -> None:
        self._worker = worker
        self._setup = worker._setup
        self._client = worker._client
        self._say = worker._say
        self._phase = phase
        self._index = order.phase
        self._start_s = order.at_s
        self._items = items
        self._prompts = prompts
        self._path = PATHS[phase.api]
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: str | None = None
        self._ended = asyncio.Event()
        self._warm_left = sum(1 for k in range(phase.warmup) if k % self._setup.workers == self._setup.worker)
        self._steady_s: float | None = None if self._warm_left else order.at_s
        self._aims: list[Aim] = []
        self._changed = asyncio.Event()
        self._next_k = 0  # the first request of a schedule after a change of rate

    async def go(self) -> str:
        """Send everything and see it to its end; the reason why it ended."""
        phase = self._phase
        want = phase.concurrency if phase.concurrency is not None else min(phase.max_in_flight or 64, 256)
        await self._client.warm(share(want, self._setup.worker, self._setup.workers))
        await self._until(self._start_s)
        if phase.concurrency is not None:
            await self._closed(closed_ids(phase, self._setup.worker, self._setup.workers))
        else:
            await self._open()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_S)
        left = len(self._tasks)
        if left:
            self._client.abort()
            await asyncio.wait(self._tasks, timeout=1.0)
            return self._stopped or f"time is up, {left} unfinished"
        return self._stopped or "done"

    def stop(self, reason: str) -> None:
        self._stopped = self._stopped or reason
        self._ended.set()
        self._changed.set()

    def aim(self, aim: Aim) -> None:
        self._aims.append(aim)
        self._changed.set()

    # --- closed loop -----------------------------------------------------------------------------------------------

    async def _closed(self, ids: Iterator[int]) -> None:
        slots: set[asyncio.Task[None]] = set()
        wanted = share(self._phase.concurrency or 0, self._setup.worker, self._setup.workers)
        self._wanted, self._slots = wanted, 0
        over = asyncio.create_task(self._time_is_up())
        while True:
            while self._slots < self._wanted and self._stopped is None:
                self._slots += 1
                slot = asyncio.create_task(self._slot(ids))
                slots.add(slot)
                slot.add_done_callback(slots.discard)
            changed = asyncio.create_task(self._changed.wait())
            await asyncio.wait({*slots, changed}, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            self._changed.clear()
            for aim in self._aims:
                if aim.concurrency is not None:
                    self._wanted = share(aim.concurrency, self._setup.worker, self._setup.workers)
            self._aims.clear()
            if self._stopped is not None or (self._slots == 0 and self._wanted > 0):
                break
        over.cancel()
        if slots:
            await asyncio.wait(slots, timeout=DRAIN_S if self._stopped != "stopped" else 1.0)
            if slots:
                self._client.abort()
                await asyncio.wait(slots, timeout=1.0)

    async def _slot(self, ids: Iterator[int]) -> None:
        """One place in flight: the next request leaves when its answer is complete. It is made ready meanwhile."""
        ready = self._make(next(ids, None))
        while ready is not None and self._stopped is None and self._slots <= self._wanted:
            k, exchange = ready
            exchange.due_s = exchange.admitted_s = self._now()
            sending = asyncio.create_task(self._send(k, exchange))
            await asyncio.sleep(0)
            ready = self._make(next(ids, None))
            await sending
        self._slots -= 1
        self._changed.set()

    async def _time_is_up(self) -> None:
        """Stop a closed loop that is bounded in time, counted from the end of its warm-up."""
        while self._steady_s is None:
            await asyncio.sleep(0.05)
        for_s = self._phase.for_s
        await self._until((self._steady_s + for_s) if for_s is not None else self._start_s + self._phase.limit_s)
        self.stop("time is up" if for_s is None else "done")

    # --- open loop -------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Requests leave by the schedule, whatever the server does; a cap on what is in flight makes them wait."""
        phase, first, start_s = self._phase, 0, 0.0
        cap = phase.max_in_flight
        room = asyncio.Semaphore(share(cap, self._setup.worker, self._setup.workers)) if cap is not None else None
        recorded = tuple(item.at_s for item in self._items if item.at_s is not None)
        while self._stopped is None:
            # every worker walks the whole schedule, so that all know where a change of rate took hold
            schedule = due_times(
                phase, recorded_s=recorded, first=first, start_s=start_s, measured_s=self._measured_s()
            )
            aim = await self._walk(schedule, room)
            if aim is None:
                return
            first, start_s = self._next_k, aim.at_s - self._start_s
            phase = replace(phase, rate_per_s=aim.rate_per_s)

    async def _walk(self, schedule: Iterator[tuple[int, float]], room: asyncio.Semaphore | None) -> Aim | None:
        """Send what is due, made ready before its time, until the schedule ends (None) or another aim takes hold."""
        ready: deque[tuple[float, int, Exchange]] = deque()
        coming, aim = next(schedule, None), None
        while self._stopped is None:
            now_s = self._now()
            while ready and ready[0][0] <= now_s:
                due_s, k, exchange = ready.popleft()
                task = asyncio.create_task(self._admit(k, exchange, room))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if aim is None and coming is not None:
                due_s = self._start_s + coming[1]
                aim = next((aim for aim in self._aims if aim.rate_per_s is not None and aim.at_s <= due_s), None)
            if (aim is not None or coming is None) and not ready:
                break
            if aim is None and coming is not None and due_s - now_s <= AHEAD_S:
                k = coming[0]
                made = self._make(k) if k % self._setup.workers == self._setup.worker else None
                if made is not None:
                    made[1].due_s = due_s
                    ready.append((due_s, *made))
                coming = next(schedule, None)
                await asyncio.sleep(0)  # answers are read between two that are made
                continue
            next_s = self._start_s + coming[1] - AHEAD_S if aim is None and coming is not None else math.inf
            await self._until(min(ready[0][0] if ready else math.inf, next_s))
        if aim is not None and coming is not None:
            self._aims.remove(aim)
            self._next_k = coming[0]
        return aim

    async def _admit(self, k: int, exchange: Exchange, room: asyncio.Semaphore | None) -> None:
        if room is None:
            exchange.admitted_s = self._now()
            await self._send(k, exchange)
            return
        async with room:
            exchange.admitted_s = self._now()
            if self._stopped is None:
                await self._send(k, exchange)

    def _measured_s(self) -> float:
        return 0.0 if self._steady_s is None else max(0.0, self._steady_s - self._start_s)

    # --- both ------------------------------------------------------------------------------------------------------

    def _make(self, k: int | None) -> tuple[int, Exchange] | None:
        """Request k, ready to be sent."""
        if k is None or self._stopped is not None:
            return None
        _, output_tokens = self._prompts.asked(k)
        asked = Asked(output_tokens=output_tokens, exact=output_tokens is not None)
        wire = self._client.lay(self._path, self._prompts.payload(k))
        return k, Exchange(wire, asked, seen=partial(self._seen, k))

    async def _send(self, k: int, exchange: Exchange) -> None:
        await self._client.run(exchange)
        self._say.event(self._line(k, exchange))
        if exchange.refused is not None:
            self._worker._drop(exchange.refused)
            self._prompts = self._worker._prompts(self._index, self._items)
        if k < self._phase.warmup:
            self._warm_left -= 1
            if self._warm_left == 0:
                self._steady_s = self._now()
                self._say.news(Steady(self._index))

    def _seen(self, k: int, exchange: Exchange) -> None:
        self._say.event(self._line(k, exchange))

    def _line(self, k: int, exchange: Exchange) -> Request:
        warmup = k < self._phase.warmup
        asked = self._prompts.asked(k)[0]
        return exchange.record(id=k, phase=self._index, warmup=warmup, asked_prompt_tokens=asked)

    def _now(self) -> float:
        return self._worker._now()

    async def _until(self, at_s: float) -> None:
        """Sleep to an instant of the session, or until the phase is stopped."""
        left_s = at_s - self._now()
        if left_s <= 0 or self._stopped is not None:
            return
        if left_s < 0.25:
            await asyncio.sleep(left_s)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), left_s)


class Voice:
    """Lines to the conductor, written by a thread, so that a slow reader cannot hold up the requests."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="voice", daemon=True)
        self._thread.start()

    def event(self, event: Request) -> None:
        self._lines.put(encode(event))

    def news(self, news: News) -> None:
        self._lines.put(NEWS + msgspec.json.encode(news))

    def close(self) -> None:
        self._lines.put(None)
        self._thread.join(timeout=1.0)

    def _write(self) -> None:
        out = sys.stdout.buffer
        try:
            while (line := self._lines.get()) is not None:
                out.write(line + b"\n")
                while not self._lines.empty():
                    more = self._lines.get()
                    if more is None:
                        out.flush()
                        return
                    out.write(more + b"\n")
                out.flush()
        except (BrokenPipeError, ValueError):
            return


def _listen(loop: asyncio.AbstractEventLoop, orders: asyncio.Queue[Order | None]) -> None:
    """Orders from standard input; its end is the end of all."""
    decoder = msgspec.json.Decoder(Order)
    for line in sys.stdin.buffer:
        loop.call_soon_threadsafe(orders.put_nowait, decoder.decode(line))
    loop.call_soon_threadsafe(orders.put_nowait, None)


async def _main(setup: Setup, voice: Voice) -> None:
    loop = asyncio.get_running_loop()
    orders: asyncio.Queue[Order | None] = asyncio.Queue()
    threading.Thread(target=_listen, args=(loop, orders), name="orders", daemon=True).start()
    await Worker(setup, voice).work(orders)


def main() -> None:
    setup = msgspec.json.decode(sys.stdin.buffer.readline(), type=Setup)
    voice = Voice()
    gc.set_threshold(100_000, 50, 50)  # a full collection in the middle of a burst would be seen as latency
    try:
        asyncio.run(_main(setup, voice))
    except VtopError as error:
        voice.news(Failed(str(error)))
    finally:
        voice.close()


if __name__ == "__main__":
    main()
