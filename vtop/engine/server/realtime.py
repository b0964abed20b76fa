"""Lets a simulated server act in time on an asyncio loop, whose clock it takes: a real one, or a test's.

A stall holds back what the server would say; the engine behind it goes on, as a real one does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from vtop.engine.server.simulated import SimulatedServer

NEVER = float("inf")


class Pump:
    """To be made in the loop that it is for; the server's clock begins then."""

    def __init__(self, server: SimulatedServer) -> None:
        self.server = server
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def now(self) -> float:
        """Seconds since the server started."""
        return self._loop.time() - self._began_s

    @contextlib.contextmanager
    def changing(self) -> Iterator[float]:
        """Around anything that the server is asked for; what it does next may then come sooner. The time."""
        now_s = self.now()
        self.server.go_to(now_s)
        try:
            yield now_s
        finally:
            self._arm()

    async def silence(self) -> None:
        """Wait for the end of a stall."""
        now_s = self.now()
        while (until_s := self.server.faults.silent_until_s(now_s)) is not None:
            await asyncio.sleep(until_s - now_s)
            now_s = max(until_s, self.now())

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_s = self.server.next_s()
        if next_s != NEVER:
            self._timer = self._loop.call_at(self._began_s + next_s, self._act, next_s)

    def _act(self, due_s: float) -> None:
        self._timer = None
        self.server.go_to(max(due_s, self.now()))  # a loop may call a little early
        self._arm()
