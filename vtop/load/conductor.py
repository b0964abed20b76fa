"""Conducts a load: starts its workers, gives them phase after phase, and appends what they tell to the recording.

Workers are processes of their own, so that neither drawing nor scraping touches what they measure. They end when
the pipe from here does: no load outlives vtop, whatever kills it.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO

import msgspec

from vtop.errors import VtopError
from vtop.load import probe
from vtop.load.orders import (
    NEWS,
    Aim,
    Begin,
    Done,
    Failed,
    Finish,
    News,
    Order,
    Prepare,
    Pulse,
    Ready,
    Refused,
    Setup,
    Steady,
    Until,
)
from vtop.load.phase import WARMUP_LIMIT_S, Phase
from vtop.load.probe import Door
from vtop.recording.events import Event, Host, Load, Note, Request, decode

SETTLE_S = 2.0  # between two phases
RETRY_S = 1.0  # while the server is not up
LEAD_S = 0.2  # from an order to its taking hold, so that all workers do it together
AIM_LEAD_S = 0.5  # of another rate: longer than requests are made ready before their time
READY_S = 120.0
END_S = 3.0  # for a worker to end what was broken off
STOP_S = 1.0  # for all of them to end by themselves
STEP = 1.25  # of the target, by the keys that raise and lower it


class Work:
    """A worker: its process, and what is known of it."""

    def __init__(self, number: int, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.number = number
        self.process = process
        self.errors = errors  # its standard error: a screen may be where vtop's goes
        self.gone = False
        self.under_way: dict[tuple[int, int], Request] = {}  # sent, not ended; by phase and id
        self.ready: int | None = None
        self.steady: int | None = None
        self.done: Done | None = None
        self.pulse: Pulse | None = None
        self.listener: threading.Thread | None = None

    def tell(self, what: Order | Setup) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it ended, or a second signal came
            assert self.process.stdin is not None
            self.process.stdin.write(msgspec.json.encode(what) + b"\n")
            self.process.stdin.flush()

    def last_word(self) -> str:
        """How it ended, in words."""
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode("utf-8", "replace").split("\n")
        why = next((line.strip() for line in reversed(said) if line.strip()), "")
        if code < 0:
            why = f"killed by {signal.Signals(-code).name}"
        return f"a load process ended unexpectedly ({why or f'exit code {code}'})"


class Conductor:
    """A load on one server, on a thread of its own.

    clock: seconds of the session; origin_s: where that clock began on this machine's monotonic one. A server that is
    not up yet is waited for. `failed` says in a sentence why the load could not be, or not go on; `short`, why a phase
    ended early.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        door: Door,
        append: Callable[[Event], None],
        clock: Callable[[], float],
        origin_s: float,
        *,
        server: int = 0,
        model: str | None = None,
        slo: dict[str, float] | None = None,
    ) -> None:
        self._phases = tuple(phases)
        self._door = door
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
        self._news = threading.Condition()
        self._works: list[Work] = []
        self._dismissed = False
        self._refused: set[str] = set()
        self._steady_s = 0.0  # when the warm-up of the phase was through
        self._phase: int | None = None  # that runs
        self._target: Phase | None = None  # of it, as changed by hand

    def start(self) -> None:
        self._thread.start()

    def change(self, direction: int) -> None:
        """Raise (1) or lower (-1) the target of the phase that runs."""
        if self._phase is None or self._target is None:
            return
        phase = self._target
        if phase.concurrency is not None:
            step = max(1, round(phase.concurrency * (STEP - 1)))
            aimed = replace(phase, concurrency=max(phase.crew, phase.concurrency + direction * step))
        elif phase.rate_per_s is not None:
            aimed = replace(phase, rate_per_s=round(phase.rate_per_s * STEP**direction, 6))
        else:
            return
        self._target = aimed
        self._order(Aim(self._clock() + AIM_LEAD_S, concurrency=aimed.concurrency, rate_per_s=aimed.rate_per_s))
        self._append(self._load(self._phase, aimed, "change"))

    def abort(self) -> None:
        """Break off at once; the server sees its clients gone. The session goes on without load."""
        self._stopped.set()
        self._order(Finish())
        with self._news:
            self._news.notify_all()

    def stop(self) -> None:
        """Leave no process behind, and no request without its end on record. Returns in little more than a second."""
        self.abort()
        if self._thread.is_alive():  # it has the phase's end to write
            self._thread.join(STOP_S)
        self._dismiss()
        self.finished.set()

    # --- the thread that conducts ----------------------------------------------------------------------------------

    def _conduct(self) -> None:
        try:
            setup = self._asked()
            if setup is not None:
                self._start_workers(setup)
                self._run_phases()
        except VtopError as error:
            self.failed = str(error)
        except BaseException as error:
            self.failed = f"the load broke: {error!r}"
            raise
        finally:
            self._dismiss()
            if self.failed is not None:
                self._say(self.failed)
            self.finished.set()

    def _asked(self) -> Setup | None:
        served = self._served()
        if served is None:
            return None
        _check_fit(self._phases, served)
        return Setup(
            origin_s=self._origin_s,
            door=self._door,
            model=served.name,
            phases=self._phases,
            vocabulary=probe.vocabulary(self._door, served.name),
            entropy=secrets.token_hex(16),
            worker=0,
            workers=max(phase.crew for phase in self._phases),
        )

    def _served(self) -> probe.Model | None:
        """What the server serves, once it is up; None when the load was stopped before."""
        said = False
        while not self._stopped.is_set():
            try:
                return probe.model(self._door, self._model)
            except probe.NotUp as error:
                if not said:
                    self._say(f"the load waits for the server: {error}")
                said = True
                self._stopped.wait(RETRY_S)
        return None

    def _start_workers(self, setup: Setup) -> None:
        for number in range(setup.workers):
            errors = tempfile.TemporaryFile()
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "vtop.load.worker"],  # -P: what lies in this folder is none of ours
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # ctrl-c in the terminal is vtop's to pass on
            )
            work = Work(number, process, errors)
            work.listener = threading.Thread(target=self._listen, args=(work,), name="load news", daemon=True)
            self._works.append(work)
            work.tell(msgspec.structs.replace(setup, worker=number))
            work.listener.start()

    def _run_phases(self) -> None:
        for index, phase in enumerate(self._phases):
            if index:
                self._stopped.wait(self.settle_s)
                self._served()  # it may have gone down meanwhile
            crew = self._works[: phase.crew]
            _order(crew, Prepare(index))
            if not self._wait_for(crew, lambda work, index=index: work.ready == index, READY_S):  # type: ignore[misc]
                if not self._stopped.is_set():
                    self.failed = self.failed or f"{phase.name} could not be made ready in {READY_S:.0f} s"
                return
            self._run_phase(index, phase, crew)
            if self.failed is not None or self._stopped.is_set():
                return

    def _run_phase(self, index: int, phase: Phase, crew: list[Work]) -> None:
        def done(work: Work) -> bool:
            return work.done is not None and work.done.phase == index

        self._phase, self._target = index, phase
        self._append(self._load(index, phase, "begin"))
        began_s = self._clock() + LEAD_S
        _order(crew, Begin(index, began_s))
        limit_s = WARMUP_LIMIT_S if phase.warmup else None
        steady = self._wait_for(crew, lambda work: work.steady == index or done(work), limit_s)
        early: str | None = None
        if not steady and not self._stopped.is_set() and self.failed is None:
            early = f"its warm-up took longer than {WARMUP_LIMIT_S:.0f} s"
            _order(crew, Finish())
        if phase.concurrency is not None:
            from_s = max(began_s, self._steady_s)
            _order(crew, Until(from_s + phase.for_s if phase.for_s is not None else began_s + phase.limit_s))
        # once it is being broken off, only for what that takes
        if not self._wait_for(crew, done):
            _order(crew, Finish())
            self._wait_for(crew, done, END_S, stoppable=False)
        self._phase = None
        if early is None and phase.for_s is None and self._clock() >= began_s + phase.limit_s:
            early = "time is up"
        reason = "stopped" if self._stopped.is_set() else self.failed or early or _reason(crew, index)
        if reason not in ("done", "stopped"):
            self.short = f"{phase.name}: {reason}"
        self._append(self._load(index, phase, "end", reason))

    def _wait_for(
        self, crew: list[Work], met: Callable[[Work], bool], timeout_s: float | None = None, *, stoppable: bool = True
    ) -> bool:
        """Whether all are so far; no longer than until one of them is gone, or the load is to stop (if stoppable)."""

        def over() -> bool:
            if stoppable:
                broken = self.failed is not None or self._stopped.is_set()
                return broken or all(map(met, crew))
            return all(met(work) or work.gone for work in crew)

        with self._news:
            self._news.wait_for(over, timeout_s)
            return all(map(met, crew))

    # --- what workers say ------------------------------------------------------------------------------------------

    def _listen(self, work: Work) -> None:
        decoder = msgspec.json.Decoder(News)
        assert work.process.stdout is not None
        try:
            for line in work.process.stdout:
                if not line.endswith(b"\n"):  # it was killed while it spoke
                    break
                if line.startswith(NEWS):
                    self._hear(work, decoder.decode(line[len(NEWS) :]))
                else:
                    self._hear_of(work, decode(line[:-1]))
        finally:
            self._bury(work)

    def _hear_of(self, work: Work, request: object) -> None:
        if not isinstance(request, Request):
            return
        key = request.phase, request.id
        if request.end_s is None:
            work.under_way[key] = request
        else:
            work.under_way.pop(key, None)
        self._append(request)

    def _hear(self, work: Work, news: News) -> None:
        with self._news:
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
                case Refused(field=field):
                    if field not in self._refused:
                        self._refused.add(field)
                        self._say(f"the server does not take {field}; requests go without it")
                case Pulse():
                    work.pulse = news
                    if work.number == 0:
                        self._append(self._host())
            self._news.notify_all()

    def _note_steady(self, index: int) -> None:
        phase = self._phases[index]
        if all(work.steady == index for work in self._works[: phase.crew]):
            self._steady_s = self._clock()
            if phase.warmup:
                self._append(self._load(index, phase, "steady"))

    def _bury(self, work: Work) -> None:
        """It has ended: what it had under way has no other end."""
        why = work.last_word()
        for request in work.under_way.values():
            ended_s = round(self._clock(), 6)
            self._append(
                msgspec.structs.replace(
                    request, end_s=ended_s, error="cancelled_at_end", detail="the load process that sent it ended"
                )
            )
        work.under_way.clear()
        work.errors.close()
        for pipe in (work.process.stdout, work.process.stdin):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with self._news:
            work.gone = True
            if not self._stopped.is_set() and not self._dismissed:
                self.failed = self.failed or why
            self._news.notify_all()

    def _dismiss(self) -> None:
        """End the workers: by the end of their orders, and those that do not hear it by force."""
        with self._news:
            self._dismissed = True
        for work in self._works:
            if work.process.stdin is not None:
                with contextlib.suppress(OSError):
                    work.process.stdin.close()
        until_s = time.monotonic() + STOP_S
        for work in self._works:
            with contextlib.suppress(subprocess.TimeoutExpired):
                work.process.wait(max(0.0, until_s - time.monotonic()))
        for work in self._works:
            work.process.kill()
            if work.listener is not None and work.listener.is_alive():
                work.listener.join(STOP_S)

    # --- words -----------------------------------------------------------------------------------------------------

    def _host(self) -> Host:
        pulses = [work.pulse for work in self._works if work.pulse is not None]
        return Host(
            at_s=round(self._clock(), 6),
            load_cpu_ratio=round(max(pulse.cpu_ratio for pulse in pulses), 4),
            load_lag_p50_s=round(max(pulse.lag_p50_s for pulse in pulses), 6),
            load_lag_max_s=round(max(pulse.lag_max_s for pulse in pulses), 6),
        )

    def _order(self, order: Order) -> None:
        _order(self._works, order)

    def _load(self, index: int, phase: Phase, state: str, reason: str | None = None) -> Load:
        return Load(
            phase=index,
            state=state,
            spec=phase.spec,
            shape=phase.shape,
            server=self._server,
            concurrency=phase.concurrency,
            rate_per_s=phase.rate_per_s,
            arrival=phase.arrival,
            max_in_flight=phase.max_in_flight,
            input_tokens=(phase.input.low, phase.input.high) if phase.input is not None else None,
            output_tokens=(phase.output.low, phase.output.high) if phase.output is not None else None,
            requests=phase.requests,
            for_s=phase.for_s,
            warmup=phase.warmup,
            seed=phase.seed,
            api=phase.api,
            workers=phase.workers,
            slo=self._slo,
            reason=reason,
        )

    def _say(self, text: str) -> None:
        self._append(Note(source="load", text=text))


def _order(crew: Sequence[Work], order: Order) -> None:
    for work in crew:
        work.tell(order)


def _reason(crew: Sequence[Work], index: int) -> str:
    """Why a phase ended, of all its workers: done, or what the first of them says that ended early."""
    ends = [work.done for work in crew if work.done is not None and work.done.phase == index]
    if unfinished := sum(end.unfinished for end in ends):
        return f"{unfinished} unfinished: no answer came any more"
    return next((end.reason for end in ends if end.reason != "done"), "done")


def _check_fit(phases: Sequence[Phase], served: probe.Model) -> None:
    for phase in phases:
        if served.max_model_len is None or phase.input is None or phase.output is None:
            continue
        longest = phase.input.high + phase.output.high
        if longest > served.max_model_len:
            raise VtopError(
                f"{phase.name}: {phase.input.high} tokens in and {phase.output.high} out are more than "
                f"{served.name} takes ({served.max_model_len}); write in=… out=… that fit"
            )
