"""Recordings to export: those that come with vtop, and small ones made by hand and written to a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import vtop
from tests.session.made import RECORDINGS, Log, Server, device
from vtop.export.notebook import OpenedRecording
from vtop.recording import AnyEvent, End, FileRecording, Load, Request, encode
from vtop.recording.vocabulary import LoadState

OVERLOAD, SWEEP, SHORT = (
    next(path for path in RECORDINGS if path.name.partition(".")[0] == name)
    for name in ("overload_loaded", "sweep", "sweep_c64")
)


def reading(path: Path) -> closing[FileRecording]:
    return closing(FileRecording(path))


@cache
def opened(path: Path) -> OpenedRecording:
    """One that comes with vtop; nothing changes it."""
    return vtop.open(path)


def written(log: Log, path: Path, *, end: bool = True) -> Path:
    """The recording as a file."""
    events: Iterable[AnyEvent] = log.events
    if end:
        events = [*log.events, End(t=log.events[-1].t if log.events else 0.0, reason="made")]
    lines = [encode(msgspec.structs.replace(log.start, t=0.0)), *map(encode, events)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def watched(seconds: int = 10, *, servers: int = 1, engines: Iterable[str] = ("0",)) -> Log:
    """Scrapes, a second apart, of servers that do something, and two GPUs of which one does not tell its power."""
    log = Log(servers=servers)
    made = [Server(engines, model=f"m{number}") for number in range(servers)]
    for second in range(seconds):
        for number, server in enumerate(made):
            for engine in server.engines.values():
                engine.running = float(second % 3)
                engine.kv = second / 100
                engine.count(prompt_tokens=100, generation_tokens=10 + number)
                engine.observe(time_to_first=0.05 * second, inter_token=0.02)
                engine.finish(queue=0.1)
            log.scrape(second + 0.5 + 0.01 * number, server, server=number)
        log.gpu(second + 0.6, device(power_w=100.0 + second), device(1, power_w=None))
    return log


def load(t: float, state: LoadState, **asked: object) -> Load:
    known: dict[str, Any] = {"phase": 0, "spec": "rate=4", "shape": "open", "rate_per_s": 4.0, "requests": 5}
    return Load(t=t, state=state, **{**known, **asked})


def request(t: float, number: int, **known: object) -> Request:
    return Request(t=t, id=number, phase=0, **known)  # type: ignore[arg-type]


def loaded() -> Log:
    """A phase of an open load: one request timed by its server too, one late, one failed, one without an end."""
    log = watched(10)
    said = {"queue_time_ms": 200.0, "time_to_first_token_ms": 300.0, "generation_time_ms": 980.0, "mean_itl_ms": 98.0}
    begun = {"due_s": 1.0, "admitted_s": 1.0, "sent_s": 1.0, "asked_prompt_tokens": 8, "asked_output_tokens": 11}
    first = {**begun, "headers_s": 1.01, "first_s": 1.6, "status": 200}
    ended = {**first, "last_s": 2.6, "end_s": 2.6, "prompt_tokens": 8, "output_tokens": 11, "tokens_from": "usage"}
    log.add(load(1.0, "begin", slo={"ttft": 0.5}), 1.0)
    log.add(request(1.0, 0, **begun), 1.0)
    log.add(request(1.2, 1, due_s=1.1, admitted_s=1.2, sent_s=1.25), 1.2)
    log.add(request(1.3, 2, due_s=1.3, sent_s=1.3), 1.3)
    log.add(request(1.6, 0, **first), 1.6)
    log.add(request(1.7, 2, end_s=1.7, error="refused", detail="no, thanks"), 1.7)
    log.add(request(2.6, 0, **ended, gaps_us=(100_000,) * 10, chunks=11, timings=said, finish="length"), 2.6)
    log.add(request(2.7, 3, due_s=2.7, sent_s=2.7), 2.7)
    log.add(request(4.0, 1, first_s=2.0, last_s=4.0, end_s=4.0, output_tokens=1), 4.0)
    log.events.sort(key=lambda event: event.t)
    return log


def strict(text: str | bytes) -> Any:
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)
