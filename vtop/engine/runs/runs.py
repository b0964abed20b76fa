"""The runs of a recording: what load the server was under, with which flags, and what its own histograms say about it.

A phase of vtop's own load is a run, with every request as it was sent. Without one, a load that scrapes tell is a run
(watched.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from vtop.engine.core.flags import POLICIES, TAKEN_BUDGET, TAKEN_SEQS, Flags
from vtop.engine.core.model_shape import ModelShape, shape_of
from vtop.engine.runs.observed import ObservedTimes, answers_of, observed
from vtop.engine.runs.replay import Ask, ReplayLoad
from vtop.engine.runs.watched import watched
from vtop.metrics.quantity import Quantity
from vtop.recording import AnyEvent, FileRecording, Request
from vtop.recording import Load as Phase
from vtop.server_kinds.vllm.flags import NAMES
from vtop.session.frame.gpus import counted_of
from vtop.session.frame.servers import StartedWith
from vtop.session.history.window import Window, between
from vtop.session.kv.pool import pool_at
from vtop.session.load.throughput import whole_span
from vtop.session.session import Session
from vtop.session.session import read as read_session

THINK_AT_MOST_S = 0.1  # more is a change of the load, not its client
ROUNDS = 3  # of requests in flight that must have been answered of a load that is under way
ENOUGH = 0.8  # of a phase's requests that the scrapes must have counted
SETTLE_S = 1.5  # the scrape on which a phase's last request is counted comes so much after its end, at most
HELD_S = 0.05  # a request that is sent so much after it was due was held back
LEAST_BLOCKS = 2  # of a pool: one is the null block
NO_POOL = "the server's scrapes do not say how large its KV pool is"


TOLD, RECORDED, USUAL = "told", "on record", "vLLM's default"  # where a flag is from; none of these: Flags' default
# flags of the command on record that the engine has too, as it calls them
_OF_COMMAND: dict[str, tuple[str, type]] = {
    "scheduling-policy": ("policy", str),
    "watermark": ("watermark", float),
    "enable-chunked-prefill": ("enable_chunked_prefill", bool),
    "async-scheduling": ("async_scheduling", bool),
    "long-prefill-token-threshold": ("long_prefill_token_threshold", int),
    "scheduler-reserve-full-isl": ("scheduler_reserve_full_isl", bool),
}


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    flags: Flags
    shape: ModelShape | None
    load: ReplayLoad
    observed: ObservedTimes
    gpu: str | None = None  # the name of the GPU that the server ran on, where it is on record
    server: str | None = None  # model and version
    phase: int | None = None  # of vtop's own load, from 0
    remarks: tuple[str, ...] = ()  # what the engine does not know of this load
    whence: Mapping[str, str] = field(default_factory=dict)  # of the flags that no scrape tells: TOLD, RECORDED, USUAL
    scrapes_apart_s: float = 1.0
    recording: str | None = None  # which recording it is of, whatever its file is called (fingerprint)


def runs(path: Path, flags: Mapping[str, Any] | None = None) -> list[Run]:
    """The runs of a recording. `flags`: what is told of those that /metrics does not say (max_num_seqs,
    max_num_batched_tokens); else they are those of the command on record, where there is one.

    Raises VtopError when the file is no recording.
    """
    return [found for found in read(path, flags) if isinstance(found, Run)]


def read(path: Path, flags: Mapping[str, Any] | None = None, *, unended: bool = False) -> list[Run | str]:
    """The runs, and in the place of what is none why it is none. unended: also a load that is still under way, as
    far as it has come."""
    requests: list[Request] = []
    phases: list[Phase] = []

    def see(event: AnyEvent) -> None:
        if isinstance(event, Request):
            requests.append(event)
        elif isinstance(event, Phase):
            phases.append(event)

    recording = FileRecording(path)
    session = read_session(recording, see)
    recording.close()
    name = path.name.partition(".")[0]
    if (many := _several(session)) is not None:
        return [many]
    if phases:
        found = list(_of_phases(name, session, phases, requests, flags or {}, unended=unended))
    else:
        found = list(_of_scrapes(name, session, flags or {}))
    which, apart_s = fingerprint(session), session.start.interval_s
    return [replace(one, recording=which, scrapes_apart_s=apart_s) if isinstance(one, Run) else one for one in found]


def fingerprint(session: Session) -> str:
    """Of a recording, by when it began and of which server it is; 16 hex digits."""
    said = f"{session.start.unix_s!r} {_server(session)}"
    return sha256(said.encode()).hexdigest()[:16]


def _several(session: Session) -> str | None:
    """Why the recording is of more than one engine simulates."""
    if len(session.servers) > 1:
        return f"it is of {len(session.servers)} servers; the simulated engine is one"
    server = session.servers[0]
    engines = server.engines(Quantity.RUNNING, server.visible(session.end_s) - 1)
    return f"its server runs {len(engines)} engines; the simulated engine is one" if len(engines) > 1 else None


def _of_phases(
    name: str,
    session: Session,
    phases: list[Phase],
    requests: list[Request],
    flags: Mapping[str, Any],
    *,
    unended: bool,
) -> Iterator[Run | str]:
    begins = [phase for phase in phases if phase.state == "begin"]
    for begin in begins:
        end = next((phase for phase in phases if phase.phase == begin.phase and phase.state == "end"), None)
        mine = [request for request in requests if request.phase == begin.phase and request.end_s is not None]
        others = [one for one in requests if one.phase != begin.phase and one.status == 200 and one.end_s is not None]
        end_s = end.t if end is not None else session.end_s
        if end is None and not (unended and len(mine) >= ROUNDS * (begin.concurrency or 1)):
            found: Run | str = "it has no end on record"
        else:
            found = _of_phase(session, begin, end_s, (mine, others), flags)
        label = f"{name}, {begin.spec}" if len(begins) > 1 else name
        said = f"phase {begin.phase + 1}, {begin.spec}: {found}"
        yield replace(found, name=label) if isinstance(found, Run) else said


def _of_phase(
    session: Session,
    begin: Phase,
    end_s: float,
    requests: tuple[list[Request], list[Request]],
    flags: Mapping[str, Any],
) -> Run | str:
    """`requests`: its own, and those of other phases and the trials before them, which show what the server takes."""
    mine, others = requests
    done = [request for request in mine if request.error is None and request.sent_s is not None]
    if not done:
        return "no request of it succeeded"
    if len(done) < len(mine):
        return f"{len(mine) - len(done)} of its {len(mine)} requests failed, and what they cost is not known"
    done.sort(key=lambda request: request.sent_s or 0.0)
    window = between(session.servers, _scrape_s(session, begin.t), end_s + SETTLE_S, session.end_s)
    first_s, last_s = whole_span(done) or (begin.t, end_s)
    counted = [other for other in others if _within(other, window)]
    seen = observed(session, window, (first_s, last_s), last_s - first_s, answers=answers_of(done), foreign=counted)
    if seen is None or seen.requests < ENOUGH * len(done):
        return "the server's scrapes count fewer requests than it sent: they are not of this load"
    found = _flags(session, window, flags)
    if found is None:
        return NO_POOL
    known, whence = found
    closed = begin.shape == "closed"
    keys = _prefix(begin.spec, known.block_size)
    asks = tuple(
        Ask(
            request.prompt_tokens or request.asked_prompt_tokens or 0,
            request.output_tokens or request.asked_output_tokens or 0,
            None if closed else (request.sent_s or 0.0) - first_s,
            prefix_keys=keys,
        )
        for request in done
    )
    if any(ask.prompt_tokens < 1 or ask.output_tokens < 1 for ask in asks):
        return "the lengths of its requests are not on record"
    load = (
        ReplayLoad(asks, begin.concurrency, think_s=_think_s(done, begin.concurrency)) if closed else ReplayLoad(asks)
    )
    return Run(
        name="",
        flags=known,
        shape=_shape(session),
        load=load,
        observed=seen,
        gpu=_gpu(session),
        server=_server(session),
        phase=begin.phase,
        remarks=_remarks(begin, done, known, keys),
        whence=whence,
    )


def _scrape_s(session: Session, at_s: float) -> float:
    """When the latest scrape at an instant came; the instant itself before the first."""
    scrapes = session.servers[0].at_s
    return scrapes[place] if (place := bisect_right(scrapes, at_s) - 1) >= 0 else at_s


def _within(request: Request, window: Window) -> bool:
    """Whether its end was counted in the window."""
    if request.last_s is None or not window.ranges:
        return False
    one = window.ranges[0]
    return one.server.at_s[one.first] < request.last_s <= one.server.at_s[one.last]


def _prefix(spec: str, block_size: int) -> tuple[Hashable, ...]:
    """The blocks that every prompt of a load has alike: those of `prefix=256`."""
    words = dict(word.partition("=")[::2] for word in spec.split())
    tokens = words.get("prefix", "0")
    return tuple(("prefix", block) for block in range(int(tokens) // block_size)) if tokens.isdecimal() else ()


def _remarks(begin: Phase, done: list[Request], flags: Flags, keys: Sequence[Hashable]) -> tuple[str, ...]:
    remarks = []
    cached = sum(request.cached_tokens or 0 for request in done)
    if cached and not keys and flags.enable_prefix_caching:
        share = cached / sum(request.prompt_tokens or 0 for request in done)
        remarks.append(f"{share:.0%} of its prompt tokens came from the prefix cache; here every prompt is new")
    most = begin.max_in_flight
    held = [r for r in done if r.due_s is not None and (r.sent_s or 0.0) - r.due_s > HELD_S]
    if begin.shape != "closed" and most is not None and held:
        remarks.append(f"its bound of {most} in flight held {len(held)} requests back; here they come when they came")
    return tuple(remarks)


def _think_s(done: list[Request], concurrency: int | None) -> float:
    """How soon after an answer the client sends again: never before it, as a request that crosses one seems to."""
    ends = sorted(request.end_s or 0.0 for request in done)
    sends = [request.sent_s or 0.0 for request in done]
    pauses = [sent - end for end, sent in zip(ends, sends[concurrency or 0 :], strict=False)]
    usual = median(pauses) if pauses else 0.0
    return usual if 0.0 < usual < THINK_AT_MOST_S else 0.0


def _of_scrapes(name: str, session: Session, flags: Mapping[str, Any]) -> Iterator[Run | str]:
    """Of a load that vtop only watched."""
    found = list(watched(session))
    known = _flags(session, between(session.servers, 0.0, session.end_s, session.end_s), flags)
    for number, one in enumerate(found, 1):
        if isinstance(one, str):
            yield one
        elif known is None:
            yield NO_POOL
        else:
            its, whence = known
            yield Run(
                name=f"{name}, part {number}" if len(found) > 1 else name,
                flags=its,
                shape=_shape(session),
                load=one.load,
                observed=one.observed,
                gpu=_gpu(session),
                server=_server(session),
                remarks=one.remarks,
                whence=whence,
            )


def _flags(session: Session, window: Window, told: Mapping[str, Any]) -> tuple[Flags, Mapping[str, str]] | None:
    """The flags of the server on the window's last scrape, and whence those are that no scrape tells."""
    if not window.ranges:
        return None
    stretch = window.ranges[0]
    pool = pool_at(stretch.server, stretch.last, None)
    now_s = stretch.server.t[stretch.last]
    identity = stretch.server.identity(now_s) or stretch.server.identity(session.end_s)
    found: dict[str, Any] = {"enable_prefix_caching": bool(pool.prefix_caching)}
    if pool.block_size is not None and pool.block_size >= 1:
        found["block_size"] = pool.block_size
    if pool.tokens is not None:
        found["num_gpu_blocks"] = round(pool.tokens) // int(found.get("block_size", 16))
    if identity is not None and identity.max_model_len is not None:
        found["max_model_len"] = identity.max_model_len
    limits, whence = _limits(session.started_with(0, now_s), told)
    if "max_num_seqs" not in limits:
        limits["max_num_seqs"] = min(TAKEN_SEQS, limits.get("max_num_batched_tokens", TAKEN_SEQS))
    if "max_num_batched_tokens" not in limits:
        longest = found.get("max_model_len", 0) if limits.get("enable_chunked_prefill") is False else 0
        limits["max_num_batched_tokens"] = max(TAKEN_BUDGET, limits["max_num_seqs"], longest)
    found |= limits
    return (Flags(**found), whence) if found.get("num_gpu_blocks", 0) >= LEAST_BLOCKS else None


def _limits(started: StartedWith | None, told: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """What is told, else what the command on record says; and whence each is."""
    found: dict[str, Any] = {}
    whence: dict[str, str] = {}
    if started is not None:
        for flag, (name, kind) in _OF_COMMAND.items():
            given = started.flags.get(flag)
            if type(given) is kind and (name != "policy" or given in POLICIES):
                found[name], whence[name] = given, RECORDED
        for flag in (NAMES.max_num_seqs, NAMES.max_num_batched_tokens):
            name = flag.replace("-", "_")
            value: int | None = getattr(started, name)
            if value is not None:
                found[name], whence[name] = value, USUAL if flag in started.defaults else RECORDED
    found |= told
    whence |= dict.fromkeys(told, TOLD)
    return found, whence


def _shape(session: Session) -> ModelShape | None:
    identity = session.servers[0].identity(session.end_s)
    return shape_of(identity.shape) if identity is not None else None


def _gpu(session: Session) -> str | None:
    """The GPU that the server ran on, where it is only one."""
    gpus = counted_of(session.gpus.part(session.end_s, session.end_s, local=True).devices)
    return gpus[0].name if len(gpus) == 1 else None


def _server(session: Session) -> str | None:
    """Model and version."""
    identity = session.servers[0].identity(session.end_s)
    if identity is None:
        return None
    version = f"vLLM {identity.version}" if identity.version is not None else None
    return ", ".join(filter(None, (*identity.models[:1], version))) or None
