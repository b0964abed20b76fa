"""What a recording, or two pages of a running server, says about what planning needs: pool, flags, lengths, steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vtop.metrics.quantity import Quantity
from vtop.plan.kv import RECORDED, Mix
from vtop.recording import Request
from vtop.recording.events import AnyEvent
from vtop.session.frame.frame import View
from vtop.session.frame.gpus import counted_of
from vtop.session.history.window import between
from vtop.session.kv.pool import pool_at
from vtop.session.session import Session


@dataclass(frozen=True, slots=True)
class Steps:
    """How many tokens a step had, prompts and answers together, from the server's iteration histogram.

    le: upper bounds, the last without end; n: how many steps fell into each. mean_tokens and steps are of all.
    """

    le: tuple[float, ...]
    n: tuple[float, ...]  # a bucket each, not summed up
    mean_tokens: float
    steps: float


@dataclass(frozen=True, slots=True)
class Observed:
    """None: not on record. pool_tokens: of one replica. concurrency: the most that was kept in flight."""

    name: str
    shape: Mapping[str, int | str] | None
    pool_tokens: float | None
    replicas: int
    block_size: int | None
    cache_dtype: str | None
    max_model_len: int | None
    tp: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    async_scheduling: bool | None
    mix: Mix | None
    concurrency: int | None
    steps: Steps | None
    gpu: str | None = None  # the name of the one GPU that served


def observed(session: Session, name: str, requests: Sequence[Request] = ()) -> Observed:
    """Of a session read to its end. requests: those of vtop's own load; else lengths are means of what finished."""
    now_s = session.end_s
    server = session.servers[0]
    last = server.visible(now_s) - 1
    identity = server.identity(now_s)
    max_model_len = identity.max_model_len if identity is not None else None
    pool = pool_at(server, last, max_model_len) if last >= 0 else None
    started = session.started_with(0, now_s)
    replicas = max(1, len(server.engines(Quantity.RUNNING, last))) if last >= 0 else 1
    flags = started.flags if started is not None else {}
    overlapped = flags.get("async-scheduling")
    tp = flags.get("tensor-parallel-size", 1 if started is not None else None)
    account = session.frame(now_s, View(window_s=max(now_s, 1.0), columns=1, whole=True)).account
    lengths = [(one.prompt_tokens or 0, one.output_tokens or 0) for one in requests if _counts(one)]
    if lengths:
        mix = Mix(tuple(lengths), f"{len(lengths):,} requests {RECORDED}")
    elif account.input_tokens is not None and account.output_tokens is not None:
        mix = Mix(((round(account.input_tokens), round(account.output_tokens)),), f"the mean of {account.lengths_from}")
    else:
        mix = None
    nominal = account.nominal.concurrency if account.nominal is not None else None
    most = _most_in_flight(requests)
    gpus = counted_of(session.gpus.part(now_s, now_s, local=True).devices)
    return Observed(
        name=name,
        shape=identity.shape if identity is not None else None,
        pool_tokens=pool.tokens / replicas if pool is not None and pool.tokens is not None else None,
        replicas=replicas,
        block_size=pool.block_size if pool is not None else None,
        cache_dtype=pool.cache_dtype if pool is not None else None,
        max_model_len=max_model_len,
        tp=tp if isinstance(tp, int) else None,
        max_num_seqs=started.max_num_seqs if started is not None else None,
        max_num_batched_tokens=started.max_num_batched_tokens if started is not None else None,
        async_scheduling=overlapped if isinstance(overlapped, bool) else None,
        mix=mix,
        concurrency=most if most is not None else round(nominal) if nominal is not None else None,
        steps=_steps(session),
        gpu=gpus[0].name if len(gpus) == 1 else None,
    )


def requests_of(events: Iterable[AnyEvent]) -> list[Request]:
    return [event for event in events if isinstance(event, Request)]


def _counts(request: Request) -> bool:
    return not request.warmup and request.error is None and bool(request.prompt_tokens and request.output_tokens)


def _most_in_flight(requests: Sequence[Request]) -> int | None:
    """Of vtop's own requests; None where there are none."""
    edges: list[tuple[float, int]] = []
    for one in requests:
        if one.sent_s is not None and one.end_s is not None:
            edges += [(one.sent_s, 1), (one.end_s, -1)]
    now = most = 0
    for _, step in sorted(edges):
        now += step
        most = max(most, now)
    return most or None


def _steps(session: Session) -> Steps | None:
    window = between(session.servers, 0.0, session.end_s, session.end_s)
    histogram, sums = window.histogram(Quantity.ITERATION_TOKENS), window.sums(Quantity.ITERATION_TOKENS)
    if histogram is None or sums is None or sums[1] <= 0:
        return None
    return Steps((*histogram.le, math.inf), tuple(histogram.n), sums[0] / sums[1], sums[1])
