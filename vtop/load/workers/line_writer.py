"""Lines to the controller, written by a thread, so that a slow reader cannot hold up the requests."""

from __future__ import annotations

import queue
import sys
import threading

import msgspec

from vtop.load.workers.protocol import NEWS, News
from vtop.recording.events import Request, encode


class LineWriter:
    """What a worker says, on its standard output."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="voice", daemon=True)
        self._thread.start()

    def event(self, event: Request) -> None:
        self._lines.put(encode(event))

    def news(self, news: News) -> None:
        self._lines.put(NEWS + msgspec.json.encode(news))

    def close(self) -> None:
        self._lines.put(None)
        self._thread.join(timeout=1.0)

    def _write(self) -> None:
        out = sys.stdout.buffer
        try:
            while (line := self._lines.get()) is not None:
                lines = [line]
                while not self._lines.empty():
                    if (more := self._lines.get()) is None:
                        self._lines.put(None)
                        break
                    lines.append(more)
                lines.append(b"")
                out.write(b"\n".join(lines))
                out.flush()
        except (BrokenPipeError, ValueError):  # nobody listens any more; the end of the orders will tell
            return
