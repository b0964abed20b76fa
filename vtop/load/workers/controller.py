"""Conducts a load: asks the server what it serves, gives the workers phase after phase, and says how each phase went.

Workers are processes of their own, so that neither drawing nor scraping touches what they measure. One that is lost
with its host costs its own requests: they are failures, and no other worker sends them.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from vtop import faults
from vtop.access import Endpoint
from vtop.errors import VtopError
from vtop.load.workers import probe
from vtop.load.workers.link import Hosts, ThisMachine
from vtop.load.workers.losses import unsent
from vtop.load.workers.protocol import (
    Aim,
    Begin,
    Done,
    Failed,
    Finish,
    News,
    Prepare,
    Pulse,
    Ready,
    Refused,
    Setup,
    Steady,
    Until,
)
from vtop.load.workers.worker_handle import WorkerHandle
from vtop.load.workers.worker_pool import STOP_S, WorkerPool
from vtop.load.workload.phase import WARMUP_LIMIT_S, PlannedPhase
from vtop.recording.events import Event, Host, Note
from vtop.recording.vocabulary import LoadState

SETTLE_S = 2.0  # between two phases
RETRY_S = 1.0  # while the server is not up
LEAD_S = 0.2  # from an order to its taking hold, so that all workers do it together
AIM_LEAD_S = 0.5  # of another rate: longer than requests are made ready before their time
READY_S = 120.0
END_S = 3.0  # for a worker to end what was broken off
STEP = 1.25  # of the target, by the keys that raise and lower it


class Controller:
    """A load on one server, on a thread of its own.

    clock: seconds of the session; origin_s: where that clock began on this machine's monotonic one. A server that is
    not up yet is waited for. The phases before `first` have been run by another. `failed` says in a sentence why the
    load could not be, or not go on; `short`, why a phase ended early. hosts: where its workers run.
    """

    def __init__(
        self,
        phases: Sequence[PlannedPhase],
        endpoint: Endpoint,
        append: Callable[[Event], None],
        clock: Callable[[], float],
        origin_s: float,
        *,
        server: int = 0,
        model: str | None = None,
        slo: dict[str, float] | None = None,
        first: int = 0,
        hosts: Hosts | None = None,
    ) -> None:
        self._phases = tuple(phases)
        self._endpoint = endpoint
        self._first = first
        self._append = append
        self._clock = clock
        self._origin_s = origin_s
        self._server = server
        self._model = model
        self._slo = slo
        self.settle_s = SETTLE_S
        self.failed: str | None = None
        self.short: str | None = None
        self.finished = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._conduct, name="load", daemon=True)
        self._hosts = hosts or ThisMachine()
        self._pool = WorkerPool(self._hosts, append, clock, heard=self._hear, lost=self._lose, broken=self._fail)
        self._at_work: list[WorkerHandle] = []  # in the phase that runs
        self._losses: list[str] = []  # of it: how each went
        self._aims: list[Aim] = []  # of it
        self._refused: set[str] = set()
        self._steady_s = 0.0  # when the warm-up of the phase was through
        self._phase: int | None = None  # that runs
        self._target: PlannedPhase | None = None  # of it, as changed by hand

    def start(self) -> None:
        self._thread.start()

    @property
    def pids(self) -> list[int]:
        """The processes of the workers that were started."""
        return [work.link.pid for work in self._pool.works]

    def change(self, direction: int) -> bool:
        """Raise (1) or lower (-1) the target of the phase that runs; False where none does."""
        if self._phase is None or self._target is None:
            return False
        phase = self._target
        if phase.concurrency is not None:
            step = max(1, round(phase.concurrency * (STEP - 1)))
            aimed = replace(phase, concurrency=max(len(self._at_work), phase.concurrency + direction * step))
        elif phase.rate_per_s is not None:
            aimed = replace(phase, rate_per_s=round(phase.rate_per_s * STEP**direction, 6))
        else:
            return False
        self._target = aimed
        aim = Aim(self._clock() + AIM_LEAD_S, concurrency=aimed.concurrency, rate_per_s=aimed.rate_per_s)
        self._aims.append(aim)
        self._pool.tell(aim)
        self._put_down(self._phase, aimed, "change")
        return True

    def abort(self) -> None:
        """Break off at once; the server sees its clients gone. The session goes on without load."""
        self._stopped.set()
        self._pool.tell(Finish())
        with self._pool.changed:
            self._pool.changed.notify_all()

    def stop(self) -> None:
        """Leave no process behind, and no request without its end on record. Returns in little more than a second."""
        self.abort()
        if self._thread.is_alive():  # it has the phase's end to write
            self._thread.join(STOP_S)
        self._pool.dismiss()
        self.finished.set()

    # --- the thread that conducts ----------------------------------------------------------------------------------

    def _conduct(self) -> None:
        try:
            setup = self._asked()
            if setup is not None:
                self._pool.start(setup)
                self._run_phases()
        except VtopError as error:
            self.failed = str(error)
        except Exception as error:
            self.failed = faults.put_down(error, "leading the load")
        finally:
            self._pool.dismiss()
            if self.failed is not None:
                self._say(self.failed)
            self.finished.set()

    def _asked(self) -> Setup | None:
        served = self._served()
        if served is None:
            return None
        served.check(self._phases)
        return Setup(
            origin_s=self._origin_s,
            endpoint=self._endpoint,
            model=served.name,
            phases=self._phases,
            vocabulary=probe.vocabulary(self._endpoint, served.name),
            entropy=secrets.token_hex(16),
            worker=0,
            workers=max(phase.pool for phase in self._phases[self._first :]),
        )

    def _served(self) -> probe.Model | None:
        """What the server serves, once it is up; None when the load was stopped before."""
        said = False
        while not self._stopped.is_set():
            try:
                return probe.model(self._endpoint, self._model)
            except probe.NotUp as error:
                if not said:
                    self._say(f"the load waits for the server: {error}")
                said = True
                self._stopped.wait(RETRY_S)
        return None

    def _run_phases(self) -> None:
        for index, phase in enumerate(self._phases[self._first :], self._first):
            if index > self._first:
                self._stopped.wait(self.settle_s)
                self._served()  # it may have gone down meanwhile
            self._at_work = [work for work in self._pool.works if not work.gone][: phase.pool]
            self._losses, self._aims = [], []
            ahead_s = self._clocks(index)
            for place, work in enumerate(self._at_work):
                work.tell(Prepare(index, place, len(self._at_work), ahead_s.get(work.link.host, 0.0)))
            if not self._wait_for(lambda work, index=index: work.ready == index, READY_S):  # type: ignore[misc]
                if not self._stopped.is_set():
                    self.failed = self.failed or f"{phase.name} could not be made ready in {READY_S:.0f} s"
                return
            self._run_phase(index, phase)
            if self.failed is not None or self._stopped.is_set():
                return

    def _run_phase(self, index: int, phase: PlannedPhase) -> None:
        def done(work: WorkerHandle) -> bool:
            return work.done is not None and work.done.phase == index

        for work in self._pool.works:
            work.pulse = None  # how it did in the phase before is no news
            work.begun.clear()
        self._phase, self._target = index, phase
        self._put_down(index, phase, "begin")
        began_s = self._clock() + LEAD_S
        self._pool.tell(Begin(index, began_s), self._at_work)
        limit_s = WARMUP_LIMIT_S if phase.warmup else None
        steady = self._wait_for(lambda work: work.steady == index or done(work), limit_s)
        early: str | None = None
        if not steady and not self._stopped.is_set() and self.failed is None:
            early = f"its warm-up took longer than {WARMUP_LIMIT_S:.0f} s"
            self._pool.tell(Finish(), self._at_work)
        until_s = math.inf
        if phase.concurrency is not None:
            from_s = max(began_s, self._steady_s)
            until_s = from_s + phase.for_s if phase.for_s is not None else began_s + phase.limit_s
            self._pool.tell(Until(until_s), self._at_work)
        # once it is being broken off, only for what that takes
        if not self._wait_for(done):
            self._pool.tell(Finish(), self._at_work)
            self._wait_for(done, END_S, stoppable=False)
        self._phase = None
        self._fail_unsent(index, phase, began_s, until_s)
        if early is None and phase.for_s is None and self._clock() >= began_s + phase.limit_s:
            early = "time is up"
        reason = "stopped" if self._stopped.is_set() else self.failed or early or self._reason(index)
        if reason not in ("done", "stopped"):
            self.short = f"{phase.name}: {reason}"
        self._put_down(index, phase, "end", reason)
        self._clocks(index, after=True)

    def _wait_for(
        self, met: Callable[[WorkerHandle], bool], timeout_s: float | None = None, *, stoppable: bool = True
    ) -> bool:
        """Whether all of the phase's workers are so far, but for those that were lost and that others go on without.

        Waits no longer than until the load has failed, or is to stop (if stoppable).
        """

        def so_far() -> bool:
            return all(met(work) or work.gone for work in self._at_work)

        def over() -> bool:
            return so_far() or (stoppable and (self.failed is not None or self._stopped.is_set()))

        with self._pool.changed:
            self._pool.changed.wait_for(over, timeout_s)
            return so_far() and (self.failed is None or all(map(met, self._at_work)))

    def _reason(self, index: int) -> str:
        """Why a phase ended, of all its workers: done, or what the first of them says that ended early."""
        ends = [work.done for work in self._at_work]
        ended = [end for end in ends if end is not None and end.phase == index]
        if self._losses:
            several = len(self._losses) > 1
            return f"{len(self._losses)} of {len(self._at_work)} workers {'were' if several else 'was'} lost"
        if unfinished := sum(end.unfinished for end in ended):
            return f"{unfinished} unfinished: no answer came any more"
        return next((end.reason for end in ended if end.reason != "done"), "done")

    def _fail_unsent(self, index: int, phase: PlannedPhase, began_s: float, until_s: float) -> None:
        """The requests that lost workers were to send: nobody sends them, so they have failed, each when it was due."""
        if self._stopped.is_set() or (phase.concurrency is not None and self._clock() >= until_s):
            return  # a closed loop that time ends has no request that would have to be sent
        for request in unsent(index, phase, self._at_work, self._aims, began_s):
            if request.due_s is not None and not self._goes_on_till(request.due_s):
                break
            self._append(msgspec.structs.replace(request, end_s=round(self._clock(), 6)))

    def _goes_on_till(self, at_s: float) -> bool:
        """Wait until an instant of the phase's schedule; False where the load does not go on till then."""
        left_s = at_s - self._clock()
        return left_s <= 0 or (self.failed is None and not self._stopped.wait(left_s))

    def _clocks(self, index: int, *, after: bool = False) -> dict[int | None, float]:
        """Measure the clocks of the hosts and put down what they say; how far each is ahead, in seconds."""
        found = self._hosts.clocks()
        for clock in found:
            self._append(clock.line(index, self._clock(), after=after))
        return {clock.host: clock.offset.offset_s for clock in found}

    # --- what workers say ------------------------------------------------------------------------------------------

    def _hear(self, work: WorkerHandle, news: News) -> None:
        match news:
            case Ready(phase=phase, caveats=caveats):
                work.ready = phase
                if self._speaks(work):
                    for caveat in caveats:
                        self._say(f"{self._phases[phase].name}: {caveat}")
            case Steady(phase=phase):
                work.steady = phase
                self._note_steady(phase)
            case Done():
                work.done = news
            case Failed(why=why):
                self.failed = self.failed or why
            case Refused(field=field, why=why):
                if field not in self._refused:
                    self._refused.add(field)
                    self._say(
                        f"the server does not take {field}; requests go without it"
                        if why is None
                        else f"answers broke off ({why}): from here on requests go without {field}, and answers are at "
                        "most as long as asked"
                    )
            case Pulse():
                work.pulse = news
                if self._speaks(work) and self._phase is not None:
                    self._append(self._host(work.link.host))

    def _speaks(self, work: WorkerHandle) -> bool:
        """For the workers of its host, of which each has the same to say."""
        return work is next((one for one in self._at_work if one.link.host == work.link.host and not one.gone), None)

    def _lose(self, work: WorkerHandle, why: str) -> None:
        """A worker ended that nobody had dismissed. On this machine that is a fault; hosts of a cluster come and go."""
        if work.link.host is None or all(one.gone for one in self._at_work):
            self._fail(why)
        elif work in self._at_work and not self._stopped.is_set():
            self._losses.append(why)
            self._say(f"{why}: its requests count as failed, and the load goes on without it")

    def _fail(self, why: str) -> None:
        if not self._stopped.is_set():
            self.failed = self.failed or why

    def _note_steady(self, index: int) -> None:
        phase = self._phases[index]
        if all(work.steady == index or work.gone for work in self._at_work):
            self._steady_s = self._clock()
            if phase.warmup:
                self._put_down(index, phase, "steady")

    # --- words -----------------------------------------------------------------------------------------------------

    def _host(self, host: int | None) -> Host:
        """How the workers of a host did."""
        pulses = [work.pulse for work in self._at_work if work.pulse is not None and work.link.host == host]
        return Host(
            at_s=round(self._clock(), 6),
            load_cpu_ratio=round(max(pulse.cpu_ratio for pulse in pulses), 4),
            load_lag_p50_s=round(max(pulse.lag_p50_s for pulse in pulses), 6),
            load_lag_max_s=round(max(pulse.lag_max_s for pulse in pulses), 6),
            load_host=host,
        )

    def _put_down(self, index: int, phase: PlannedPhase, state: LoadState, reason: str | None = None) -> None:
        self._append(phase.line(index, state, server=self._server, slo=self._slo, reason=reason))

    def _say(self, text: str) -> None:
        self._append(Note(source="load", text=text))
