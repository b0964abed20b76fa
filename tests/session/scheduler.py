"""A pretended engine that schedules as vLLM does: blocks, a token budget, preemption by recompute; it knows the truth.

Each step runs every running request as far as budget and blocks allow, throws the youngest out when blocks run short,
and admits from the queue; written bytes and FLOP follow `COST`. A preemption is counted with its victim's next output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.session.made import Engine, Log, Server
from vtop.recording import Identity
from vtop.session.recompute.token_cost import Cost, cost

SHAPE: dict[str, int | str] = {
    "torch_dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 50021,
}
FOUND = cost(SHAPE, None)
assert FOUND is not None
COST = FOUND
BLOCK = 16


@dataclass(eq=False)
class Job:
    """A request: what is asked of it, and how far it is."""

    prompt: int
    output: int
    computed: int = 0
    most: int = 0  # ever computed: below it is recompute
    generated: int = 0
    ran: int = 0
    again: int = 0  # of what it ran
    untold: int = 0  # preemptions that no output has told of
    preempted: int = 0

    @property
    def length(self) -> int:
        return self.prompt + self.generated


@dataclass
class Scheduler:
    """One engine and its scrapes in a log."""

    engine: Engine
    blocks: int = 128
    max_num_seqs: int = 16
    budget: int = 512
    lag: bool = True
    price: Cost = COST
    count_writes: bool = True  # --enable-mfu-metrics
    extra_drafts: int = 0  # tokens that each decode step of a request drafts, all of them rejected
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)
    executed: int = 0
    rows: int = 0
    preempted: int = 0
    at_s: float = 0.0
    done: list[Job] = field(default_factory=list)
    drafted: int = 0

    def ask(self, *jobs: Job) -> None:
        self.waiting.extend(jobs)

    def step(self) -> None:
        budget, ran, thrown = self.budget, [], False
        for job in list(self.running):
            if job not in self.running or budget == 0:
                continue
            tokens = min(job.length - job.computed, budget)
            while job in self.running and not self._fits(job, tokens):
                self._throw_out()
                thrown = True
            if job in self.running:
                ran.append((job, tokens))
                job.computed += tokens
                budget -= tokens
        while self.waiting and not thrown and len(self.running) < self.max_num_seqs and budget:
            job = self.waiting[0]
            tokens = min(job.length, budget)
            if not self._fits(job, tokens):
                break
            self.running.append(self.waiting.popleft())
            job.computed = tokens
            ran.append((job, tokens))
            budget -= tokens
        self._account(ran)

    def _account(self, ran: list[tuple[Job, int]]) -> None:
        observed, tokens_run = 0, 0
        engine = self.engine
        for job, tokens in ran:
            begin = job.computed - tokens
            drafts = self.extra_drafts if tokens == 1 else 0
            self.drafted += drafts
            self.executed += tokens
            self.rows += 1
            tokens_run += tokens
            job.ran += tokens
            job.again += max(0, min(job.computed, job.most) - begin)
            job.most = max(job.most, job.computed)
            if self.count_writes:
                price, run = self.price, tokens + drafts
                flops = price.token_flops * run + price.row_flops + price.context_flops * run * job.computed
                written = price.token_bytes * run + price.row_bytes
                engine.count(estimated_write_bytes_per_gpu=written, estimated_flops_per_gpu=flops)
            if job.computed < job.length:
                continue
            if not job.generated:
                engine.count(prompt_tokens=job.prompt)
                engine.observe(time_to_first=0.1)
                observed += job.prompt
            else:
                engine.observe(inter_token=0.02)
            job.generated += 1
            observed += 1
            engine.count(generation_tokens=1, num_preemptions=job.untold)
            job.untold = 0
            if job.generated == job.output:
                self.running.remove(job)
                self.done.append(job)
                engine.finish(prompt=job.prompt, output=job.output, preemptions=job.preempted)
        if observed:
            engine.observe(iteration=observed)
        self.at_s += 0.02 + 1e-5 * tokens_run
        engine.running, engine.waiting = float(len(self.running)), float(len(self.waiting))
        engine.kv = sum(_blocks(job.computed) for job in self.running) / self.blocks

    def _fits(self, job: Job, tokens: int) -> bool:
        held = sum(_blocks(one.computed) for one in self.running if one is not job)
        return held + _blocks(job.computed + tokens) <= self.blocks

    def _throw_out(self) -> None:
        victim = self.running.pop()
        victim.computed = 0
        victim.preempted += 1
        self.preempted += 1
        if self.lag:
            victim.untold += 1
        else:
            self.engine.count(num_preemptions=1)
        self.waiting.appendleft(victim)

    @property
    def recomputed(self) -> int:
        """Tokens that ran again, and those of prompts that were thrown out half run: they will."""
        lost = sum(job.ran - job.again for job in self.waiting if not job.generated)
        return lost + sum(job.again for job in (*self.done, *self.running, *self.waiting))

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)


@dataclass
class Served:
    """A log, the engine that knows the truth, and how much it had run again by each scrape."""

    log: Log
    scheduler: Scheduler
    truth: list[int] = field(default_factory=list)  # recomputed tokens, by scrape


def serve(
    *batches: list[Job],
    shape: Mapping[str, int | str] | None = SHAPE,
    lag: bool = True,
    blocks: int = 128,
    budget: int = 512,
    price: Cost = COST,
    count_writes: bool = True,
    extra_drafts: int = 0,
    begin_bytes: float = 0.0,
) -> Served:
    """These requests, each batch asked of an idle engine at once; a scrape a second, two idle ones after each batch."""
    server, log = Server(), Log()
    engine = server.engine
    engine.count(estimated_write_bytes_per_gpu=begin_bytes)
    scheduler = Scheduler(
        engine,
        blocks=blocks,
        budget=budget,
        lag=lag,
        price=price,
        count_writes=count_writes,
        extra_drafts=extra_drafts,
    )
    served = Served(log, scheduler)
    server.pool_tokens = scheduler.blocks * BLOCK
    known = dict(shape) if shape is not None else None
    log.add(Identity(server=0, version="0.32.0", max_model_len=4096, shape=known), 0.0)

    def scrape() -> None:
        counts = (("draft", scheduler.drafted), ("accepted", 0)) if extra_drafts else ()
        extra = [f'vllm:spec_decode_num_{name}_tokens_total{{engine="0",model_name="m"}} {n}\n' for name, n in counts]
        log.scrape(float(len(served.truth)), server.exposition("".join(extra)))
        served.truth.append(scheduler.recomputed)

    scrape()
    for batch in batches:
        scheduler.ask(*batch)
        scheduler.at_s = max(scheduler.at_s, len(served.truth) - 1.0)
        while scheduler.busy:
            while scheduler.busy and scheduler.at_s < len(served.truth):
                scheduler.step()
            scrape()
        scrape()
    return served
