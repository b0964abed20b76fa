"""The closed vocabularies of a frame: every word that one of its fields may hold, beside those of a recording."""

from __future__ import annotations

from typing import Final, Literal, get_args

StatusKind = Literal["waiting", "down", "unhealthy", "blind", "frozen", "idle", "busy"]
LoggedKind = Literal[
    "start", "restart", "flags", "outage", "back", "unhealthy", "preemption", "phase", "mark", "note", "end"
]
VerdictLimit = Literal[
    "kv",
    "max-num-seqs",
    "token-budget",
    "gpu",
    "deferred",
    "no-admission",
    "power",
    "frontend",
    "client",
    "none",
    "idle",
    "asleep",
    "prefilling",
    "stuck",
    "stale",
    "waiting",
    "unknown",
]
IncidentKind = Literal["stuck", "outage", "stale", "unhealthy", "restart"]
QueueTrend = Literal["growing", "draining", "steady"]
# what a load's throughput is over: whole rounds of a closed loop, from the end of the warm-up to the last request being
# sent, or all requests from the first sent to the last token
OutputOver = Literal["rounds", "sending", "all"]
PhaseState = Literal["running", "ended"]  # of vtop's own load
DatedBy = Literal["gauges", "counter"]  # running fell, waiting rose, nothing finished; where no gauge shows it
# whose latency; every output: some outputs held several tokens
Cohort = Literal["first token", "every token", "every output", "finished"]
LengthsFrom = Literal["the load's spec", "finished requests"]
StepFrom = Literal["own load", "steps that only decode", "steps and prompt tokens, fitted"]
RecomputeMethod = Literal["write bytes, model shape", "write bytes, fitted", "KV released"]
EnergySource = Literal["the GPUs' energy counters", "power integrated over the readings"]
LoadUnit = Literal["in flight", "requests/s"]
SearchRule = Literal["floor", "long-run"]  # of a search of capacity
RateVerdict = Literal["pass", "fail", "undecided", "more"]  # more: it takes further runs to tell
SearchEnd = Literal[
    "reached",
    "nothing passed",
    "nothing failed",
    "undecided",
    "deadline",
    "server changed",
    "no evidence",
    "stopped",
]

Side = Literal["prefill", "decode"]  # of a deployment that divides a request between servers
STATUS_KINDS: Final[tuple[StatusKind, ...]] = get_args(StatusKind)
LOGGED_KINDS: Final[tuple[LoggedKind, ...]] = get_args(LoggedKind)
VERDICT_LIMITS: Final[tuple[VerdictLimit, ...]] = get_args(VerdictLimit)
