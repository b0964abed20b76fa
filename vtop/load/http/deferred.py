"""What was read is understood later, when nothing is there to be read: so no stamp waits for another answer's meaning.

When the tokens of a thousand answers come in one step of the server, reading and stamping them all takes a few
milliseconds, understanding them as long again, and an answer's end, with the request after it, many times an event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 16  # between two looks at what is there to be read
SHARE: Final = 32  # or this part of what waits, so that a client that never comes to rest falls no further behind


class Backlog:
    """For one event loop. What waits is done in the order it came."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, work: Callable[[], None]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._do_some)
        self._waiting.append(work)

    def _do_some(self) -> None:
        waiting = self._waiting
        try:
            for _ in range(min(len(waiting), max(AT_ONCE, len(waiting) // SHARE))):
                waiting.popleft()()
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._do_some)
