"""Recompute: the tokens that ran through the model again because their request had been preempted.

A preempted request loses its KV and runs prompt and output so far again (less what it finds in the prefix cache). No
token counter of vLLM counts that, but the bytes that the engine writes do, whatever the context: per span

    executed T from   written = a x T + b x R,   R = generated + chunks that ended no prompt     (cost.py, tariff.py)
    recomputed        = T - least - rejected drafts                                               (needed.py)

Without that counter (--enable-mfu-metrics is off) it is estimated by the KV that the preemptions released, which counts
blocks and not what a resumed request found in the prefix cache. Two cross-checks of the total stand beside it: that
one, and the FLOP counter, solved for x recomputed tokens by n preemptions that each saw the x / n of their own:

    FLOP = token_flops (least + x) + row_flops R + context_flops (C + x x / n)
    C    = prompts P P + later tokens (P + half of the output so far), P and output being means, prompts in one chunk

While nobody was preempted since vtop attached, recompute is 0, whatever else was executed for no answer. Once somebody
was, these count as recompute and are none: prompts of requests that were aborted before their first token; the step
that async scheduling wastes after a stop token (1 token a request); prompts in mid-prefill, which are executed and not
yet counted (`unsettled_tokens`: as many mean prompts, at most). A prompt that is thrown out half run counts at once: it
will run again. Never negative.

Source: vLLM v1/metrics/perf.py, v1/core/sched/scheduler.py. Tokens; per server, then added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.tokens import Recompute, WallClock
from vtop.session.frame.vocabulary import RecomputeMethod
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import ScrapeRange, Window
from vtop.session.kv.preemption_detector import PreemptionDetector
from vtop.session.recompute.decode_only import ended, preempted, settled
from vtop.session.recompute.required_tokens import Needed, needed
from vtop.session.recompute.write_cost import BY_FIT, BY_SHAPE, WriteCost, write_cost_of
from vtop.session.recompute.write_fit import WriteFit

BY_KV: Final = "KV released"

_LOOK = 30  # scrapes for the nearest one without a prompt in mid-prefill


@dataclass(frozen=True, slots=True)
class _RunPart:
    """One span of one run of one server."""

    costs: WriteCost | None
    needed: Needed
    executed: float | None
    tokens: float | None  # recomputed


@dataclass(frozen=True, slots=True)
class _ServerPart:
    window: Sequence[_RunPart]
    ever: Sequence[_RunPart]
    kv_window: float
    kv_ever: float | None  # None: not known
    flops: float | None
    unsettled: float
    flag: str | None  # that would make the server count its writes, where it does not


def recompute(
    window: Window,
    now_s: float,
    detectors: Mapping[ServerHistory, PreemptionDetector],
    fits: Mapping[ServerHistory, WriteFit],
) -> Recompute:
    servers = [_server(one, now_s, detectors[one.server], fits[one.server]) for one in window.ranges]
    parts = [part for one in servers for part in one.ever]
    least = _sum(part.needed.least for one in servers for part in one.window)
    least_ever = _sum(part.needed.least for part in parts)
    costs = {part.costs for part in parts if part.costs is not None}
    flag = next((f"--{one.flag}" for one in servers if one.flag), None)
    preemptions = sum(preempted(one.server, one.first, one.last) for one in window.ranges)
    by_kv = _all(one.kv_ever for one in servers)
    counted = bool(parts) and all(part.tokens is not None for part in parts)
    if counted:
        tokens = _all(part.tokens for one in servers for part in one.window)
        ever = _all(part.tokens for part in parts)
        method: RecomputeMethod | None = None
        if costs:
            method = BY_FIT if any(one.method == BY_FIT for one in costs) else BY_SHAPE
    else:
        tokens, ever = _all(one.kv_window if one.kv_ever is not None else None for one in servers), by_kv
        method = BY_KV if ever is not None else None
    alone = next(iter(costs)) if len(costs) == 1 else None
    return Recompute(
        method=method,
        estimate=method == BY_KV and bool(ever),
        executed_tokens=_all(part.executed for one in servers for part in one.window),
        least_tokens=least,
        tokens=tokens,
        ratio=_ratio(tokens, least),
        since_start=ever,
        since_start_ratio=_ratio(ever, least_ever),
        per_preemption=_ratio(tokens, preemptions),
        unsettled_tokens=sum(one.unsettled for one in servers) if method != BY_KV else 0.0,
        by_flops_tokens=_all(one.flops for one in servers),
        by_kv_tokens=by_kv,
        token_bytes=alone.token_bytes if alone is not None else None,
        row_bytes=alone.row_bytes if alone is not None else None,
        missing_flag=flag,
    )


def time_ratio(clock: WallClock) -> float | None:
    """What recomputing took of the window's time, idle time left out."""
    if clock.recompute_s is None or clock.decode_s is None or clock.prefill_s is None:
        return None
    busy_s = clock.decode_s + clock.prefill_s + clock.recompute_s
    return clock.recompute_s / busy_s if busy_s > 0 else None


def _server(one: ScrapeRange, now_s: float, detector: PreemptionDetector, fit: WriteFit) -> _ServerPart:
    server, last = one.server, one.last
    costs = {begin: write_cost_of(one, begin, end, now_s=now_s, fit=fit) for begin, end in runs(server, 0, last)}
    any_so_far = bool(preempted(server, 0, last) or detector.unconfirmed(last))
    ever = [_part(server, begin, end, costs[begin], any_so_far) for begin, end in runs(server, 0, last)]
    begins = sorted(costs)
    within = [
        _part(server, begin, end, costs[max(at for at in begins if at <= begin)], any_so_far)
        for begin, end in runs(server, one.first, last)
    ]
    known = [part for part in ever if part is not None]
    count = preempted(server, 0, last)
    return _ServerPart(
        window=[part for part in within if part is not None],
        ever=known,
        kv_window=_released(server, detector, one.first, last) or 0.0,
        kv_ever=_released(server, detector, 0, last),
        flops=_by_flops(server, runs(server, 0, last), known, count),
        unsettled=_unsettled(server, runs(server, 0, last), known, now_s) if any_so_far else 0.0,
        flag=server.kind_at(now_s).flag_names.count_work if _without_writes(server, last) else None,
    )


def runs(server: ServerHistory, first: int, last: int) -> list[tuple[int, int]]:
    """A span cut at the restarts in it; a run begins at the last scrape of the run before, with counters at 0."""
    cuts = [scrape - 1 for scrape in server.restarts if first < scrape <= last]
    return list(zip([first, *cuts], [*cuts, last], strict=True))


def _part(server: ServerHistory, first: int, last: int, costs: WriteCost | None, preemptions: bool) -> _RunPart | None:
    work = needed(server, first, last)
    if work is None:
        return None
    written = server.total(Quantity.WRITE_BYTES)
    grown = written.grown(first, last) if written is not None else None
    if not grown and not work.least:
        return _RunPart(costs, work, 0.0, 0.0)
    if written is None or grown is None or costs is None:
        return _RunPart(costs, work, None, None)
    executed = costs.executed(grown, work.rows, counter=written.at(last) or 0.0)
    tokens = max(0.0, executed - work.least - work.rejected) if preemptions else 0.0
    return _RunPart(costs, work, executed, tokens)


def _without_writes(server: ServerHistory, last: int) -> bool:
    """Tokens flow, and no byte of it is counted."""
    written, generated = server.total(Quantity.WRITE_BYTES), server.total(Quantity.GENERATION_TOKENS)
    if generated is None or not generated.at(last):
        return False
    return written is None or not written.at(last)


# --- cross-checks ---------------------------------------------------------------------------------------------------


def _released(server: ServerHistory, detector: PreemptionDetector, first: int, last: int) -> float | None:
    """KV tokens that preemptions released: their number x the mean of those of which it is known."""
    count = preempted(server, first, last)
    track = server.total(Quantity.PREEMPTIONS)
    if track is None or track.at(last) is None:
        return None
    if not count:
        return 0.0
    each = detector.mean_held(first, last)
    return each * count if each is not None else None


def _by_flops(
    server: ServerHistory, cuts: Sequence[tuple[int, int]], parts: Sequence[_RunPart], preemptions: float
) -> float | None:
    track = server.total(Quantity.FLOPS)
    if track is None or len(cuts) != 1 or len(parts) != 1:
        return None
    (first, last), part = cuts[0], parts[0]
    work, flops = part.needed, track.grown(first, last)
    price = part.costs.cost if part.costs is not None else None
    context = work.context
    if price is None or not flops or context is None:
        return None
    if not preemptions:
        return 0.0
    rest = flops - price.token_flops * work.least - price.row_flops * work.rows - price.context_flops * context
    if rest <= 0:
        return 0.0
    square = price.context_flops / preemptions  # square x x + token_flops x = rest
    return (math.sqrt(price.token_flops**2 + 4 * square * rest) - price.token_flops) / (2 * square)


def _unsettled(
    server: ServerHistory, cuts: Sequence[tuple[int, int]], parts: Sequence[_RunPart], now_s: float
) -> float:
    """Tokens of prompts in mid-prefill at the ends of the runs, at most."""
    begun = sum(part.needed.first_tokens for part in parts)
    prompt = sum(part.needed.prompt for part in parts)
    identity = server.identity(now_s)
    longest = identity.max_model_len if identity is not None else None
    mean = prompt / begun if begun else float(longest or 0)
    requests = sum(_in_prefill(server, first, last, at_end=False) for first, last in cuts[:1])
    requests += sum(_in_prefill(server, first, last, at_end=True) for first, last in cuts)
    return requests * mean


def _in_prefill(server: ServerHistory, first: int, last: int, *, at_end: bool) -> float:
    """How many requests may be in mid-prefill on the first or the last scrape of a run, counted from the nearest scrape
    on which nobody was."""
    running = server.total(Quantity.RUNNING)
    scrape = last if at_end else first
    most = (running.at(scrape) or 0.0) if running is not None else 0.0
    if not most:
        return 0.0
    near = range(last, max(first - 1, last - _LOOK), -1) if at_end else range(first, min(last + 1, first + _LOOK))
    calm = next((at for at in near if settled(server, at, last)), None)
    if calm is None:
        return most
    if not at_end:
        return min(most, _begun(server, first, calm))
    came = most - ((running.at(calm) or 0.0) if running is not None else 0.0)
    came += ended(server, calm, last) + preempted(server, calm, last) - _begun(server, calm, last)
    return min(most, max(0.0, came))


def _begun(server: ServerHistory, first: int, last: int) -> float:
    return (server.sums(Quantity.TTFT, first, last) or (0.0, 0.0))[1]


# --- sums -----------------------------------------------------------------------------------------------------------


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _sum(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) if listed else None


def _all(values: Iterable[float | None]) -> float | None:
    """A sum that is known only where every part is."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if known and len(known) == len(listed) else None
