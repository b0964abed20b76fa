"""Conducts a load: starts its workers, gives them phase after phase, and appends what they tell to the recording.

Workers are processes of their own, so that neither drawing nor scraping touches what they measure. They end when
the pipe from here does: no load outlives vtop, whatever kills it.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from vtop.errors import VtopError
from vtop.load import probe
from vtop.load.orders import NEWS, Aim, Begin, Done, Failed, Finish, News, Order, Pulse, Ready, Refused, Setup, Steady
from vtop.load.probe import Door
from vtop.load.spec import Phase
from vtop.recording.events import Event, Host, Load, Note, Request, decode

SETTLE_S = 2.0  # between two phases
RETRY_S = 1.0  # while the server is not up
LEAD_S = 0.2  # from an order to its taking hold, so that all workers do it together
READY_S = 30.0
STEP = 1.25  # of the target, by the keys that raise and lower it


class Conductor:
    """A load on one server, on a thread of its own.

    clock: seconds of the session; origin_s: where that clock began on this machine's monotonic one. A server that is
    not up yet is waited for. `failed` says in a sentence why the load could not be, or not go on.
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
        self.finished = threading.Event()
        self._stopped = threading.Event()
        self._news = threading.Condition()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._ready = self._gone = 0
        self._steady: set[tuple[int, int]] = set()
        self._done: dict[int, list[str]] = {}
        self._refused: set[str] = set()
        self._pulses: dict[int, Pulse] = {}
        self._phase: int | None = None  # that runs
        self._target: Phase | None = None  # of it, as changed by hand

    def start(self) -> None:
        threading.Thread(target=self._conduct, name="load", daemon=True).start()

    def _asked(self) -> Setup | None:
        """What the server says of itself, once it is up; None when the load was stopped or can never be."""
        said = False
        while not self._stopped.is_set():
            try:
                served = probe.model(self._door, self._model)
            except probe.NotUp as error:
                if not said:
                    self._say(f"the load waits for the server: {error}")
                said = True
                self._stopped.wait(RETRY_S)
                continue
            _check_fit(self._phases, served)
            return Setup(
                origin_s=self._origin_s,
                door=self._door,
                model=served.name,
                phases=self._phases,
                vocabulary=probe.vocabulary(self._door, served.name),
                entropy=secrets.token_hex(16),
                worker=0,
                workers=max(phase.workers for phase in self._phases),
            )
        return None

    def _start_workers(self, setup: Setup) -> None:
        for worker in range(setup.workers):
            process = subprocess.Popen(
                [sys.executable, "-m", "vtop.load.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # ctrl-c in the terminal is vtop's to pass on
            )
            self._workers.append(process)
            self._tell(process, msgspec.structs.replace(setup, worker=worker))
            threading.Thread(target=self._listen, args=(worker, process), name="load news", daemon=True).start()

    def change(self, direction: int) -> None:
        """Raise (1) or lower (-1) the target of the phase that runs."""
        if self._phase is None or self._target is None:
            return
        phase, at_s = self._target, self._clock() + LEAD_S
        if phase.concurrency is not None:
            step = max(1, round(phase.concurrency * (STEP - 1)))
            aimed = replace(phase, concurrency=max(1, phase.concurrency + direction * step))
        elif phase.rate_per_s is not None:
            aimed = replace(phase, rate_per_s=round(phase.rate_per_s * STEP**direction, 3))
        else:
            return
        self._target = aimed
        self._order(Aim(at_s, concurrency=aimed.concurrency, rate_per_s=aimed.rate_per_s))
        self._append(self._load(self._phase, aimed, "change"))

    def abort(self) -> None:
        """Break off at once; the server sees its clients gone. The session goes on without load."""
        self._stopped.set()
        self._order(Finish())
        with self._news:
            self._news.notify_all()

    def stop(self) -> None:
        """Leave no process behind. Returns within a fraction of a second."""
        self._stopped.set()
        for process in self._workers:
            if process.stdin is not None:
                try:
                    process.stdin.close()
                except OSError:
                    continue
        for process in self._workers:
            try:
                process.wait(timeout=0.15)
            except subprocess.TimeoutExpired:
                process.kill()
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
        if self.failed is not None:
            self._say(self.failed)
        self.finished.set()

    def _run_phases(self) -> None:
        everyone = len(self._workers)
        if not self._wait_for(lambda: self._ready == everyone, READY_S):
            self.failed = self.failed or (None if self._stopped.is_set() else "the load's workers did not start")
            return
        for index, phase in enumerate(self._phases):
            if index:
                self._stopped.wait(self.settle_s)
            if self._stopped.is_set():
                return
            self._phase, self._target = index, phase
            self._append(self._load(index, phase, "begin"))
            self._order(Begin(index, self._clock() + LEAD_S))
            if phase.warmup and self._wait_for(lambda: sum(at == self._phase for _, at in self._steady) == everyone):
                self._append(self._load(index, phase, "steady"))
            self._wait_for(lambda: len(self._done.get(self._phase or 0, ())) == everyone, stoppable=False)
            self._phase = None
            broke = next((reason for reason in self._done.get(index, ()) if reason != "done"), "done")
            reason = "stopped" if self._stopped.is_set() else self.failed or broke
            self._append(self._load(index, phase, "end", reason))
            if self.failed is not None:
                return

    def _wait_for(self, met: Callable[[], bool], timeout_s: float | None = None, *, stoppable: bool = True) -> bool:
        def over() -> bool:
            gone = self._gone == len(self._workers)
            return met() or gone or self.failed is not None or (stoppable and self._stopped.is_set())

        with self._news:
            self._news.wait_for(over, timeout_s)
            return met()

    def _listen(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        decoder = msgspec.json.Decoder(News)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(NEWS):
                self._hear(worker, decoder.decode(line[len(NEWS) :]))
            else:
                event = decode(line.rstrip(b"\n"))
                if isinstance(event, Request):
                    self._append(event)
        with self._news:
            self._gone += 1
            if not self._stopped.is_set() and not self.finished.is_set():
                self.failed = self.failed or "a load worker ended unexpectedly"
            self._news.notify_all()

    def _hear(self, worker: int, news: News) -> None:
        with self._news:
            match news:
                case Ready():
                    self._ready += 1
                case Steady(phase=phase):
                    self._steady.add((worker, phase))
                case Done(phase=phase, reason=reason):
                    self._done.setdefault(phase, []).append(reason)
                case Failed(why=why):
                    self.failed = why
                case Refused(field=field):
                    if field not in self._refused:
                        self._refused.add(field)
                        self._say(f"the server does not take {field}; requests go without it")
                case Pulse():
                    self._pulses[worker] = news
                    if worker == 0:
                        self._append(self._host())
            self._news.notify_all()

    def _host(self) -> Host:
        pulses = list(self._pulses.values())
        return Host(
            at_s=round(self._clock(), 6),
            load_cpu_ratio=round(max(pulse.cpu_ratio for pulse in pulses), 4),
            load_lag_p50_s=round(max(pulse.lag_p50_s for pulse in pulses), 6),
            load_lag_max_s=round(max(pulse.lag_max_s for pulse in pulses), 6),
        )

    def _order(self, order: Order) -> None:
        for process in self._workers:
            self._tell(process, order)

    def _tell(self, process: subprocess.Popen[bytes], what: Order | Setup) -> None:
        try:
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(what) + b"\n")
            process.stdin.flush()
        except (OSError, ValueError):
            return  # it ended; whoever listens to it will notice

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
