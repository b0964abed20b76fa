"""Pretended runs of a closed loop: a server that answers steadily, with chance in every request, and its pages."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.session.made import Log, Server, device
from vtop.recording import Identity, Load, Request
from vtop.recording.vocabulary import Api, LoadState
from vtop.report.compare.compare import recorded
from vtop.report.compare.phase_blocks import Recorded
from vtop.session.session import Session

Flags = dict[str, int | float | bool | str]
Line = tuple[float, int, Load | Request]  # when, in which order of those at once, what


@dataclass(frozen=True, slots=True)
class Loop:
    """A phase: n requests, c of them in flight, each with its first token after ttft_s and then one every itl_s."""

    c: int = 4
    n: int = 96
    input: int = 100
    output: int = 20
    ttft_s: float = 0.2
    itl_s: float = 0.05
    chance: float = 0.05  # standard deviation of each request's times, as a share
    failing: float = 0.0  # share of requests that fail
    slo: float | None = None  # bound of ttft
    own: bool = True  # False: the load is not on record, only what the server says about it
    api: Api = "completions"


@dataclass(frozen=True, slots=True)
class One:
    """A request and what became of it."""

    sent_s: float
    first_s: float
    gaps_us: tuple[int, ...]
    failed: bool

    @property
    def end_s(self) -> float:
        return self.first_s + sum(self.gaps_us) / 1e6


def session(
    loops: Sequence[Loop] = (Loop(),),
    seed: int = 0,
    *,
    model: str = "m",
    devices: int = 1,
    flags: Flags | None = None,
) -> Session:
    """The loops one after another, as a session read to its end. flags: of the server's command, where it is seen."""
    log, server, chance = Log(), Server(model=model), Random(seed)
    server.pool_tokens = 16_000
    command = "vllm serve" if flags is not None else None
    log.add(Identity(server=0, version="0.26.0", models=(model,), command=command, flags=flags), 0.0)
    begin_s, page_s, phase = 0.5, 0.0, 0
    for loop in loops:
        ones = _run(loop, begin_s, chance)
        end_s = max((one.end_s for one in ones), default=begin_s) + 0.01
        lines: list[Line] = [(begin_s, 0, _load(loop, phase, "begin")), (end_s, 9, _load(loop, phase, "end"))]
        lines += [line for number, one in enumerate(ones) for line in _lines(loop, phase, number, one)]
        counted = 0
        for t, _, event in sorted(lines, key=lambda line: line[:2]):
            while page_s <= t:
                counted = _page(log, server, page_s, ones, loop, devices=devices, counted=counted)
                page_s += 1.0
            if loop.own:
                log.add(event, t)
        for _ in range(3):
            counted = _page(log, server, page_s, ones, loop, devices=devices, counted=counted)
            page_s += 1.0
        begin_s, phase = page_s - 0.5, phase + loop.own
    return log.session()


def run(
    *loops: Loop, seed: int = 0, file: str = "run.jsonl", model: str = "m", devices: int = 1, flags: Flags | None = None
) -> Recorded:
    return recorded(session(loops or (Loop(),), seed, model=model, devices=devices, flags=flags), file)


def _run(loop: Loop, begin_s: float, chance: Random) -> list[One]:
    free = [begin_s + 0.001 * slot for slot in range(loop.c)]
    found = []
    for _ in range(loop.n):
        sent_s = heapq.heappop(free)
        luck = max(0.1, chance.gauss(1.0, loop.chance))
        first_s = sent_s + loop.ttft_s * max(0.1, chance.gauss(1.0, loop.chance))
        gap_us = round(loop.itl_s * luck * 1e6)
        failed = chance.random() < loop.failing
        one = One(sent_s, first_s, () if failed else (gap_us,) * (loop.output - 1), failed)
        heapq.heappush(free, one.end_s + 0.001)
        found.append(one)
    return found


def _load(loop: Loop, phase: int, state: LoadState) -> Load:
    return Load(
        phase=phase,
        state=state,
        spec=f"c={loop.c} in={loop.input} out={loop.output} n={loop.n}",
        shape="closed",
        concurrency=loop.c,
        input_tokens=(loop.input, loop.input),
        output_tokens=(loop.output, loop.output),
        requests=loop.n,
        api=loop.api,
        slo={"ttft": loop.slo} if loop.slo is not None else None,
    )


def _lines(loop: Loop, phase: int, number: int, one: One) -> list[Line]:
    sent = Request(id=number, phase=phase, due_s=one.sent_s, sent_s=one.sent_s, asked_prompt_tokens=loop.input)
    ended = Request(
        id=number,
        phase=phase,
        due_s=one.sent_s,
        sent_s=one.sent_s,
        first_s=None if one.failed else one.first_s,
        last_s=None if one.failed else one.end_s,
        end_s=one.end_s,
        asked_prompt_tokens=loop.input,
        prompt_tokens=loop.input,
        output_tokens=0 if one.failed else loop.output,
        tokens_from="ids",
        gaps_us=one.gaps_us,
        error="http_status" if one.failed else None,
    )
    return [(one.sent_s, 1, sent), (one.end_s, 2, ended)]


def _page(log: Log, server: Server, at_s: float, ones: Sequence[One], loop: Loop, *, devices: int, counted: int) -> int:
    """The page of an instant, on which those requests are counted that ended since the one before."""
    ended = sorted((one for one in ones if not one.failed and one.end_s <= at_s), key=lambda one: one.end_s)
    for one in ended[counted:]:
        prefill, decode = 0.9 * (one.first_s - one.sent_s), one.end_s - one.first_s
        server.engine.finish(prefill=prefill, decode=decode, prompt=loop.input, output=loop.output)
        server.engine.observe(time_to_first=prefill, inter_token=decode / (loop.output - 1))
        server.engine.count(prompt_tokens=loop.input, generation_tokens=loop.output)
    server.engine.running = float(sum(one.sent_s <= at_s < one.end_s for one in ones))
    server.engine.kv = server.engine.running * (loop.input + loop.output / 2) / 16_000
    log.scrape(at_s, server)
    if devices:
        log.gpu(at_s + 0.02, *(device(number, power_w=400.0 + server.engine.running) for number in range(devices)))
    return len(ended)
