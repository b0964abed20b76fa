"""The workers of a load together: started, listened to, and ended whatever happens.

They end when the line from here does: no load outlives vtop, whatever kills it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from vtop import faults
from vtop.load.workers.link import Hosts
from vtop.load.workers.protocol import NEWS, News, Order, Setup
from vtop.load.workers.worker_handle import WorkerHandle
from vtop.recording.events import Event, Request, decode

STOP_S = 1.0  # for all of them to end by themselves


class WorkerPool:
    """append: takes the lines of their requests. clock: seconds of the session.

    heard: is told what a worker says. lost: is told, in words, how a worker ended that nobody had dismissed. Both are
    called on a worker's own thread while `changed` is held, and those who wait for it look again afterwards. broken: is
    told what cannot be followed any more.
    """

    def __init__(
        self,
        hosts: Hosts,
        append: Callable[[Event], None],
        clock: Callable[[], float],
        *,
        heard: Callable[[WorkerHandle, News], None],
        lost: Callable[[WorkerHandle, str], None],
        broken: Callable[[str], None],
    ) -> None:
        self._hosts = hosts
        self._append = append
        self._clock = clock
        self._heard = heard
        self._lost = lost
        self._broken = broken
        self._dismissed = False
        self.changed = threading.Condition()
        self.works: list[WorkerHandle] = []

    def start(self, setup: Setup) -> None:
        for number, link in enumerate(self._hosts.start(setup.workers)):
            work = WorkerHandle(number, link)
            work.listener = threading.Thread(target=self._listen, args=(work,), name="load news", daemon=True)
            self.works.append(work)
            link.set_up(msgspec.structs.replace(setup, worker=number))
            work.listener.start()

    def tell(self, order: Order, works: Sequence[WorkerHandle] | None = None) -> None:
        """An order to all of them, or to some."""
        for work in self.works if works is None else works:
            work.tell(order)

    def dismiss(self) -> None:
        """End them: by the end of their orders, and those that do not hear it by force."""
        with self.changed:
            self._dismissed = True
        for work in self.works:
            work.link.hang_up()
        until_s = time.monotonic() + STOP_S
        for work in self.works:
            work.link.wait(max(0.0, until_s - time.monotonic()))
        for work in self.works:
            work.link.kill()
            if work.listener is not None and work.listener.is_alive():
                work.listener.join(STOP_S)

    def _listen(self, work: WorkerHandle) -> None:
        decoder = msgspec.json.Decoder(News)
        try:
            for line in work.link.lines():
                if not line.endswith(b"\n"):  # it was killed while it spoke
                    break
                if line.startswith(NEWS):
                    with self.changed:
                        self._heard(work, decoder.decode(line[len(NEWS) :]))
                        self.changed.notify_all()
                else:
                    self._hear_of(work, decode(line[:-1]))
        except Exception as error:  # what it says cannot be followed any more
            self._broken(faults.put_down(error, "listening to a load process"))
            work.link.kill()
        self._bury(work)

    def _hear_of(self, work: WorkerHandle, request: object) -> None:
        if not isinstance(request, Request):
            return
        if work.link.host is not None:
            request = msgspec.structs.replace(request, host=work.link.host)
            work.begun.add(request.id)
        key = request.phase, request.id
        if request.end_s is None:
            work.under_way[key] = request
        else:
            work.under_way.pop(key, None)
        self._append(request)

    def _bury(self, work: WorkerHandle) -> None:
        """It has ended: what it had under way has no other end."""
        why = work.link.last_word()
        work.link.kill()  # where it is only out of reach, it must not go on
        lost = work.link.host is not None and not self._dismissed
        for request in work.under_way.values():
            self._append(
                msgspec.structs.replace(
                    request,
                    end_s=round(self._clock(), 6),
                    error="worker_lost" if lost else "cancelled_at_end",
                    detail=why if lost else "the load process that sent it ended",
                )
            )
        work.under_way.clear()
        with self.changed:
            work.gone = True
            if not self._dismissed:
                self._lost(work, why)
            self.changed.notify_all()
