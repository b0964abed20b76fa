"""The machine that vtop runs on, being watched: how busy its cores are, and how much of that is vtop's own doing.

On a thread of its own, seldom: a reading is two numbers. Load processes are none of these; the load tells of them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vtop import faults
from vtop.recording.events import Event, Host, Note

EVERY_S = 5.0
STAT = Path("/proc/stat")

Ticks = tuple[int, int]  # (busy, all) of all cores together, since the machine was started


def ticks(stat: Path = STAT) -> Ticks | None:
    """What the cores did so far; None where the system does not say (it is not Linux)."""
    # user nice system idle iowait irq softirq steal; the two behind them are counted in user and nice already.
    # Time that a hypervisor gave to others (steal) was no more to be had than time in use
    with contextlib.suppress(OSError, ValueError), open(stat, "rb") as file:
        name, *counted = file.readline().split()
        numbers = [int(number) for number in counted[:8]]
        if name == b"cpu" and len(numbers) >= 4:
            return sum(numbers) - sum(numbers[3:5]), sum(numbers)
    return None


class HostSource:
    """Appends a `Host` event every EVERY_S.

    clock: seconds since the session's start. cores: what `ticks` gives. spent: CPU seconds of this process so far.
    wait: waits that many seconds and is True when it is time to stop.
    """

    def __init__(
        self,
        append: Callable[[Event], None],
        clock: Callable[[], float],
        *,
        cores: Callable[[], Ticks | None] = ticks,
        spent: Callable[[], float] = time.process_time,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._append = append
        self._clock = clock
        self._cores = cores
        self._spent = spent
        self._stopped = threading.Event()
        self._writing = threading.Lock()
        self._told: str | None = None  # the latest fault
        self._wait = wait or self._stopped.wait

    def start(self) -> None:
        threading.Thread(target=self.run, name="host", daemon=True).start()

    def stop(self) -> None:
        """No event comes after this."""
        with self._writing:
            self._stopped.set()

    def run(self) -> None:
        """Read until it is time to stop. A fault ends no session: it is a note, and reading begins anew."""
        while True:
            try:
                self._read()
                return
            except Exception as error:
                said = faults.put_down(error, "reading this machine's CPU")
                if said != self._told:
                    self._told = said
                    self._say(Note(source="host", text=said))
            if self._wait(EVERY_S):
                return

    def _read(self) -> None:
        """Until it is time to stop; each line tells of the time since the reading before."""
        before_s, before_cores, before_spent_s = self._clock(), self._cores(), self._spent()
        while not self._wait(EVERY_S):
            at_s, cores, spent_s = self._clock(), self._cores(), self._spent()
            if at_s > before_s:
                own = round((spent_s - before_spent_s) / (at_s - before_s), 4)
                self._say(Host(at_s=round(at_s, 6), cpu_ratio=_busy(before_cores, cores), vtop_cpu_ratio=own))
            before_s, before_cores, before_spent_s = at_s, cores, spent_s

    def _say(self, event: Host | Note) -> None:
        with self._writing:
            if not self._stopped.is_set():
                self._append(event)


def _busy(before: Ticks | None, now: Ticks | None) -> float | None:
    """The share of the cores' time between two readings that was used; None where no time is known to have passed."""
    if before is None or now is None or now[1] <= before[1]:
        return None
    # the kernel's count of waiting can go back a little
    return round(min(1.0, max(0.0, (now[0] - before[0]) / (now[1] - before[1]))), 4)
