"""Conducts a load: asks the server what it serves, gives the workers phase after phase, and says how each phase went.

Workers are processes of their own, so that neither drawing nor scraping touches what they measure.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from vtop import faults
from vtop.access import Endpoint
from vtop.errors import VtopError
from vtop.load.workers import probe
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
    load could not be, or not go on; `short`, why a phase ended early.
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
        self._pool = WorkerPool(append, clock, self._hear, self._lost)
        self._refused: set[str] = set()
        self._steady_s = 0.0  # when the warm-up of the phase was through
        self._phase: int | None = None  # that runs
        self._target: PlannedPhase | None = None  # of it, as changed by hand

    def start(self) -> None:
        self._thread.start()

    @property
    def pids(self) -> list[int]:
        """The processes of the workers that were started."""
        return [work.process.pid for work in self._pool.works]

    def change(self, direction: int) -> None:
        """Raise (1) or lower (-1) the target of the phase that runs."""
        if self._phase is None or self._target is None:
            return
        phase = self._target
        if phase.concurrency is not None:
            step = max(1, round(phase.concurrency * (STEP - 1)))
            aimed = replace(phase, concurrency=max(phase.pool, phase.concurrency + direction * step))
        elif phase.rate_per_s is not None:
            aimed = replace(phase, rate_per_s=round(phase.rate_per_s * STEP**direction, 6))
        else:
            return
        self._target = aimed
        self._pool.tell(Aim(self._clock() + AIM_LEAD_S, concurrency=aimed.concurrency, rate_per_s=aimed.rate_per_s))
        self._put_down(self._phase, aimed, "change")

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
            self._pool.tell(Prepare(index), phase.pool)
            if not self._wait_for(phase, lambda work, index=index: work.ready == index, READY_S):  # type: ignore[misc]
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
        self._phase, self._target = index, phase
        self._put_down(index, phase, "begin")
        began_s = self._clock() + LEAD_S
        self._pool.tell(Begin(index, began_s), phase.pool)
        limit_s = WARMUP_LIMIT_S if phase.warmup else None
        steady = self._wait_for(phase, lambda work: work.steady == index or done(work), limit_s)
        early: str | None = None
        if not steady and not self._stopped.is_set() and self.failed is None:
            early = f"its warm-up took longer than {WARMUP_LIMIT_S:.0f} s"
            self._pool.tell(Finish(), phase.pool)
        if phase.concurrency is not None:
            from_s = max(began_s, self._steady_s)
            until_s = from_s + phase.for_s if phase.for_s is not None else began_s + phase.limit_s
            self._pool.tell(Until(until_s), phase.pool)
        # once it is being broken off, only for what that takes
        if not self._wait_for(phase, done):
            self._pool.tell(Finish(), phase.pool)
            self._wait_for(phase, done, END_S, stoppable=False)
        self._phase = None
        if early is None and phase.for_s is None and self._clock() >= began_s + phase.limit_s:
            early = "time is up"
        reason = "stopped" if self._stopped.is_set() else self.failed or early or self._reason(index, phase)
        if reason not in ("done", "stopped"):
            self.short = f"{phase.name}: {reason}"
        self._put_down(index, phase, "end", reason)

    def _wait_for(
        self,
        phase: PlannedPhase,
        met: Callable[[WorkerHandle], bool],
        timeout_s: float | None = None,
        *,
        stoppable: bool = True,
    ) -> bool:
        """Whether all of the phase's workers are so far.

        Waits no longer than until one of them is gone, or the load is to stop (if stoppable).
        """
        works = self._pool.works[: phase.pool]

        def over() -> bool:
            if stoppable:
                broken = self.failed is not None or self._stopped.is_set()
                return broken or all(map(met, works))
            return all(met(work) or work.gone for work in works)

        with self._pool.changed:
            self._pool.changed.wait_for(over, timeout_s)
            return all(map(met, works))

    def _reason(self, index: int, phase: PlannedPhase) -> str:
        """Why a phase ended, of all its workers: done, or what the first of them says that ended early."""
        ends = [work.done for work in self._pool.works[: phase.pool]]
        ended = [end for end in ends if end is not None and end.phase == index]
        if unfinished := sum(end.unfinished for end in ended):
            return f"{unfinished} unfinished: no answer came any more"
        return next((end.reason for end in ended if end.reason != "done"), "done")

    # --- what workers say ------------------------------------------------------------------------------------------

    def _hear(self, work: WorkerHandle, news: News) -> None:
        match news:
            case Ready(phase=phase, caveats=caveats):
                work.ready = phase
                if work.number == 0:
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
                if work.number == 0 and self._phase is not None:
                    self._append(self._host(self._phases[self._phase]))

    def _lost(self, why: str) -> None:
        if not self._stopped.is_set():
            self.failed = self.failed or why

    def _note_steady(self, index: int) -> None:
        phase = self._phases[index]
        if all(work.steady == index for work in self._pool.works[: phase.pool]):
            self._steady_s = self._clock()
            if phase.warmup:
                self._put_down(index, phase, "steady")

    # --- words -----------------------------------------------------------------------------------------------------

    def _host(self, phase: PlannedPhase) -> Host:
        pulses = [work.pulse for work in self._pool.works[: phase.pool] if work.pulse is not None]
        return Host(
            at_s=round(self._clock(), 6),
            load_cpu_ratio=round(max(pulse.cpu_ratio for pulse in pulses), 4),
            load_lag_p50_s=round(max(pulse.lag_p50_s for pulse in pulses), 6),
            load_lag_max_s=round(max(pulse.lag_max_s for pulse in pulses), 6),
        )

    def _put_down(self, index: int, phase: PlannedPhase, state: LoadState, reason: str | None = None) -> None:
        self._append(phase.line(index, state, server=self._server, slo=self._slo, reason=reason))

    def _say(self, text: str) -> None:
        self._append(Note(source="load", text=text))
