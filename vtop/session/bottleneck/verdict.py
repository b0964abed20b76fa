"""The verdict: which limit binds now, in one sentence with its evidence, and which flag would help.

Each rule is a function of the frame that is otherwise complete, so it judges by the numbers that are on the screen;
it answers None without its evidence, and the first that answers speaks. What may bind, in the order asked:

    the data      no scrape, old, dead engine, another server, asleep: status.py has said it
    stuck         requests run or wait and nothing moves; prefilling: no token comes, but KV or work counters move
    frontend      the API server's process has no more of its core to give, or requests sent are not in the engine yet
    no-admission  requests wait, places and the pool are free, and nobody has been admitted for UNADMITTED_S
    kv            where requests waited, the next one did not fit into the pool; or requests were preempted
    max-num-seqs  where requests waited, running stood at its limit and the pool had room
    gpu           as token-budget, and a full step of prompts takes the GPU longer than the host needs to launch it
    token-budget  where requests waited, max-num-seqs and the pool left room: prefill takes its turn within the steps
    client        vtop's own load cannot keep up, and what requests see is different for it
    power         the clock is held down by the power limit, by SLOWED on average
    none          requests run, hardly any waits

The limits from kv on are judged at the latest scrape and at the few before it, and what most of these say stands: a
single scrape on the other side of a threshold changes nothing. A limit is said of what costs something: the thresholds
are held against the price of each limit (docs/whatif.md, bench/verdict_prices.py). A flag is a hypothesis with its
reason and the command that would test it, never a promise.
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
from vtop.session.bottleneck.at_limit import AT_LIMIT, FULL, LEFT, MOSTLY, QUEUED, SLACK, WIDE
from vtop.session.bottleneck.evidence import FEW
from vtop.session.frame.frame import Frame
from vtop.session.frame.kv import KvAccount
from vtop.session.frame.verdict import Pressure, Verdict
from vtop.session.frame.vocabulary import StatusKind, VerdictLimit

STILL_S: Final = 5.0
CPU_FULL: Final = 0.9  # of one core
POWERED: Final = 0.5  # of the readings
SLOWED: Final = 0.08  # of the clock, on average: where nobody waits that is 4 to 7 % of mean TTFT (prices)
UNADMITTED_S: Final = 10.0
ENOUGH: Final = 30  # requests that finished, for what their wait was
PUT_BACK: Final = 0.01  # preemptions a first token: of fewer a tenth more pool is worth nothing that is sure (prices)
AGAIN: Final = 3  # preemptions: of fewer the pool was full once
MOSTLY_FULL: Final = 0.85  # of the pool
WASTED: Final = 0.1  # of the time
SAID: Final = 0.0005  # of the time: less is 0.0 %, and who was preempted may still wait
GRAPHS: Final = 8  # requests: a CUDA graph is captured for every eighth number
LAUNCHED_S: Final = 0.028  # that a host needs to launch a step without a graph, at most (stamps: docs/whatif.md)
TURNS: Final = 2.0  # times what the prompts before it take: who waits longer does not wait for its turn in the steps
RUNS_OUT: Final = 0.9  # of the requests a load keeps in flight: with fewer it runs out
ROUNDS: Final = 3  # of requests as many as run
SHORTEST_S: Final = 3.0  # of a shorter time no limit is reported
FILLS: Final = 0.1  # of TTFT: prompts that queue so long fill the steps
STEPS: Final = (512, 1024, 2048, 4096)  # tokens, to try
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
    "gpu": "GPU BINDS",
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
    """What most say about the frame's pressure and of those of the scrapes before it, latest first."""
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
    few = at is None or _few(at)
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
    put_back = at.preemptions is not None and at.preemptions >= max(AGAIN, PUT_BACK * at.begun)
    if not crowded and not (at.preemptions and full) and not put_back:  # the pool was full there, if between scrapes
        return None
    account, running = frame.account, at.running_median
    present, demand = _in_flight(at, account)
    said = []
    if crowded and running is not None and present > running:
        said.append(f"{units.count(running)} of {units.count(present)} requests resident")
    said.append(_kv_range(at))
    if at.preemptions:
        said.append(f"{_many(at.preemptions, 'preemption')} in {units.seconds(at.seconds)}")
    if crowded and demand is not None and demand > 1:
        said.append(f"demand {demand:.1f} × the pool")
    said += [*_powered(at), _window(frame, at)]
    fits, wasted = account.predicted_residents, at.recompute_time_ratio
    fewer = at.max_num_seqs is None or (fits is not None and at.max_num_seqs > fits)
    if at.preemptions and fits is not None and fits >= 1 and fewer and wasted is not None and wasted >= WASTED:
        why = f"recomputing takes {units.percent(wasted)} of the time, and {fits:.1f} requests of this length fit"
        why += ": nobody would be preempted, and prompts would wait longer"
        return _says("kv", said, _try(frame, at).max_num_seqs(max(1, math.floor(fits / _engines(frame, at)))), why)
    cost = f"; recomputing takes {units.percent(wasted)} of the time" if wasted is not None and wasted >= SAID else ""
    more = "more requests would run at once, and fewer would wait" if crowded else "fewer would be preempted"
    why = f"in a larger pool {more}{cost}"
    return _says("kv", said, _try(frame, at).larger_pool(_flags(frame, at)), why)


def _in_flight(at: Pressure, account: KvAccount) -> tuple[float, float | None]:
    """How many requests there were, and what they ask of the pool: of a load that runs out, those that are left."""
    queued = (at.running_queued_median or 0.0) + (at.waiting_median or 0.0)
    if account.nominal is None:
        return queued, None
    kept, demand = account.nominal.concurrency, account.oversubscription
    if queued >= RUNS_OUT * kept:
        return kept, demand
    return queued, demand * queued / kept if demand is not None else None


def max_num_seqs(frame: Frame) -> Verdict | None:
    """Where requests waited running stood at its highest, and the pool had room."""
    at = _queued(frame)
    if (
        at is None
        or at.waiting_share < QUEUED
        or at.at_max_num_seqs_share is None
        or (at.at_max_num_seqs_share < AT_LIMIT and not _wait_for_places(frame, at))
        or _ran_more(at)
        or at.kv_full_share is None
        or at.kv_full_share >= MOSTLY
        or at.limit is None
    ):
        return None
    limit = at.limit
    if _all_of_load(frame, at):
        return None  # the load itself asks for no more
    if at.max_num_seqs is None and _prefills(frame, at):
        return None  # prompts take turns within the token budget: few run, whatever the limit
    said = [
        f"running stands at {units.count(limit)}"
        + (f", the limit of {_kind(frame, at).flag_names.max_num_seqs}" if at.max_num_seqs is not None else ""),
        f"{units.count(at.waiting_median)} waiting",
        _kv_range(at),
        _window(frame, at),
    ]
    engines = _engines(frame, at)
    more = int(limit * min(2.0, 1 / at.kv_median_ratio if at.kv_median_ratio else 2.0) / engines)
    more = more // GRAPHS * GRAPHS if more >= 4 * GRAPHS else more
    if more * engines <= limit:
        return _says("max-num-seqs", said)
    why = f"the {units.count(limit)} that run take {units.whole_percent(at.kv_median_ratio)} of the pool (median)"
    return _says("max-num-seqs", said, _try(frame, at).max_num_seqs(more), why)


def gpu(frame: Frame) -> Verdict | None:
    """Prefill takes its turn within steps that the GPU needs longer for than the host to launch them: larger ones bring
    nothing, smaller ones let each prompt begin sooner.

    On an H200 8,192 tokens take 170 ms: a tenth more is worth nothing (prices), and with 1,024 the mean TTFT at 64 in
    flight was 160 instead of 717 ms, at as many tokens/s (recordings sweep and sweep_batch1024).
    """
    at = _prompts_wait(frame)
    tokens, each_s = _step(frame, at) if at is not None else None, frame.wallclock.prompt_token_s
    if at is None or tokens is None or each_s is None or tokens * each_s < LAUNCHED_S:
        return None
    held = f"up to {tokens:,} tokens a step" if _budget(frame, at) is not None else f"{tokens:,} tokens a step or more"
    said = [
        *_turns(frame, at),
        f"{held}, {units.seconds(each_s)} a prompt token",
        *_powered(at),
        _window(frame, at),
    ]
    fewer = next((steps for steps in STEPS if steps * each_s >= LAUNCHED_S and steps < tokens), None)
    if fewer is None:
        return _says("gpu", said)
    why = "in smaller steps a prompt waits for fewer others: TTFT and the tail of ITL get shorter"
    return _says("gpu", said, _try(frame, at).smaller_steps(fewer), why)


def token_budget(frame: Frame) -> Verdict | None:
    """Where requests waited max-num-seqs and the pool left room: prefill takes its turn within the steps."""
    at = _prompts_wait(frame)
    if at is None:
        return None
    why = "prompts take turns within the steps: larger steps raise throughput and cut TTFT, at a longer tail of ITL"
    hint = _try(frame, at).other_budget(_budget(frame, at))
    return _says("token-budget", [*_turns(frame, at), *_powered(at), _window(frame, at)], hint, why)


def _prompts_wait(frame: Frame) -> Pressure | None:
    """Where requests waited and neither max-num-seqs nor the pool kept them."""
    at = _queued(frame)
    if at is None or not frame.iteration.prefill or at.kv_high_ratio is None:
        return None
    if at.kv_full_share is not None and at.kv_full_share >= MOSTLY:
        return None
    if at.at_max_num_seqs_share is None:  # no scrape caught the queue
        high, load = at.running_high or 0.0, frame.load
        free = at.max_num_seqs is not None and high < at.max_num_seqs * (1 - SLACK)
        all_ran = load is not None and load.concurrency is not None and load.concurrency <= high
        if not (free or all_ran) or at.kv_high_ratio >= FULL:
            return None
    elif at.at_max_num_seqs_share >= AT_LIMIT and not _all_of_load(frame, at) and not _ran_more(at):
        return at if at.max_num_seqs is None and _prefills(frame, at) else None
    return at if not _wait_for_places(frame, at) else None


def _prefills(frame: Frame, at: Pressure) -> bool:
    """Whether most of the engine's time goes to prompts, so that as many run as prompts leave the steps."""
    if frame.servers[at.server].side == "prefill":
        return True
    stolen = frame.wallclock.stolen_ratio
    if stolen is not None:
        return stolen >= MOSTLY
    each, prompt = frame.iteration.prefill, frame.account.input_tokens
    return each is not None and prompt is not None and each >= MOSTLY * prompt  # of nearly every step


def _wait_for_places(frame: Frame, at: Pressure) -> bool:
    """Whether requests wait far longer than the prompts before them take, while all places but one at most are taken:
    of few places one is free on many scrapes, as a request has just ended."""
    queue_s, prefill_s = frame.ttft.queue_s, frame.ttft.prefill_s
    if at.limit is None or at.running_queued_median is None or at.waiting_median is None:
        return False
    if at.max_num_seqs is None and _prefills(frame, at):
        return False
    if queue_s is None or not prefill_s or at.running_queued_median < at.limit - LEFT or _ran_more(at):
        return False
    return at.waiting_share >= QUEUED and queue_s > TURNS * (at.waiting_median + 1) * prefill_s


def _step(frame: Frame, at: Pressure) -> int | None:
    """How many tokens a step may hold; where that is not on record, what the fullest held at least."""
    budget = _budget(frame, at)
    return int(at.step_tokens) if budget is None and at.step_tokens is not None else budget


def _budget(frame: Frame, at: Pressure) -> int | None:
    started = frame.servers[at.server].started
    return started.max_num_batched_tokens if started is not None else None


def _nearly(frame: Frame, at: Pressure) -> list[str]:
    """That running came to its limit now and then, between scrapes or for less than a queue.

    With 31 of 48 running, and 47 at most, more places were worth 21 ± 18 % of TTFT (prices, open_loop_seats48).
    """
    most, high = at.max_num_seqs, at.running_high
    if most is None or high is None or high < most - max(most * SLACK, LEFT if most >= WIDE else 0.0):
        return []
    if _all_of_load(frame, at):
        return []
    return [f"up to {units.count(high)} running at once, {units.count(most)} may: some may have waited between scrapes"]


def _launched(frame: Frame, at: Pressure) -> list[str]:
    """That prompts fill steps which are too small to keep the GPU at work, though hardly any request waits for it.

    With 512 tokens a step and 4 to 32 in flight a tenth more was worth 1 to 4 % of tokens/s and 9 to 13 % of TTFT
    (prices).
    """
    tokens, each_s = _budget(frame, at), frame.wallclock.prompt_token_s
    if tokens is None or each_s is None or tokens * each_s >= LAUNCHED_S:
        return []
    queued = at.finished >= ENOUGH and (at.queue_of_ttft_ratio or 0.0) >= FILLS
    if (frame.account.input_tokens or 0.0) < tokens and not queued:
        return []
    held = f"up to {tokens:,} tokens a step, {units.seconds(each_s)} a prompt token"
    return [f"{held}: less than a launch may take, larger steps would cut TTFT"]


def _turns(frame: Frame, at: Pressure) -> list[str]:
    """How prompts wait for their turn."""
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
    return said


def power(frame: Frame) -> Verdict | None:
    """The GPUs run at their power limit, or say that it holds their clock down, and the clock is lower for it."""
    at = frame.pressure
    if at is None or not _powered(at):
        return None
    held = at.power
    said = [*_powered(at)]
    if held is not None and held.high_w is not None and held.limit_w is not None:
        said.append(f"up to {units.watts(held.high_w)} of {units.watts(held.limit_w)}")
    return _says("power", [*said, f"{units.count(at.running_median)} running", _waits(at), _window(frame, at)])


def _powered(at: Pressure) -> list[str]:
    """What power takes of the clock, where it takes enough to be a limit."""
    held = at.power
    if held is None or _few(at) or held.readings < FEW or at.running_share < MOSTLY:
        return []
    capped, near = held.capped_share or 0.0, held.near_limit_share or 0.0
    if max(capped, near) < POWERED or held.clock_loss_ratio is None or held.clock_loss_ratio < SLOWED:
        return []
    by = (
        f"power cap in {units.whole_percent(capped)}"
        if capped
        else f"power within 3 % of its limit in {units.whole_percent(near)}"
    )
    return [f"clock {units.percent(held.clock_loss_ratio)} below its maximum, {by} of {held.readings} readings"]


def under_loaded(frame: Frame) -> Verdict | None:
    """Requests run and hardly any waits."""
    at = frame.pressure
    if at is None or not at.running_share or _few(at) or at.waiting_share >= QUEUED:
        return None
    said = [f"{units.count(at.running_median)} running", _waits(at), _kv_range(at)]
    said += [*_nearly(frame, at), *_launched(frame, at)]
    rounds = at.finished / (at.running_median or math.inf)  # many of the first came, and queued, before these scrapes
    if _had_queued(at) and rounds >= ROUNDS:
        said.append(f"queueing is {units.whole_percent(at.queue_of_ttft_ratio)} of TTFT: bursts between scrapes")
    if at.preemptions:
        said.append(_many(at.preemptions, "preemption"))
    return _says("none", [*(one for one in said if one), _window(frame, at)])


RULES: Final[tuple[Callable[[Frame], Verdict | None], ...]] = (
    unread, asleep, stuck, idle, frontend, unadmitted, deferred, no_admission, kv, max_num_seqs, gpu, token_budget,
    client, power, under_loaded,
)  # fmt: skip
SETTLING: Final[frozenset[VerdictLimit]] = frozenset(
    {"kv", "max-num-seqs", "gpu", "token-budget", "client", "power", "none"}
)


def _queued(frame: Frame) -> Pressure | None:
    """Requests waited on many scrapes, or those that finished had waited for much of their TTFT."""
    at = frame.pressure
    if at is None or _few(at):
        return None
    return at if at.waiting_share >= QUEUED or _had_queued(at) else None


def _had_queued(at: Pressure) -> bool:
    """Whether those that finished had waited for much of their TTFT."""
    return (at.queue_of_ttft_ratio or 0.0) >= QUEUED and at.finished >= ENOUGH


def _all_of_load(frame: Frame, at: Pressure) -> bool:
    """Whether all that vtop's own closed loop keeps in flight runs; an open one knows no such number."""
    load = frame.load
    return load is not None and load.concurrency is not None and at.limit is not None and load.concurrency <= at.limit


def _ran_more(at: Pressure) -> bool:
    """Whether more ran on other scrapes than where requests waited: then that was no limit."""
    return at.limit is not None and at.running_high is not None and at.running_high > at.limit * (1 + SLACK)


def _window(frame: Frame, at: Pressure) -> str:
    where = f" of {frame.servers[at.server].url.removeprefix('http://')}" if len(frame.servers) > 1 else ""
    return f"{_many(at.scrapes, 'scrape')} in {units.seconds(at.seconds)}{where}"


def _few(at: Pressure) -> bool:
    """Whether there are too few scrapes, or all of them too soon after one another, to tell."""
    return at.scrapes < FEW or at.seconds < SHORTEST_S


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
