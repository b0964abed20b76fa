"""The runs of a recording: what load the server was under, with which flags, and what its own histograms say of it.

A phase of vtop's own load is a run, with every request as it was sent. Without one, a stretch of pages on which the
server was busy is a run, if all its requests were of one length: so many in flight as ran and waited together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from vtop.engine.flags import Flags
from vtop.engine.replay import Ask, Load
from vtop.engine.shape import ModelShape, shape_of
from vtop.metrics.vllm import Quantity
from vtop.recording import FileRecording, Request
from vtop.recording import Load as Phase
from vtop.session import kv
from vtop.session.session import Session
from vtop.session.window import Window, between

PARTS = {
    "queue_s": Quantity.QUEUE,
    "prefill_s": Quantity.PREFILL,
    "decode_s": Quantity.DECODE,
    "inference_s": Quantity.INFERENCE,
    "e2e_s": Quantity.E2E,
}
EVEN = 0.002  # lengths that differ by less than this share are one length
THINK_AT_MOST_S = 0.1  # more is a change of the load, not its client
ENOUGH = 0.8  # of a phase's requests that the pages must have counted
SETTLE_S = 1.5  # the page on which a phase's last request is counted comes so much after its end, at most


@dataclass(frozen=True, slots=True)
class Observed:
    """Means over the finished requests of a run, in seconds, from the server's histograms."""

    requests: int
    queue_s: float
    prefill_s: float
    decode_s: float
    e2e_s: float
    frontend_s: float
    span_s: float | None = None  # from the first request to the last answer, as the client saw it
    preemptions: int | None = None

    @property
    def ttft_s(self) -> float:
        """Of the finished requests; the three parts add up."""
        return self.frontend_s + self.queue_s + self.prefill_s


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    flags: Flags
    shape: ModelShape | None
    load: Load
    observed: Observed


def runs(path: Path, flags: Mapping[str, Any] | None = None) -> list[Run]:
    """The runs of a recording. `flags`: what /metrics does not say (max_num_seqs, max_num_batched_tokens).

    Raises VtopError when the file is no recording.
    """
    recording = FileRecording(path)
    session, requests, phases = Session(recording.start), [], []
    while events := recording.take():
        for event in events:
            session.apply(event)
            if isinstance(event, Request):
                requests.append(event)
            elif isinstance(event, Phase):
                phases.append(event)
    recording.close()
    name = path.name.partition(".")[0]
    if phases:
        return list(_of_phases(name, session, phases, requests, flags or {}))
    return list(_of_pages(name, session, flags or {}))


def _of_phases(
    name: str, session: Session, phases: list[Phase], requests: list[Request], flags: Mapping[str, Any]
) -> Iterable[Run]:
    for begin in phases:
        if begin.state != "begin":
            continue
        end = next((phase for phase in phases if phase.phase == begin.phase and phase.state == "end"), None)
        if end is None:
            continue
        mine = [request for request in requests if request.phase == begin.phase and request.end_s is not None]
        done = [request for request in mine if request.error is None and request.sent_s is not None]
        if not done or len(done) < len(mine):
            continue
        done.sort(key=lambda request: request.sent_s or 0.0)
        window = between(session.servers, begin.t - SETTLE_S, end.t + SETTLE_S, session.end_s)
        observed = _observed(window)
        if observed is None or observed.requests < ENOUGH * len(done):
            continue
        first_s = done[0].sent_s or 0.0
        closed = begin.shape == "closed"
        asks = tuple(
            Ask(
                request.prompt_tokens or request.asked_prompt_tokens or 0,
                request.output_tokens or request.asked_output_tokens or 0,
                None if closed else (request.sent_s or 0.0) - first_s,
            )
            for request in done
        )
        load = Load(asks, begin.concurrency, think_s=_think_s(done, begin.concurrency)) if closed else Load(asks)
        span_s = max(request.end_s or 0.0 for request in done) - first_s
        known = _flags(session, window, flags)
        if known is not None:
            label = f"{name}, {begin.spec}" if len(phases) > 3 else name
            yield Run(label, known, _shape(session), load, replace(observed, span_s=span_s))


def _think_s(done: list[Request], concurrency: int | None) -> float:
    """How soon after an answer the client sends again."""
    ends = sorted(request.end_s or 0.0 for request in done)
    sends = [request.sent_s or 0.0 for request in done]
    pauses = [sent - end for end, sent in zip(ends, sends[concurrency or 0 :], strict=False)]
    usual = median(pauses) if pauses else 0.0
    return usual if 0.0 < usual < THINK_AT_MOST_S else 0.0


def _of_pages(name: str, session: Session, flags: Mapping[str, Any]) -> Iterable[Run]:
    server = session.servers[0]
    pages = server.visible(session.end_s)
    whole = between(session.servers, 0.0, session.end_s, session.end_s)
    lengths = _lengths(between(session.servers, server.at_s[pages // 2], session.end_s, session.end_s))
    if lengths is None:
        return
    for first in range(pages - 1):
        window = between(session.servers, server.at_s[first], session.end_s, session.end_s)
        found = _lengths(window)
        if found is not None and all(abs(a - b) <= EVEN * b for a, b in zip(found, lengths, strict=True)):
            break
    else:
        return
    observed = _observed(window)
    known = _flags(session, whole, flags)
    in_flight = [a + b for a, b in zip(*(_each(window, q) for q in (Quantity.RUNNING, Quantity.WAITING)), strict=True)]
    concurrency = int(max((value for value in in_flight if value == value), default=0))
    if observed is None or known is None or not concurrency or observed.requests < concurrency:
        return
    prompt, output = (round(length) for length in lengths)
    load = Load(tuple(Ask(prompt, output) for _ in range(observed.requests)), concurrency)
    yield Run(name, known, _shape(session), load, observed)


def _each(window: Window, quantity: Quantity) -> list[float]:
    return [0.0 if value != value else value for value in window.each_together(quantity)]


def _lengths(window: Window) -> tuple[float, float] | None:
    prompt, output = window.mean(Quantity.REQUEST_PROMPT_TOKENS), window.mean(Quantity.REQUEST_GENERATION_TOKENS)
    return (prompt, output) if prompt is not None and output is not None else None


def _observed(window: Window) -> Observed | None:
    means = {name: window.mean(quantity) for name, quantity in PARTS.items()}
    known = {name: value for name, value in means.items() if value is not None}
    if len(known) < len(PARTS):
        return None
    preemptions = window.delta(Quantity.PREEMPTIONS)
    return Observed(
        requests=round(window.observed(Quantity.E2E)),
        queue_s=known["queue_s"],
        prefill_s=known["prefill_s"],
        decode_s=known["decode_s"],
        e2e_s=known["e2e_s"],
        frontend_s=max(0.0, known["e2e_s"] - known["queue_s"] - known["inference_s"]),
        preemptions=None if preemptions is None else round(preemptions),
    )


def _flags(session: Session, window: Window, told: Mapping[str, Any]) -> Flags | None:
    if not window.stretches:
        return None
    stretch = window.stretches[0]
    pool = kv.pool(stretch.server, stretch.last, None)
    identity = stretch.server.identity(session.end_s)
    found: dict[str, Any] = {"enable_prefix_caching": bool(pool.prefix_caching)}
    if pool.block_size is not None:
        found["block_size"] = pool.block_size
    if pool.tokens is not None:
        found["num_gpu_blocks"] = round(pool.tokens) // int(found.get("block_size", 16))
    if identity is not None and identity.max_model_len is not None:
        found["max_model_len"] = identity.max_model_len
    found.update(told)
    return Flags(**found) if "num_gpu_blocks" in found else None


def _shape(session: Session) -> ModelShape | None:
    identity = session.servers[0].identity(session.end_s)
    return shape_of(identity.shape) if identity is not None else None
