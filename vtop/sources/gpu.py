"""Every NVIDIA GPU of this host, read through NVML once per interval by a thread of its own.

A value that NVML does not give is None, by itself; a lost GPU keeps its row; a driver that goes, comes back or
hangs is a note. NVML numbers the GPUs: CUDA_VISIBLE_DEVICES does not renumber them, the UUID is the key.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Final

from vtop import faults
from vtop.recording.events import Event, Gpu, Note
from vtop.sources.nvml import (
    LIBRARY_NOT_FOUND,
    LOST,
    NO_PERMISSION,
    Nvml,
    NvmlDevice,
    open_device,
    read_device,
    serving,
)
from vtop.sources.processes import VisibleDevices, visible_devices

SILENT_S: Final = 5.0  # NVML has hung when it takes longer than this
QUIET_S: Final = 60.0  # between two notes about hanging, for a driver that is slow all the time
BACKOFF_S: Final = 30.0  # before NVML is tried again; doubled each time
BACKOFF_MAX_S: Final = 300.0
PIDS_EVERY_S: Final = 30.0

TROUBLE: Final = {
    NO_PERMISSION: "no permission for NVML; run as a user who may open /dev/nvidia*, or give the container its GPUs",
    9: "the NVIDIA driver is not loaded; load it (modprobe nvidia) or install it",
    LIBRARY_NOT_FOUND: "no GPU numbers: no NVML library here (libnvidia-ml.so.1); "
    "install the NVIDIA driver, or start the container with its GPUs",
    18: "NVML and the loaded driver are of different versions (driver upgraded?); reload the driver or reboot",
    999: "NVML answers Unknown Error to everything, the driver or the container has lost its GPUs; "
    "restart the container or reload the driver",
}


class GpuSource:
    """Appends one `Gpu` event per interval, and a `Note` when NVML is absent, gone, hanging or back.

    `clock` gives seconds since the session's start; `server_pids` the processes of the watched server on this host;
    `visible_to` the GPUs that CUDA shows to those; `nvml` stands in for pynvml; `wait` waits that many seconds and is
    True when it is time to stop.
    """

    def __init__(
        self,
        append: Callable[[Event], None],
        clock: Callable[[], float],
        interval_s: float = 1.0,
        server_pids: Callable[[], frozenset[int]] = frozenset,
        nvml: Any | None = None,
        *,
        visible_to: Callable[[frozenset[int]], VisibleDevices | None] = visible_devices,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._visible_to = visible_to
        self._append = append
        self._clock = clock
        self._interval_s = interval_s
        self._server_pids = server_pids
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._nvml = None if nvml is None else Nvml(nvml)
        self._devices: tuple[NvmlDevice, ...] = ()  # empty: NVML is not initialised
        self._pids: frozenset[int] = frozenset()
        self._visible: VisibleDevices | None = None
        self._pids_due_s = -math.inf
        self._trouble: str | None = None  # the last one noted, while it lasts
        self._trouble_since_s = 0.0
        self._retry_at_s = -math.inf
        self._backoff_s = BACKOFF_S
        self._lock = threading.Lock()  # over the three below: two threads look at them
        self._asked_at_s: float | None = None  # since when NVML owes an answer
        self._silent = False  # a hang was noted
        self._quiet_until_s = -math.inf

    def start(self) -> None:
        """Two daemon threads, for good: one reads, one watches whether NVML answers. None is ever replaced."""
        threading.Thread(target=self.run, name="gpu", daemon=True).start()
        threading.Thread(target=self._watch, name="gpu-watch", daemon=True).start()

    def look_again(self) -> None:
        """A server has appeared, perhaps as another process: ask for its processes at the next reading."""
        self._pids_due_s = -math.inf

    def stop(self) -> None:
        """Returns at once. A reading that hangs in the driver is left behind; it appends nothing any more."""
        self._stopped.set()

    def run(self) -> None:
        """Read at every tick until it is time to stop."""
        due_s = self._clock()
        while not self._wait(max(0.0, due_s - self._clock())):
            try:
                self.once()
            except Exception as error:  # of one reading: the next one tries again
                self._note_trouble(faults.put_down(error, "reading the GPUs"))
            due_s = next_tick(due_s, self._clock(), self._interval_s)

    def once(self) -> bool:
        """One reading on the calling thread; False when there is none."""
        now_s = self._clock()
        if now_s < self._retry_at_s:
            return False
        if now_s >= self._pids_due_s:
            self._pids_due_s = now_s + PIDS_EVERY_S  # first: another thread may want it at once meanwhile
            self._pids = self._server_pids()
            self._visible = self._visible_to(self._pids)
        with self._lock:
            self._asked_at_s = self._clock()
        try:
            reading = self._read()
        finally:
            self._answered()
        if reading is None:
            return False
        if self._trouble is not None:
            self._say(f"NVML answers again after {self._clock() - self._trouble_since_s:.0f} s")
        self._trouble = None
        self._backoff_s = BACKOFF_S
        if reading.took_s >= SILENT_S:
            return False  # begun before a hang and ended after it: its values are of no one instant
        self._emit(reading)
        return True

    def check(self) -> None:
        """Say that NVML does not answer, once per hang. For another thread than the one that reads."""
        now_s = self._clock()
        with self._lock:
            if self._asked_at_s is None or self._silent or now_s < self._quiet_until_s:
                return
            if now_s - self._asked_at_s >= SILENT_S:
                self._silent = True
                self._say(f"NVML has not answered for {int(now_s - self._asked_at_s)} s")

    def _watch(self) -> None:
        while not self._stopped.wait(1.0):
            self.check()

    def _answered(self) -> None:
        with self._lock:
            now_s = self._clock()
            if self._silent and self._asked_at_s is not None:
                self._say(f"NVML answers again after {now_s - self._asked_at_s:.0f} s")
                self._quiet_until_s = now_s + QUIET_S
            self._silent = False
            self._asked_at_s = None

    def _read(self) -> Gpu | None:
        """All GPUs now, initialising NVML first where needed; None when there is nothing to read."""
        nvml = self._nvml or self._load()
        if nvml is None:
            return None
        if not self._devices:
            self._devices = self._open(nvml)
        if not self._devices:
            return None
        at_s = self._clock()
        by = serving(nvml, self._devices, self._pids, self._visible)
        read = [read_device(nvml, device, whose) for device, whose in zip(self._devices, by, strict=True)]
        codes = [code for _, code in read]
        gone = next((code for code in codes if code not in LOST), None)
        if gone is not None and None not in codes:
            self._close(nvml, gone)
            return None
        return Gpu(at_s=at_s, took_s=self._clock() - at_s, gpus=tuple(reading for reading, _ in read))

    def _load(self) -> Nvml | None:
        try:
            import pynvml
        except ImportError:
            self._note_trouble("the package nvidia-ml-py is not installed, so no GPU numbers; pip install nvidia-ml-py")
            self._retry_at_s = math.inf
            return None
        self._nvml = Nvml(pynvml)
        return self._nvml

    def _open(self, nvml: Nvml) -> tuple[NvmlDevice, ...]:
        """The GPUs of this host; NVML stays initialised and the handles are kept. Empty after a trouble."""
        try:
            nvml.module.nvmlInit()
            count = nvml.module.nvmlDeviceGetCount()
        except nvml.module.NVMLError as error:
            self._close(nvml, error.value)
            return ()
        devices = tuple(open_device(nvml, index) for index in range(count))
        if not devices:
            self._close(nvml, None)
        return devices

    def _close(self, nvml: Nvml, code: int | None) -> None:
        """Let go of NVML because of an error, to initialise it anew later; without a code: it has no GPU."""
        self._devices = ()
        text = "NVML sees no GPU on this host"
        if code is not None:
            text = TROUBLE.get(code) or f"NVML gives no numbers: {nvml.module.NVMLError(code)} (code {code})"
        self._note_trouble(text)
        nvml.ask("nvmlShutdown")  # without it the next nvmlInit only counts up
        self._retry_at_s = math.inf if code == LIBRARY_NOT_FOUND else self._clock() + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_MAX_S)

    def _note_trouble(self, text: str) -> None:
        if self._trouble is None:
            self._trouble_since_s = self._clock()
        if text != self._trouble:
            self._trouble = text
            self._say(text)

    def _say(self, text: str) -> None:
        self._emit(Note(source="gpu", text=text))

    def _emit(self, event: Event) -> None:
        if not self._stopped.is_set():
            self._append(event)


def next_tick(due_s: float, now_s: float, interval_s: float) -> float:
    """The next instant of the grid that `due_s` is on. Missed ones are left out: no burst to catch up."""
    return due_s + interval_s * max(1, math.ceil((now_s - due_s) / interval_s))
