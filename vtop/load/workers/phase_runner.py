"""One phase under way in one worker: what is sent when, and that every request that was due comes to an end on record.

In a closed loop the next request leaves when an answer is complete; in an open one by the schedule, whatever the
server does, and a cap on what is in flight makes requests wait, which counts as lateness of theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from vtop.errors import VtopError
from vtop.load.http.client import Client
from vtop.load.http.client_limits import ClientLimit
from vtop.load.http.connection import Clock
from vtop.load.http.deferred import AT_ONCE
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer
from vtop.load.workers.line_writer import LineWriter
from vtop.load.workers.protocol import Aim, Steady
from vtop.load.workload.arrivals import closed_ids, due_times, share
from vtop.load.workload.phase import PlannedPhase
from vtop.load.workload.prompts import Prompts
from vtop.recording.events import Request

DRAIN_S = 60.0  # without a token or an end, and what is still under way is given up
AHEAD_S = 0.25  # requests of an open loop are made ready so long before their time
FAILING_S, FAILING = 10.0, 10  # nothing but failures for so long, so many: the phase is over
BROKEN, BROKEN_SHARE = 3, 0.25  # so many answers, of all that ended: ignore_eos is given up
PAUSE_S = 1.0  # at most, before a closed loop tries a server again that gives no answer at all
WARM = 64  # connections that are open before an open loop begins, when it has no cap
MOST_WARM = 256


class Running:
    """Worker `worker` of `workers`. `refused` tells that a field was refused, or made the server break off answers with
    these words, and says which are to be left out."""

    def __init__(
        self,
        phase: PlannedPhase,
        index: int,
        prompts: Prompts,
        worker: int,
        workers: int,
        *,
        client: Client,
        path: str,
        clock: Clock,
        writer: LineWriter,
        refused: Callable[[str, str | None], frozenset[str]],
    ) -> None:
        self.index = index
        self.begun = False
        self._phase = phase
        self._prompts = prompts
        self._worker = worker
        self._workers = workers
        self._client = client
        self._path = path
        self._now = clock
        self._say = writer
        self._refused = refused
        self._start_s = 0.0
        self._until_s = math.inf
        self._tasks = asyncio.TaskGroup()
        self._flying: set[Exchange] = set()
        self._empty = asyncio.Event()  # nothing is in flight, nor waits to be
        self._closing = False  # nothing more will be due
        self._changed = asyncio.Event()
        self._stopped: str | None = None  # why no request leaves any more
        self._aborted = False
        self._aims: list[Aim] = []
        self._answering: set[int] = set()  # in flight, with a token
        self._failing, self._failing_since_s = 0, 0.0
        self._ended = self._broken = 0  # requests; those that an error in the midst of the answer broke off
        # a closed loop
        slots = phase.concurrency
        self._ids: Iterator[int] = iter(()) if slots is None else closed_ids(phase, worker, workers)
        self._wanted = share(slots or 0, worker, workers)
        self._ready: deque[tuple[int, Exchange]] = deque()
        self._filling = False  # more are to be sent in the next round of the loop
        # an open one
        cap = phase.max_in_flight
        self._cap = math.inf if cap is None else share(cap, worker, workers)
        self._queue: deque[tuple[int, Exchange]] = deque()  # due, waiting for a slot
        self._first = 0  # request of the schedule at hand
        self._measured_s = 0.0  # when the last request of the warm-up was due, since the start
        self._warm_left = sum(self._owns(k) for k in range(phase.warmup))

    def _owns(self, k: int) -> bool:
        slots = self._phase.concurrency
        return (k if slots is None else k % slots) % self._workers == self._worker

    async def prepare(self) -> tuple[str, ...]:
        """Open the connections and lay out the first requests; what there is to say about it. Raises VtopError."""
        want = self._wanted or min(WARM if self._cap == math.inf else int(self._cap), MOST_WARM)
        try:
            failure = await self._client.warm(want)
        except ClientLimit as limit:
            needs = f"{self._phase.name} needs {want} connections in a process"
            raise VtopError(f"{needs}; client limit: {limit}") from None
        for _ in range(self._wanted):
            if (made := self._next_made()) is not None:
                self._ready.append(made)
        return () if failure is None else (f"not all connections could be opened beforehand: {failure}",)

    async def go(self, start_s: float) -> tuple[str, int]:
        """Send everything and see it to its end: why it ended, and how many requests had no end by then."""
        self._start_s = start_s
        self.begun = True
        unfinished = 0
        async with self._tasks:
            self._empty.set()
            self._note_steady()
            if self._phase.concurrency is not None:
                await self._closed()
            else:
                await self._open()
            while not self._empty.is_set():
                before = self._signs()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DRAIN_S):
                        await self._empty.wait()
                if not self._empty.is_set() and self._signs() == before:
                    unfinished = len(self._flying) + len(self._queue)
                    self.stop(f"{unfinished} unfinished after {DRAIN_S:.0f} s of silence")
                    self._client.abort()
                    break
        reason, self._stopped = self._stopped or "done", self._stopped or "done"
        return reason, unfinished

    def _signs(self) -> tuple[int, int, int]:
        """What changes as long as answers come."""
        return len(self._queue), len(self._flying), sum(exchange.reading.chunks for exchange in self._flying)

    def stop(self, reason: str, *, aborted: bool = True) -> None:
        """No request leaves any more. aborted: those under way are being broken off."""
        self._stopped = self._stopped or reason
        self._aborted |= aborted
        while self._queue:
            self._end_unsent(*self._queue.popleft())
        if not self._flying:
            self._empty.set()
        self._close()

    def _close(self) -> None:
        self._closing = True
        self._changed.set()

    def aim(self, aim: Aim) -> None:
        if aim.concurrency is not None:
            self._wanted = share(aim.concurrency, self._worker, self._workers)
            if self.begun and self._now() >= self._start_s:
                self._fill()
        else:
            self._aims.append(aim)
            self._changed.set()

    def until(self, at_s: float) -> None:
        self._until_s = at_s
        asyncio.get_running_loop().call_later(max(0.0, at_s - self._now()), self._close)

    # --- closed loop -----------------------------------------------------------------------------------------------

    async def _closed(self) -> None:
        while self._now() < self._start_s and not self._closing:
            await self._sleep_until(self._start_s)
        self._fill()
        while not self._closing:
            self._changed.clear()
            # one at a time, so that no answer waits to be read while many are made
            if len(self._ready) < self._wanted and (made := self._next_made()) is not None:
                self._ready.append(made)
                await asyncio.sleep(0)
            else:
                await self._changed.wait()

    def _fill(self) -> None:
        """As many in flight as wanted: a few now, and the rest when what has come meanwhile is read."""
        for _ in range(AT_ONCE):
            if len(self._flying) >= self._wanted or self._closing:
                break
            now_s = self._now()
            if now_s >= self._until_s:
                return
            made = self._ready.popleft() if self._ready else self._next_made()
            if made is None:
                self._close()
                return
            made[1].due_s = made[1].admitted_s = now_s
            self._send(*made)
        else:
            if not self._filling:
                self._filling = True
                asyncio.get_running_loop().call_soon(self._fill_on)
            return
        self._changed.set()

    def _fill_on(self) -> None:
        self._filling = False
        self._fill()

    def _next_made(self) -> tuple[int, Exchange] | None:
        k = next(self._ids, None)
        return None if k is None else (k, self._make(k))

    # --- open loop -------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        phase, start_s = self._phase, 0.0
        while self._stopped is None:
            # every worker walks the whole schedule, so that all know where a change of rate took hold
            schedule = due_times(
                phase,
                recorded_s=self._prompts.recorded_s,
                first=self._first,
                start_s=start_s,
                measured_s=self._measured_s,
            )
            aim = await self._walk(schedule)
            if aim is None:
                break
            start_s = aim.at_s - self._start_s
            phase = replace(phase, rate_per_s=aim.rate_per_s)

    async def _walk(self, schedule: Iterator[tuple[int, float]]) -> Aim | None:
        """Send what is due, made ready before its time, until the schedule ends (None) or another aim takes hold."""
        ahead: deque[tuple[float, int, Exchange]] = deque()
        coming, aim = next(schedule, None), None
        while self._stopped is None:
            now_s = self._now()
            while ahead and ahead[0][0] <= now_s:
                _, k, exchange = ahead.popleft()
                self._queue.append((k, exchange))
                self._admit()
            if coming is not None and aim is None:
                due_s = self._start_s + coming[1]
                aim = next((aim for aim in self._aims if aim.at_s <= due_s), None)
            if not ahead and (coming is None or aim is not None):
                break
            wake_s = ahead[0][0] if ahead else math.inf
            if coming is not None and aim is None:
                if due_s - AHEAD_S <= now_s:
                    k, at_s = coming
                    if k == self._phase.warmup - 1:
                        self._measured_s = at_s
                    if self._owns(k):
                        exchange = self._make(k)
                        exchange.due_s = due_s
                        ahead.append((due_s, k, exchange))
                    coming = next(schedule, None)
                    await asyncio.sleep(0)  # answers are read between two that are made
                    continue
                wake_s = min(wake_s, due_s - AHEAD_S)
            await self._sleep_until(wake_s)
        if aim is not None and coming is not None:
            self._aims.remove(aim)
            self._first = coming[0]
        return aim

    def _admit(self) -> None:
        while self._queue and len(self._flying) < self._cap:
            k, exchange = self._queue.popleft()
            exchange.admitted_s = self._now()
            self._send(k, exchange)

    # --- both ------------------------------------------------------------------------------------------------------

    def _make(self, k: int) -> Exchange:
        _, output_tokens = self._prompts.asked(k)
        asked = ExpectedAnswer(output_tokens=output_tokens, exact=output_tokens is not None and self._prompts.exact)
        return Exchange(self._client.lay(self._path, self._prompts.payload(k)), asked, seen=partial(self._seen, k))

    def _send(self, k: int, exchange: Exchange) -> None:
        self._flying.add(exchange)
        self._empty.clear()
        self._tasks.create_task(self._converse(k, exchange))

    async def _converse(self, k: int, exchange: Exchange) -> None:
        if self._aborted:  # between being sent off and being sent
            self._end_unsent(k, exchange)
        else:
            await self._client.run(exchange)
            self._say.event(self._line(k, exchange))
        self._flying.discard(exchange)
        self._answering.discard(k)
        if exchange.refused is not None:
            self._prompts.leave_out(self._refused(exchange.refused, None))
        self._note_broken(exchange)
        if k < self._phase.warmup:
            self._warm_left -= 1
            self._note_steady()
        pause_s = self._judge(exchange)
        if pause_s:
            asyncio.get_running_loop().call_later(pause_s, self._fill)
        elif self._stopped is None:
            self._fill()
            self._admit()
        if not self._flying and not self._queue:
            self._empty.set()

    def _note_broken(self, exchange: Exchange) -> None:
        """A parser of answers may end one with an error where ignore_eos drives the model past the end of its turn.

        Where much of what ends does so, what is made from here on is asked without.
        """
        self._ended += 1
        self._broken += exchange.error == "inband_error" and exchange.reading.first_s is not None
        if self._prompts.exact and self._broken >= BROKEN and self._broken >= self._ended * BROKEN_SHARE:
            self._prompts.leave_out(self._refused("ignore_eos", exchange.detail or "no reason given"))

    def _judge(self, exchange: Exchange) -> float:
        """Ends a phase that gives nothing but failures; how long a closed loop is to wait before its next request."""
        if exchange.error is None or exchange.error == "cancelled_at_end" or self._answering:
            self._failing = 0
            return 0.0
        now_s = self._now()
        if not self._failing:
            self._failing_since_s = now_s
        self._failing += 1
        if self._failing >= FAILING and now_s - self._failing_since_s >= FAILING_S:
            what = exchange.error + (f": {exchange.detail}" if exchange.detail else "")
            self.stop(f"every request of the last {FAILING_S:.0f} s failed, {what}", aborted=False)
        if exchange.status is not None or self._phase.concurrency is None:
            return 0.0
        return min(PAUSE_S, 0.05 * 2.0 ** min(self._failing, 10))

    def _note_steady(self) -> None:
        if self._warm_left == 0:
            self._warm_left = -1
            gc.freeze()
            self._say.news(Steady(self.index))

    def _seen(self, k: int, exchange: Exchange) -> None:
        if exchange.reading.first_s is not None:
            self._answering.add(k)
            self._failing = 0
        elif exchange.retried:  # that it was sent is on record
            return
        self._say.event(self._line(k, exchange))

    def _end_unsent(self, k: int, exchange: Exchange) -> None:
        now_s = self._now()
        exchange.finish(now_s, now_s, "cancelled_at_end", "it was due, and not sent")
        self._say.event(self._line(k, exchange))

    def _line(self, k: int, exchange: Exchange) -> Request:
        asked = self._prompts.asked(k)[0]
        return exchange.record(id=k, phase=self.index, warmup=k < self._phase.warmup, asked_prompt_tokens=asked)

    async def _sleep_until(self, at_s: float) -> None:
        """Until an instant of the session, a change or the end of the phase."""
        left_s = at_s - self._now()
        if left_s <= 0 or self._stopped is not None:
            return
        if left_s < 0.02:
            await asyncio.sleep(left_s)
            return
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if left_s == math.inf else left_s):
                await self._changed.wait()
