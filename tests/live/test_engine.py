"""The simulated engine beside a real vLLM: the same arrivals and flags give the same queues and preemptions.

VTOP_VLLM names vLLM's virtual environment; without it these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import pytest

from tests.live.vllm_server import KEY, VllmServer
from tests.live.vtop_record import VTOP, environment, session
from vtop.engine.core.engine import Engine
from vtop.engine.core.step import StepOutcome
from vtop.engine.fit.fit import fit
from vtop.engine.runs.replay import ReplayLoad, replay
from vtop.engine.runs.runs import Run, runs
from vtop.metrics.quantity import Quantity
from vtop.recording import FileRecording, Request

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif("VTOP_VLLM" not in os.environ, reason="no vLLM: VTOP_VLLM names no virtual environment with it"),
]

FLAGS = {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "async_scheduling": False}  # of serve_vllm.sh on a CPU
SEEDS = (11, 12, 13)  # which requests the engine finds when it begins its first steps is chance


@dataclass(frozen=True, slots=True)
class Level:
    """How many ran and waited at an instant, by when so many tokens had been generated."""

    at_s: float
    tokens: float
    running: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Beside:
    """One load, on the real server and on the simulated one."""

    run: Run
    real: list[Level]
    simulated: list[Level]
    preemptions: int

    def apart(self, by: str) -> tuple[float, float]:
        """How far running and waiting lie apart on average over the real one's pages, at equal `at_s` or `tokens`."""
        keys = [getattr(level, by) for level in self.simulated]
        pairs = [(page, self.simulated[max(0, bisect_right(keys, getattr(page, by)) - 1)]) for page in self.real]
        return (
            fmean(abs(page.running - level.running) for page, level in pairs),
            fmean(abs(page.waiting - level.waiting) for page, level in pairs),
        )


@pytest.fixture(scope="module")
def beside(early: tuple[VllmServer, object], tmp_path_factory: pytest.TempPathFactory) -> list[Beside]:
    server, _ = early
    if server.health() != 200:
        server.start()
    return [both(server, tmp_path_factory.mktemp("beside") / f"{seed}.jsonl", seed) for seed in SEEDS]


def both(server: VllmServer, path: Path, seed: int) -> Beside:
    """40 requests of 100 + 400 tokens at once over a pool of 4,096, recorded ten times a second."""
    server.idle_page()
    words = ("--concurrency", "40", "--in", "100", "--out", "400", "--with", f"n=40 warmup=0 seed={seed}")
    shape = ("--model-config", server.venv / "tiny-model" / "config.json")
    done = subprocess.run(
        [VTOP, "sweep", "--url", server.url, "--api-key", KEY, "--no-gpu", "--interval", "0.1", *shape, *words,
         "-o", path],
        stdin=subprocess.DEVNULL, capture_output=True, env=environment(), timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    (run,) = runs(path, FLAGS)
    run = replace(run, load=as_it_came(path, run))
    fitted = fit([run])
    levels: list[Level] = []
    engine = Engine(run.flags, fitted.timing, fitted.frontend, fitted.shape)
    generated = 0

    def watch(outcome: StepOutcome) -> None:
        nonlocal generated
        generated += outcome.tokens
        scheduler = engine.scheduler
        levels.append(Level(outcome.at_s, generated, len(scheduler.running), len(scheduler.waiting)))

    seen = replay(run.load, engine, watch)
    return Beside(run, pages(path), levels, seen.preemptions)


def sent(path: Path) -> list[Request]:
    recording = FileRecording(path)
    found = {
        event.id: event
        for event in recording.take()
        if isinstance(event, Request) and event.phase == 0 and event.end_s is not None
    }
    recording.close()
    return sorted(found.values(), key=lambda request: request.sent_s or 0.0)


def as_it_came(path: Path, run: Run) -> ReplayLoad:
    """The load with every request at the instant at which it was sent."""
    instants = [request.sent_s or 0.0 for request in sent(path)]
    return ReplayLoad(
        tuple(replace(ask, due_s=at_s - instants[0]) for ask, at_s in zip(run.load.asks, instants, strict=True))
    )


def pages(path: Path) -> list[Level]:
    """What the real server's pages said from the first request to the last answer."""
    requests = sent(path)
    first_s, last_s = requests[0].sent_s or 0.0, max(request.end_s or 0.0 for request in requests)
    server = session(path).servers[0]
    tracks = [server.total(q) for q in (Quantity.GENERATION_TOKENS, Quantity.RUNNING, Quantity.WAITING)]
    tokens, running, waiting = (track for track in tracks if track is not None)
    within = [page for page, at_s in enumerate(server.at_s) if first_s <= at_s <= last_s]
    before = tokens.at(within[0] - 1) or 0.0
    return [
        Level(
            server.at_s[page] - first_s,
            (tokens.at(page) or 0.0) - before,
            running.at(page) or 0.0,
            waiting.at(page) or 0.0,
        )
        for page in within
    ]


def test_it_preempts_as_often(beside: list[Beside], measured: list[str]) -> None:
    real = [one.run.observed.preemptions or 0 for one in beside]
    simulated = [one.preemptions for one in beside]
    measured.append(f"simulated engine: {simulated} preemptions for {real}")
    assert min(real) > 30
    assert sum(simulated) == pytest.approx(sum(real), rel=0.05)


def test_as_many_run_and_wait(beside: list[Beside], measured: list[str]) -> None:
    """At equal tokens generated: how fast a CPU that others use, too, is at each instant no model knows."""
    for one in beside:
        running, waiting = one.apart("tokens")
        timed = one.apart("at_s")
        measured.append(
            f"simulated engine, {len(one.real)} pages: running {running:.2f} and waiting {waiting:.2f} requests apart "
            f"at equal tokens, {timed[0]:.2f} and {timed[1]:.2f} at equal times"
        )
        assert len(one.real) > 50
        assert max(page.waiting for page in one.real) > 10
    apart = [one.apart("tokens") for one in beside]
    assert fmean(running for running, _ in apart) < 1.0
    assert fmean(waiting for _, waiting in apart) < 1.0
