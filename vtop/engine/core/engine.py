"""The whole server on virtual time: its frontend's event loop, the engine's thread and the GPU, event by event.

The engine's thread does one thing at a time, as vLLM's does (v1/engine/core.py, step_with_batch_queue): it polls its
input queue, plans a step, launches it, and, with async scheduling, plans and launches the next one before it waits
for the first. A request that comes while it launches or waits is seen when it is done.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from vtop.engine.core.flags import Flags
from vtop.engine.core.host_drift import HostDrift
from vtop.engine.core.model_shape import ModelShape, StepWork
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.scheduler import Scheduler
from vtop.engine.core.step import StepOutcome, StepPlan
from vtop.engine.core.timing import Frontend, GpuSpeed, Timing

PARSE, SUBMIT = range(2)
NEVER: Final = float("inf")


class Engine:
    """A simulated vLLM server. Give it requests with `submit`, in the order of time, and let it act with `advance`.

    It knows no clock: `next_s` says when it will act next, and whoever drives it goes there at once, or waits.
    """

    def __init__(
        self,
        flags: Flags,
        timing: Timing,
        frontend: Frontend,
        shape: ModelShape,
        *,
        tell_batch: bool = False,
        drift: HostDrift | None = None,
    ) -> None:
        """drift: of the host that the engine's thread runs on; None: always as fast."""
        self.flags = flags
        self.shape = shape
        self.frontend = frontend
        self.scheduler = Scheduler(flags, tell_batch=tell_batch)
        self.now_s = 0.0  # of the engine's thread
        self.gpu = GpuSpeed(timing, shape, flags)
        self._drift = drift
        self._depth = 2 if flags.async_scheduling else 1
        self._in_flight: deque[tuple[StepPlan, float]] = deque()  # a plan and when the GPU is done with it
        self._gpu_free_s = 0.0
        self._input: deque[tuple[float, EngineRequest]] = deque()  # when it is there
        self._jobs: list[tuple[float, int, int, EngineRequest]] = []  # of the frontend: ready at, order, kind
        self._order = 0
        self._frontend_free_s = 0.0
        self._aborts: list[tuple[float, EngineRequest]] = []
        self._may_plan = True  # False: the last plan was empty, and nothing has changed since

    def submit(self, request: EngineRequest, at_s: float) -> None:
        """The client's request is there, at_s. Raises ValueError for one that could never finish."""
        self.scheduler.check(request)
        request.sent_s = at_s
        self._job(at_s, PARSE, request)

    def abort(self, request: EngineRequest, at_s: float) -> None:
        """The client went away: the engine learns of it between two steps."""
        self._aborts.append((at_s, request))

    def next_s(self) -> float:
        """When the engine acts next; infinity when it has nothing to do."""
        if self._in_flight:
            if len(self._in_flight) < self._depth and self._plannable():
                return self.now_s
            return max(self.now_s, self._in_flight[0][1])
        if self.scheduler.has_requests:
            return self.now_s
        if not self._input:
            self._work(NEVER, until_input=True)
        return max(self.now_s, self._input[0][0]) if self._input else NEVER

    def advance(self) -> StepOutcome | None:
        """Act once: plan and launch a step, or account for the oldest one in flight, whose outcome it returns."""
        at_s = self.next_s()
        if at_s == NEVER:
            return None
        if self._in_flight and not (len(self._in_flight) < self._depth and self._plannable()):
            return self._account(at_s)
        self.now_s = at_s
        self._poll()
        plan = self.scheduler.schedule(at_s)
        if plan is None:
            self._may_plan = False
            return None
        self._launch(plan)
        return None

    def _plannable(self) -> bool:
        return self._may_plan and (self.scheduler.has_requests or bool(self._input))

    def _launch(self, plan: StepPlan) -> None:
        launch_s = self.gpu.launch_s(plan, self.now_s)
        if self._drift is not None:
            launch_s *= self._drift(self.now_s)
        launched_s = self.now_s + launch_s
        begin_s = max(self.now_s, self._gpu_free_s)
        took_s = self.gpu.step_s(plan, begin_s - self._gpu_free_s)
        self._gpu_free_s = max(launched_s, begin_s + took_s)
        self.now_s = launched_s
        self._in_flight.append((plan, self._gpu_free_s))

    def _account(self, at_s: float) -> StepOutcome:
        plan, _ = self._in_flight.popleft()
        self.now_s = at_s
        self._take_aborts()
        outcome = self.scheduler.update(plan, at_s)
        outcome.plan = plan
        self._may_plan = True
        if outcome.tokens or outcome.finished:
            self._hand_out(outcome)
        return outcome

    def _hand_out(self, outcome: StepOutcome) -> None:
        """The frontend takes up what a step brought, and stamps it, as soon as its loop comes to it."""
        frontend = self.frontend
        ready_s = outcome.at_s + frontend.hop_s
        self._work(ready_s)
        outcome.seen_s = seen_s = max(ready_s, self._frontend_free_s)
        busy_s = outcome.tokens * frontend.output_s
        for request in outcome.first:
            request.first_seen_s = seen_s
        for request in outcome.finished:
            request.end_seen_s = seen_s
            busy_s += frontend.finish_s
            request.answered_s = seen_s + busy_s
        self._frontend_free_s = seen_s + busy_s

    def _poll(self) -> None:
        """Take from the input queue what has come."""
        self._work(self.now_s)
        while self._input and self._input[0][0] <= self.now_s:
            request = self._input.popleft()[1]
            if request.finish_reason is None:
                self.scheduler.add(request, self.now_s)
        self._take_aborts()

    def _take_aborts(self) -> None:
        if self._aborts:
            due = [request for at_s, request in self._aborts if at_s <= self.now_s]
            self._aborts = [abort for abort in self._aborts if abort[0] > self.now_s]
            for request in due:
                self.scheduler.abort(request)

    def _job(self, ready_s: float, kind: int, request: EngineRequest) -> None:
        self._order += 1
        heapq.heappush(self._jobs, (ready_s, self._order, kind, request))

    def _work(self, until_s: float, *, until_input: bool = False) -> None:
        """The frontend's loop, one job after another in the order they were ready."""
        frontend = self.frontend
        while self._jobs and self._jobs[0][0] <= until_s and not (until_input and self._input):
            ready_s, _, kind, request = heapq.heappop(self._jobs)
            begin_s = max(ready_s, self._frontend_free_s)
            if kind == PARSE:
                self._frontend_free_s = begin_s + frontend.parse_s + frontend.token_s * request.prompt_tokens
                request.arrival_s = self._frontend_free_s
                self._job(self._frontend_free_s, SUBMIT, request)
            else:
                self._frontend_free_s = begin_s + frontend.submit_s
                self._input.append((self._frontend_free_s + frontend.hop_s, request))

    def work(self, plan: StepPlan) -> StepWork:
        """What vLLM's FLOPs and bytes counters add for a step."""
        return self.shape.work(plan)
