"""What /health says, asked with each scrape: it may hang just when the engine does, and no scrape waits for it.

As long as it answers at once it is asked on the connection of the scrapes. When it does not, it is asked on a thread
and a connection of its own, and a scrape is told the latest answer there was.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

from vtop.sources.connection import Failure

AT_ONCE_S: Final = 0.2


class Health:
    """near, far: make one request within so many seconds and give its HTTP status; raise Failure.

    `far` is called on another thread than `near`, never twice at the same time. patience_s: until no answer is one.
    every_s: a 200 stands for so long before it is asked for again.
    """

    def __init__(
        self,
        near: Callable[[float], int],
        far: Callable[[float], int],
        *,
        patience_s: float,
        name: str,
        every_s: float = 0.0,
    ) -> None:
        self._near = near
        self._far = far
        self._patience_s = patience_s
        self._name = name
        self._every_s = every_s
        self._good_until_s = -math.inf
        self._apart = False  # it was slow
        self._idle = threading.Event()
        self._idle.set()
        self._status: int | None = None

    def status(self) -> int | None:
        """The HTTP status, 0 for no answer; None where the first answer is still to come."""
        if not self._apart:
            if self._every_s and time.monotonic() < self._good_until_s:
                return self._status
            try:
                self._status = self._near(min(AT_ONCE_S, self._patience_s))
                self._good_until_s = time.monotonic() + self._every_s if self._status == 200 else -math.inf
                return self._status
            except Failure as failure:
                if failure.reason != "timeout":
                    self._status = 0
                    return 0
            self._apart = True  # from the next time on
            return self._status
        known = self._status
        if self._idle.is_set():
            self._idle.clear()
            threading.Thread(target=self._ask, name=self._name, daemon=True).start()
        return known

    def wait(self, seconds: float) -> None:
        """Until the request under way, which was ended from outside, has noticed."""
        self._idle.wait(seconds)

    def _ask(self) -> None:
        try:
            began_s = time.monotonic()
            self._status = self._far(self._patience_s)
            self._apart = time.monotonic() - began_s > AT_ONCE_S
        except Exception:
            self._status = 0
        finally:
            self._idle.set()
