"""The two orders in which requests wait: first come first served, or by priority.

Source: vLLM v1/core/sched/request_queue.py.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from vtop.engine.core.request import EngineRequest


class Fcfs:
    """First come, first served; a preempted request goes back to the front."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[EngineRequest] = deque()

    def add(self, request: EngineRequest) -> None:
        self._queue.append(request)

    def put_back(self, request: EngineRequest) -> None:
        self._queue.appendleft(request)

    def head(self) -> EngineRequest:
        return self._queue[0]

    def take(self) -> EngineRequest:
        return self._queue.popleft()

    def remove(self, request: EngineRequest) -> None:
        self._queue.remove(request)

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[EngineRequest]:
        return iter(self._queue)


class ByPriority:
    """The smallest priority first, among equals the earliest arrival; there is no front to put one back to."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, float, int, EngineRequest]] = []

    def add(self, request: EngineRequest) -> None:
        heapq.heappush(self._heap, (request.priority, request.arrival_s, request.id, request))

    put_back = add

    def head(self) -> EngineRequest:
        return self._heap[0][3]

    def take(self) -> EngineRequest:
        return heapq.heappop(self._heap)[3]

    def remove(self, request: EngineRequest) -> None:
        self._heap = [entry for entry in self._heap if entry[3] is not request]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[EngineRequest]:
        return (entry[3] for entry in sorted(self._heap, key=lambda entry: entry[:3]))


WaitingQueue = Fcfs | ByPriority
