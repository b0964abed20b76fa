"""The verdict: which limit binds now, in one sentence with its evidence, and which flag would help.

Each rule is a function of the frame that is otherwise complete, so it judges by the numbers that are on the screen;
it answers None without its evidence, and the first that answers speaks. What may bind, in the order asked:

    the data      no scrape, old, dead engine, another server, asleep: status.py has said it
    stuck         requests run or wait and nothing moves; prefilling: no token comes, but KV or work counters move
    frontend      the API server's process has no more of its core to give, or requests sent are not in the engine yet
    no-admission  requests wait, places and the pool are free, and nobody has been admitted for UNADMITTED_S
    kv            where requests waited, the next one did not fit into the pool; or requests were preempted
    max-num-seqs  where requests waited, running stood at its limit and the pool had room
    token-budget  where requests waited, max-num-seqs and the pool left room: prefill takes its turn within the steps
    client        vtop's own load cannot keep up, and what requests see is different for it
    power         the clock is held down by the power limit, by SLOWED on average
    none          requests run, hardly any waits

The limits from kv on are judged at the latest scrape and at the few before it, and what most of these say stands: a
single scrape on the other side of a threshold changes nothing. A limit is said of what costs something. A flag is a
hypothesis with its reason and the command that would test it, never a promise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from vtop import units
from vtop.recording.events import FlagValue
from vtop.server_kinds import registry
from vtop.server_kinds.kind import Hint, ServerKind, Suggestions
from vtop.session.bottleneck.at_limit import AT_LIMIT, FULL, MOSTLY, QUEUED, SLACK
from vtop.session.bottleneck.evidence import FEW
from vtop.session.frame.frame import Frame
from vtop.session.frame.verdict import Pressure, Verdict
from vtop.session.frame.vocabulary import StatusKind, VerdictLimit

STILL_S: Final = 5.0
CPU_FULL: Final = 0.9  # of one core
POWERED: Final = 0.5  # of the readings
SLOWED: Final = 0.08  # of the clock, on average: less costs nothing that shows
UNADMITTED_S: Final = 10.0
ENOUGH: Final = 30  # requests that finished, for what their wait was
PUT_BACK: Final = 0.03  # preemptions a first token: of fewer the pool is full now and then
MOSTLY_FULL: Final = 0.85  # of the pool
WASTED: Final = 0.1  # of the time
_WORDS: Final[dict[StatusKind, VerdictLimit]] = {  # of a status that leaves nothing to judge
    "waiting": "waiting",
    "down": "stale",
    "unhealthy": "stale",
    "blind": "unknown",
}
TITLES: Final[dict[VerdictLimit, str]] = {
    "kv": "KV POOL BINDS",
    "max-num-seqs": "MAX-NUM-SEQS BINDS",
    "token-budget": "TOKEN BUDGET BINDS",
    "deferred": "DEFERRED",
    "no-admission": "NOBODY IS ADMITTED",
    "power": "POWER BINDS",
    "frontend": "FRONTEND BINDS",
    "client": "CLIENT BINDS",
    "none": "NOTHING BINDS",
    "idle": "IDLE",
    "asleep": "ASLEEP",
    "prefilling": "PREFILLING",
    "stuck": "STUCK",
    "stale": "STALE",
    "waiting": "WAITING",
    "unknown": "NOT KNOWN",
}


def verdict(frame: Frame, earlier: Sequence[Pressure] = ()) -> Verdict:
    """What most say of the frame's pressure and of those of the scrapes before it, latest first."""
    now = _judged(frame)
    if now.limit not in SETTLING:
        return now
    told = [now, *(_judged(replace(frame, pressure=one)) for one in earlier if one.scrapes >= FEW)]
    told = [one for one in told if one.limit in SETTLING]
    limit, count = Counter(one.limit for one in told).most_common(1)[0]
    return next(one for one in told if one.limit == limit) if 2 * count > len(told) else now


def _judged(frame: Frame) -> Verdict:
    """The first rule with its evidence, or that nothing is known."""
    for rule in RULES:
        found = rule(frame)
        if found is not None:
            return found
    at = frame.pressure
    few = at is None or at.scrapes < FEW
    return _says("unknown", ["too few scrapes yet to tell" if few else "no rule has its evidence"])


def unread(frame: Frame) -> Verdict | None:
    """There is no scrape, an old one, one of a dead engine or one without series of its kind."""
    kind, said = frame.status.kind, frame.status.sentence
    return _says(_WORDS[kind], [said.removeprefix(kind).lstrip(": ")]) if kind in _WORDS else None


def asleep(frame: Frame) -> Verdict | None:
    at = frame.pressure
    return _says("asleep", ["the engine sleeps: its weights are offloaded"]) if at is not None and at.asleep else None


def stuck(frame: Frame) -> Verdict | None:
    """No token for a while: a long prefill where anything of the engine moves, stuck where nothing does."""
    at = frame.pressure
    if at is None or at.silent_s is None or at.still_s is None or at.silent_s < STILL_S:
        return None
    counts = f"{units.count(frame.requests.running.now)} running, {units.count(frame.requests.waiting.now)} waiting"
    if at.still_s < STILL_S:
        return _says("prefilling", [f"for {units.seconds(at.silent_s)}: no token, but the engine moves", counts])
    why = "a prefill that shows nothing, an engine that hangs, or gauges left behind when all requests were aborted"
    return _says("stuck", [f"nothing moved for {units.seconds(at.still_s)}", counts, why])


def idle(frame: Frame) -> Verdict | None:
    at = frame.pressure
    return _says("idle", [frame.status.sentence.removeprefix("idle: ")]) if at is not None and at.idle else None


def client(frame: Frame) -> Verdict | None:
    """vtop's own load is what limits."""
    load = frame.load
    if load is None or load.state != "running" or load.limited is None or not load.limited_costs:
        return None
    more = Hint("workers", None)
    return _says("client", [load.limited, "the numbers are the client's"], more, "one core is not enough for it")


def frontend(frame: Frame) -> Verdict | None:
    """The API server's process is at the end of its core."""
    at = frame.pressure
    if at is None or not at.running_share or at.api_cpu_ratio is None or at.api_cpu_ratio < CPU_FULL:
        return None
    said = [f"the API server takes {units.whole_percent(at.api_cpu_ratio)} of a core"]
    if frame.ttft.frontend_s is not None:
        said.append(f"frontend {units.seconds(frame.ttft.frontend_s)} of a TTFT of {units.seconds(frame.ttft.total_s)}")
    why = "another API server process takes its share of the tokenisation and streaming"
    return _says("frontend", said, _try(frame, at).more_api_servers(_flags(frame, at)), why)


def unadmitted(frame: Frame) -> Verdict | None:
    """Most requests that vtop sent are, scrape after scrape, not in the engine: in the frontend, or on their way."""
    at = frame.pressure
    if at is None or at.outside_share is None or at.outside_share < MOSTLY:
        return None
    said = [f"{units.whole_percent(at.outside_share)} of the requests sent are not in the engine yet"]
    if frame.ttft.frontend_s is not None:
        said.append(f"frontend {units.seconds(frame.ttft.frontend_s)} of a TTFT of {units.seconds(frame.ttft.total_s)}")
    why = "requests wait before the engine: tokenisation, IPC or HTTP"
    return _says("frontend", said, _try(frame, at).more_api_servers(_flags(frame, at)), why)


def deferred(frame: Frame) -> Verdict | None:
    """What waits is held back by its own needs: an adapter's slot, a grammar, remote KV."""
    at = frame.pressure
    if at is None or at.deferred_share is None or at.deferred_share < MOSTLY or at.waiting_share < QUEUED:
        return None
    waiting = frame.requests.waiting.now or 0.0
    said = f"{units.count(at.deferred_share * waiting)} of {units.count(waiting)} waiting requests are deferred"
    return _says("deferred", [f"{said}: a LoRA slot, a grammar or remote KV is not ready"])


def no_admission(frame: Frame) -> Verdict | None:
    """Requests wait, there is a place and room for them, and nobody is admitted."""
    at = frame.pressure
    if at is None or at.unadmitted_s is None or at.unadmitted_s < UNADMITTED_S:
        return None
    counts = f"{units.count(frame.requests.waiting.now)} waiting, {units.count(frame.requests.running.now)} running"
    said = [
        f"nobody admitted for {units.seconds(at.unadmitted_s)}",
        f"{counts} of {units.count(at.places)}" + ("" if at.max_num_seqs is not None else " seen so far"),
        f"KV {units.whole_percent(frame.kv.used.now)} now",
        "a prompt that takes all of each step, or a request at the head of the queue that cannot be scheduled",
    ]
    return _says("no-admission", said)


def kv(frame: Frame) -> Verdict | None:
    """Where requests waited the next one did not fit, or requests were preempted in a pool that stays full.

    A lower max_num_seqs would end preemptions, and with them the recomputing; it also lowers how many run. So it is
    offered only where recomputing takes a share of the time that is worth it: on an H200 max_num_seqs 10 instead of the
    11 to 14 residents of an overload ended 37 preemptions, which had taken 3 % of the time, and cost 21 % of the
    throughput (recordings overload_loaded and overload_seqs10).
    """
    at = frame.pressure
    if at is None or at.kv_high_ratio is None:
        return None
    crowded = at.waiting_share >= QUEUED and at.kv_full_share is not None and at.kv_full_share >= MOSTLY
    full = at.kv_median_ratio is not None and at.kv_median_ratio >= MOSTLY_FULL
    put_back = at.preemptions is not None and at.preemptions >= PUT_BACK * max(at.begun, 1.0)
    if not crowded and not (at.preemptions and full) and not (put_back and at.kv_high_ratio >= FULL):
        return None
    account, running = frame.account, at.running_median
    present = account.nominal.concurrency if account.nominal is not None else None
    said = []
    if running is not None and present is not None and present > running:
        said.append(f"{units.count(running)} of {units.count(present)} requests resident")
    said.append(_kv_range(at))
    if at.preemptions:
        said.append(f"{_many(at.preemptions, 'preemption')} in {units.seconds(at.seconds)}")
    if account.oversubscription is not None and account.oversubscription > 1:
        said.append(f"demand {account.oversubscription:.1f} × the pool")
    said.append(_window(frame, at))
    fits, wasted = account.predicted_residents, frame.recompute.time_ratio
    fewer = at.max_num_seqs is None or (fits is not None and at.max_num_seqs > fits)
    if at.preemptions and fits is not None and fits >= 1 and fewer and wasted is not None and wasted >= WASTED:
        why = f"recomputing takes {units.percent(wasted)} of the time, and {fits:.1f} requests of this length fit"
        return _says("kv", said, _try(frame, at).max_num_seqs(max(1, math.floor(fits / _engines(frame, at)))), why)
    cost = (
        f"; recomputing takes only {units.percent(wasted)} of the time" if at.preemptions and wasted is not None else ""
    )
    why = f"in a larger pool more requests would reside, and throughput goes with them{cost}"
    return _says("kv", said, _try(frame, at).larger_pool(_flags(frame, at)), why)


def max_num_seqs(frame: Frame) -> Verdict | None:
    """Where requests waited running stood at its highest, and the pool had room."""
    at = _queued(frame)
    if (
        at is None
        or at.waiting_share < QUEUED
        or at.at_max_num_seqs_share is None
        or at.at_max_num_seqs_share < AT_LIMIT
        or _ran_more(at)
        or at.kv_full_share is None
        or at.kv_full_share >= MOSTLY
        or at.limit is None
    ):
        return None
    limit = at.limit
    if _all_of_load(frame, at):
        return None  # the load itself asks for no more
    if at.max_num_seqs is None and frame.servers[at.server].side == "prefill":
        return None  # prompts take turns within the token budget: few run, whatever the limit
    said = [
        f"running stands at {units.count(limit)}"
        + (f", the limit of {_kind(frame, at).flag_names.max_num_seqs}" if at.max_num_seqs is not None else ""),
        f"{units.count(at.waiting_median)} waiting",
        _kv_range(at),
        _window(frame, at),
    ]
    fits = frame.account.predicted_residents
    engines = _engines(frame, at)
    more = int((min(2 * limit, fits) if fits is not None else 2 * limit) / engines)
    if more * engines <= limit:
        return _says("max-num-seqs", said)
    why = "the pool has room for more at once" + (f": {fits:.0f} of this length" if fits is not None else "")
    return _says("max-num-seqs", said, _try(frame, at).max_num_seqs(more), why)


def token_budget(frame: Frame) -> Verdict | None:
    """Where requests waited max-num-seqs and the pool left room: prefill takes its turn within the steps."""
    at = _queued(frame)
    if at is None or not frame.iteration.prefill or at.kv_high_ratio is None:
        return None
    if at.kv_full_share is not None and at.kv_full_share >= MOSTLY:
        return None
    if at.at_max_num_seqs_share is None:  # no scrape caught the queue
        free = at.max_num_seqs is not None and (at.running_high or 0.0) < at.max_num_seqs * (1 - SLACK)
        if not free or at.kv_high_ratio >= FULL:
            return None
    elif at.at_max_num_seqs_share >= AT_LIMIT and not _all_of_load(frame, at) and not _ran_more(at):
        return None
    said = []
    if at.waiting_median is not None:
        said.append(
            f"{units.count(at.waiting_median)} wait while {units.count(at.running_queued_median)} run, on "
            f"{units.whole_percent(at.waiting_share)} of scrapes"
        )
    if at.queue_of_ttft_ratio is not None and at.finished >= ENOUGH:
        said.append(f"queueing is {units.whole_percent(at.queue_of_ttft_ratio)} of TTFT")
    said.append(_kv_range(at))
    if frame.ttft.prefill_s is not None:
        said.append(f"prefill {units.seconds(frame.ttft.prefill_s)}")
    said.append(_window(frame, at))
    why = (
        "prompts take turns within the steps: larger steps raise throughput, smaller ones cut TTFT and the tail of ITL"
    )
    started = frame.servers[at.server].started
    return _says(
        "token-budget", said, _try(frame, at).other_budget(started.max_num_batched_tokens if started else None), why
    )


def power(frame: Frame) -> Verdict | None:
    """The GPUs run at their power limit, or say that it holds their clock down, and the clock is lower for it."""
    at = frame.pressure
    held = at.power if at is not None else None
    if at is None or held is None or at.scrapes < FEW or held.readings < FEW or at.running_share < MOSTLY:
        return None
    capped, near = held.capped_share or 0.0, held.near_limit_share or 0.0
    if max(capped, near) < POWERED or held.clock_loss_ratio is None or held.clock_loss_ratio < SLOWED:
        return None
    said = [f"clock {units.percent(held.clock_loss_ratio)} below its maximum (mean of {held.readings} readings)"]
    if held.high_w is not None and held.limit_w is not None:
        said.append(f"up to {units.watts(held.high_w)} of {units.watts(held.limit_w)}")
    if capped:
        said.append(f"power cap in {units.whole_percent(capped)} of the readings")
    return _says("power", said)


def under_loaded(frame: Frame) -> Verdict | None:
    """Requests run and hardly any waits."""
    at = frame.pressure
    if at is None or not at.running_share or at.scrapes < FEW or at.waiting_share >= QUEUED:
        return None
    said = [f"{units.count(at.running_median)} running", _waits(at), _kv_range(at)]
    if at.queue_of_ttft_ratio is not None and at.queue_of_ttft_ratio >= QUEUED and at.finished >= ENOUGH:
        said.append(f"queueing is {units.whole_percent(at.queue_of_ttft_ratio)} of TTFT: bursts between scrapes")
    if at.preemptions:
        said.append(_many(at.preemptions, "preemption"))
    return _says("none", [*(one for one in said if one), _window(frame, at)])


RULES: Final[tuple[Callable[[Frame], Verdict | None], ...]] = (
    unread, asleep, stuck, idle, frontend, unadmitted, deferred, no_admission, kv, max_num_seqs, token_budget, client,
    power, under_loaded,
)  # fmt: skip
SETTLING: Final[frozenset[VerdictLimit]] = frozenset({"kv", "max-num-seqs", "token-budget", "client", "power", "none"})


def _queued(frame: Frame) -> Pressure | None:
    """Requests waited on many scrapes, or those that finished had waited for much of their TTFT."""
    at = frame.pressure
    if at is None or at.scrapes < FEW:
        return None
    waited = at.queue_of_ttft_ratio is not None and at.queue_of_ttft_ratio >= QUEUED and at.finished >= ENOUGH
    return at if at.waiting_share >= QUEUED or waited else None


def _all_of_load(frame: Frame, at: Pressure) -> bool:
    """Whether all that vtop's own load asks for at once runs."""
    asked = frame.account.nominal
    return frame.load is not None and asked is not None and at.limit is not None and asked.concurrency <= at.limit


def _ran_more(at: Pressure) -> bool:
    """Whether more ran on other scrapes than where requests waited: then that was no limit."""
    return at.limit is not None and at.running_high is not None and at.running_high > at.limit * (1 + SLACK)


def _window(frame: Frame, at: Pressure) -> str:
    where = f" of {frame.servers[at.server].url.removeprefix('http://')}" if len(frame.servers) > 1 else ""
    return f"{at.scrapes:,} scrapes in {units.seconds(at.seconds)}{where}"


def _many(n: float, word: str) -> str:
    return f"{units.count(n)} {word}" + ("" if n == 1 else "s")


def _waits(at: Pressure) -> str:
    return (
        "none waits" if not at.waiting_share else f"requests wait on {units.whole_percent(at.waiting_share)} of scrapes"
    )


def _kv_range(at: Pressure) -> str:
    """The median of KV use, and from where to where it went."""
    low, high = at.kv_low_ratio, at.kv_high_ratio
    if low is None or high is None:
        return "KV use not known"
    one, other = f"{low * 100:.0f}", f"{high * 100:.0f}"
    return f"KV {units.whole_percent(at.kv_median_ratio)}" + (f" ({one}–{other})" if one != other else "")


def _flags(frame: Frame, at: Pressure) -> Mapping[str, FlagValue]:
    """On record of the server that the pressure is about."""
    started = frame.servers[at.server].started
    return started.flags if started is not None else {}


def _kind(frame: Frame, at: Pressure) -> ServerKind:
    """Of the same server."""
    return registry.of(frame.servers[at.server].kind)


def _try(frame: Frame, at: Pressure) -> Suggestions:
    """What that kind has against a limit."""
    return _kind(frame, at).suggest


def _engines(frame: Frame, at: Pressure) -> int:
    return max(1, frame.servers[at.server].engines)


def _says(limit: VerdictLimit, evidence: list[str], tried: Hint | None = None, why: str | None = None) -> Verdict:
    flag, command = (tried.flag, tried.command) if tried is not None else (None, None)
    return Verdict(limit, " · ".join(evidence), tuple(evidence), flag, why, command)
