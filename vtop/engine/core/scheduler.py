"""vLLM V1's scheduler: who computes how many tokens in the next step, and who has to give way.

It follows vLLM's rules one by one (v1/core/sched/scheduler.py): running requests first, in the order of admission;
a request that finds no block sends away the one admitted last, which computes everything again later; waiting ones
only when nobody had to go, while there are tokens, places and, for the whole prompt, blocks. It knows no clock.
"""

from __future__ import annotations

from typing import Final

from vtop.engine.core.block_pool import NO_HIT, BlockPool
from vtop.engine.core.decode_batch import DecodeBatch
from vtop.engine.core.flags import Flags
from vtop.engine.core.prefix_cache import PrefixPool
from vtop.engine.core.request import FINISHED, PREEMPTED, RUNNING, WAITING, EngineRequest
from vtop.engine.core.step import StepOutcome, StepPlan
from vtop.engine.core.waiting_queue import ByPriority, Fcfs, WaitingQueue

NEVER: Final = -1


class Scheduler:
    """The queues and the pool. A step is planned by `schedule` and accounted for by `update`, in that order;

    with async scheduling one more step is planned before the last one is accounted for.
    """

    def __init__(self, flags: Flags, *, tell_batch: bool = False, use_batch: bool = True) -> None:
        """tell_lane: every plan names the requests of the lane, for a server that streams their tokens.

        use_lane: False follows every request one by one; the result is the same.
        """
        self.flags = flags
        self.pool: BlockPool | PrefixPool = (PrefixPool if flags.enable_prefix_caching else BlockPool)(
            flags.usable_blocks, flags.block_size
        )
        self.waiting: WaitingQueue = Fcfs() if flags.policy == "fcfs" else ByPriority()
        self.running: list[EngineRequest] = []
        self.batch = DecodeBatch(flags.block_size)
        self.preemptions = 0
        self.executed_tokens = 0  # recomputed ones included
        self.prefix_queries = 0  # prompt tokens looked up in the prefix cache by requests admitted for the first time
        self.prefix_hits = 0
        self.steps = 0  # planned, without empty ones
        self._rest: dict[int, EngineRequest] = {}  # running requests outside the lane, in the order of admission
        self._in_flight: list[StepPlan] = []
        self._updated = NEVER  # the last step accounted for, and when
        self._updated_s = 0.0
        self._tell_batch = tell_batch
        self._use_batch = use_batch
        self._watermark_blocks = int(flags.watermark * flags.num_gpu_blocks)

    def check(self, request: EngineRequest) -> None:
        """Set what bounds the request. Raises ValueError for one that could never finish."""
        request.limit = min(request.max_tokens, self.flags.max_model_len - request.prompt_tokens)
        if request.prompt_tokens < 1 or request.output_tokens < 1 or request.limit < 1:
            raise ValueError(f"{request!r} has no room for a prompt and an answer")
        request.output_tokens = min(request.output_tokens, request.limit)
        if request.prompt_tokens + request.output_tokens - 1 > self.flags.most_tokens():
            raise ValueError(f"{request!r} is longer than the KV pool")

    def add(self, request: EngineRequest, now_s: float) -> None:
        """A request came out of the input queue. Raises ValueError for one that could never finish."""
        self.check(request)
        request.queued_s = now_s
        request.state = WAITING
        self.waiting.add(request)

    def abort(self, request: EngineRequest) -> None:
        """The client is gone: the request is taken out wherever it is; a step in flight brings it nothing."""
        if request.queued_s is None:
            pass  # it is on its way here still; whoever brings it sees that it is finished
        elif request.state in (WAITING, PREEMPTED):
            self.waiting.remove(request)
        elif request.state == RUNNING:
            self._leave_batch(request)
            self.pool.release(request)
            self.running.remove(request)
            del self._rest[request.id]
        if request.state != FINISHED:
            request.state = FINISHED
            request.finish_reason = "abort"

    @property
    def has_requests(self) -> bool:
        return bool(self.running or len(self.waiting))

    def schedule(self, now_s: float) -> StepPlan | None:
        """The next step, or None when there is nothing to compute."""
        plan = StepPlan(self.steps, now_s)
        if self._use_batch:
            self._fill_batch(plan.step)
        budget = self._schedule_together(plan) if self._use_batch else None
        if budget is None:
            for request in self.batch.members():
                self._leave_batch(request)
            self._rest = {request.id: request for request in self.running}
            budget = self._schedule_one_by_one(plan)
        if not plan.preempted:
            self._admit(plan, budget)
        if not plan.tokens:
            return None
        self.steps += 1
        self.executed_tokens += plan.tokens
        self._in_flight.append(plan)
        for request in self.batch.ending(plan.step):
            self._leave_batch(request)
        if self._tell_batch:
            plan.batch_members = tuple(self.batch.members())
        return plan

    def update(self, plan: StepPlan, now_s: float) -> StepOutcome:
        """The step is over: who got a token, who is finished. Plans come back in the order they were made."""
        assert self._in_flight[0] is plan
        del self._in_flight[0]
        outcome = StepOutcome(plan.step, now_s, tokens=plan.batch)
        if plan.batch:
            outcome.gaps.append((now_s - self._updated_s, plan.batch))
            outcome.batch_members = plan.batch_members
        for request in plan.deliver:
            if request.state != FINISHED:
                self._deliver(request, outcome)
        if outcome.finished:
            gone = {request.id for request in outcome.finished}
            self.running = [request for request in self.running if request.id not in gone]
        self._updated = plan.step
        self._updated_s = now_s
        return outcome

    def _deliver(self, request: EngineRequest, outcome: StepOutcome) -> None:
        now_s = outcome.at_s
        request.generated += 1
        outcome.tokens += 1
        outcome.delivered.append(request)
        outcome.preemptions += request.pending_preemptions
        request.pending_preemptions = 0
        if request.last_token_s is None:
            request.first_token_s = now_s
            outcome.first.append(request)
            outcome.prompt_tokens += request.prompt_tokens
            outcome.computed_prompt_tokens += request.prompt_tokens - request.cached_tokens
        else:
            outcome.gaps.append((now_s - request.last_token_s, 1))
        request.last_token_s = now_s
        if request.generated >= request.output_tokens:
            if request.state == PREEMPTED:  # its last token was in flight when it had to go
                self.waiting.remove(request)
            else:
                self.pool.release(request)
                del self._rest[request.id]
            request.state = FINISHED
            request.finish_reason = "length" if request.generated >= request.limit else "stop"
            outcome.finished.append(request)
        elif request.state == PREEMPTED:
            request.planned = request.generated

    def _fill_batch(self, step: int) -> None:
        entering = [
            request
            for request in self._rest.values()
            if request.sampled_step == step - 1 and request.planned < request.output_tokens
        ]
        for request in entering:
            del self._rest[request.id]
            self.batch.enter(request, step)

    def _leave_batch(self, request: EngineRequest) -> None:
        """Follow the request on its own again; what steps in flight bring it, they bring it by name."""
        if request.batch_step < 0:
            return
        for plan in self._in_flight:
            if plan.step >= request.batch_step:
                plan.batch -= 1
                plan.deliver.append(request)
        if self._tell_batch:
            for plan in self._in_flight:
                plan.batch_members = tuple(member for member in plan.batch_members if member is not request)
        last = self._in_flight[-1].step if self._in_flight else self._updated
        self.batch.leave(request, last, self._updated, self._updated_s)
        self._rest[request.id] = request
        self.pool.commit(request, min(request.computed, request.tokens))

    def _schedule_together(self, plan: StepPlan) -> int | None:
        """Plan the running requests when there is room for all of them; the tokens left, or None when there is not."""
        flags, batch, pool = self.flags, self.batch, self.pool
        budget = flags.max_num_batched_tokens - batch.size
        needing = batch.needing_blocks(plan.step)
        free = pool.free - len(needing)
        wants: list[tuple[EngineRequest, int, int]] = []
        for request in self._rest.values():
            tokens = self._wanted(request)
            if tokens:
                blocks = -(-(request.computed + tokens) // flags.block_size)
                wants.append((request, tokens, blocks))
                budget -= tokens
                free -= blocks - request.blocks
        if budget < 0 or free < 0:
            return None
        if batch.size:
            if needing:
                pool.grow_each(needing.values(), len(needing))
            plan.batch = plan.decodes = batch.size
            plan.tokens = batch.size
            plan.context = batch.context
            batch.advance()
        for request, tokens, blocks in wants:
            pool.grow(request, blocks)
            self._compute(plan, request, tokens)
        return budget

    def _wanted(self, request: EngineRequest) -> int:
        """Tokens that a running request would compute, were there room for any number."""
        if request.planned >= request.limit:
            return 0  # its last token is in flight
        tokens = request.prompt_tokens + request.planned - request.computed
        most = self.flags.long_prefill_token_threshold
        if 0 < most < tokens and len(self.running) + len(self.waiting) > 1:
            tokens = most
        return min(tokens, self.flags.max_model_len - request.computed - 1)

    def _schedule_one_by_one(self, plan: StepPlan) -> int:
        """Plan the running requests in order, as far as tokens and blocks go; the tokens left."""
        budget = self.flags.max_num_batched_tokens
        block_size = self.flags.block_size
        index = 0
        planned: dict[int, tuple[EngineRequest, int]] = {}
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            tokens = min(self._wanted(request), budget)
            if not tokens:
                index += 1
                continue
            blocks = -(-(request.computed + tokens) // block_size)
            while blocks - request.blocks > self.pool.free:
                victim = self._victim()
                position = self.running.index(victim)
                del self.running[position]
                if position < index:
                    index -= 1
                if victim.id in planned:
                    budget += planned.pop(victim.id)[1]
                self._preempt(victim)
                plan.preempted += 1
                if victim is request:
                    break
            if request.state != RUNNING:
                break
            self.pool.grow(request, blocks)
            planned[request.id] = (request, tokens)
            budget -= tokens
            index += 1
        for request, tokens in planned.values():
            self._compute(plan, request, tokens)
        return budget

    def _victim(self) -> EngineRequest:
        if self.flags.policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=lambda request: (request.priority, request.arrival_s))

    def _preempt(self, request: EngineRequest) -> None:
        self.pool.release(request)
        del self._rest[request.id]
        request.state = PREEMPTED
        request.computed = 0
        request.planned = request.generated
        request.sampled_step = NEVER - 1
        request.preemptions += 1
        request.pending_preemptions += 1
        self.preemptions += 1
        self.waiting.put_back(request)

    def _admit(self, plan: StepPlan, budget: int) -> None:
        """Waiting requests, in order, while there are tokens, places and blocks."""
        flags, pool, waiting = self.flags, self.pool, self.waiting
        block_size = flags.block_size
        while budget > 0 and len(waiting) and len(self.running) < flags.max_num_seqs:
            request = waiting.head()
            hit = pool.hit(request) if flags.enable_prefix_caching else NO_HIT
            cached = len(hit) * block_size
            tokens = request.tokens - cached
            if 0 < flags.long_prefill_token_threshold < tokens and len(self.running) + len(waiting) > 1:
                tokens = flags.long_prefill_token_threshold
            if tokens > budget and not flags.enable_chunked_prefill:
                break
            tokens = min(tokens, budget)
            room = pool.free - (self._watermark_blocks if self.running else 0)
            whole = -(-min(request.tokens, flags.max_model_len) // block_size)
            blocks = -(-(cached + tokens) // block_size)
            asked = whole if flags.scheduler_reserve_full_isl else blocks
            if pool.missing(asked, hit) > room:
                break
            waiting.take()
            pool.adopt(request, hit)
            request.computed = cached
            pool.grow(request, blocks)
            if request.scheduled_s is None:
                request.scheduled_s = plan.scheduled_s
                request.cached_tokens = cached
                self.prefix_queries += request.tokens
                self.prefix_hits += cached
            request.state = RUNNING
            self.running.append(request)
            self._rest[request.id] = request
            self._compute(plan, request, tokens, admitted=True)
            budget -= tokens

    def _compute(self, plan: StepPlan, request: EngineRequest, tokens: int, *, admitted: bool = False) -> None:
        """The request computes so many tokens in this step; the last known one brings the next."""
        request.computed += tokens
        plan.tokens += tokens
        if tokens == 1 and not admitted:
            plan.decodes += 1
            plan.context += request.computed
        else:
            plan.prefills.append((tokens, request.computed))
        if self.flags.enable_prefix_caching:
            self.pool.commit(request, min(request.computed, request.tokens))
        if request.computed == request.prompt_tokens + request.planned:
            request.planned += 1
            request.sampled_step = plan.step
            plan.deliver.append(request)
