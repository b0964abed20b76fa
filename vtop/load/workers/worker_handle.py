"""One worker as the controller has it: told what to do, and what is known of it so far."""

from __future__ import annotations

import threading

import msgspec

from vtop.load.workers.link import WorkerLink
from vtop.load.workers.protocol import Done, Order, Pulse
from vtop.recording.events import Request


class WorkerHandle:
    """It runs from the start on; `gone` once it has ended and everything it said is on record."""

    def __init__(self, number: int, link: WorkerLink) -> None:
        self.number = number
        self.link = link
        self.gone = False
        self.under_way: dict[tuple[int, int], Request] = {}  # sent, not ended; by phase and id
        self.begun: set[int] = set()  # requests of the phase that runs; kept of workers on other hosts only
        self.ready: int | None = None  # the phase that it said so of; as are the next two
        self.steady: int | None = None
        self.done: Done | None = None
        self.pulse: Pulse | None = None
        self.listener: threading.Thread | None = None

    def tell(self, what: Order) -> None:
        self.link.tell(msgspec.json.encode(what))
