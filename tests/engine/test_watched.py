"""What load a server was under, when only its scrapes tell: a closed loop, an open one and when its requests came, or
neither."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.session.made import Log, Server
from vtop import shipped
from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.fit import profile
from vtop.engine.runs.replay import Ask, ReplayLoad, replay
from vtop.engine.runs.runs import Run, read, runs
from vtop.engine.runs.watched import Watched, watched
from vtop.engine.whatif.simulation import simulate
from vtop.engine.whatif.whatif import TooFarOff, too_far_off, what_if
from vtop.recording import FileRecording, Request, encode
from vtop.recording import Load as Phase
from vtop.session.session import Session

RECORDINGS = shipped.folder("recordings")
H200 = profile.load("h200-qwen2.5-7b")


def of_scrapes(name: str) -> list[Watched | str]:
    """What the scrapes alone tell of a recording that vtop's own load is on."""
    recording = FileRecording(next(RECORDINGS.glob(f"{name}.jsonl*")))
    session = Session(recording.start)
    while events := recording.take():
        for event in events:
            if not isinstance(event, Phase | Request):
                session.apply(event)
    recording.close()
    return list(watched(session))


@pytest.mark.parametrize(
    ("name", "in_flight"),
    [
        ("open_loop", [None] * 6),
        ("open_loop_again", [None] * 2),
        ("open_loop_seats48", [None] * 2),
        ("overload", [64]),
        ("overload_loaded", [64]),
        ("overload_seqs10", [64]),
        ("overload_seqs12", [64]),
        ("pool7168", [64, 96, 128]),
        ("repeat_first", [16, 64]),
        ("repeat_second", [16, 64]),
        ("sweep", [1, 2, 4, 8, 16, 32, 64]),
        ("sweep_again", [16, 64]),
        ("sweep_batch512", [1, 4, 16, 32, 64]),
        ("sweep_batch512_again", [4, 16, 32, 64]),
        ("sweep_c64", [64]),
    ],
)
def test_scrapes_tell_an_open_loop_from_a_closed_one(name: str, in_flight: list[int | None]) -> None:
    assert [one if isinstance(one, str) else one.load.concurrency for one in of_scrapes(name)] == in_flight


def test_closed_loops_without_a_pause_between_them_are_not_one_load() -> None:
    (why,) = of_scrapes("sweep_batch1024")
    assert isinstance(why, str)
    assert "closed loops, 64 and 16 in flight" in why


def test_a_restart_under_a_load_leaves_nothing_to_replay() -> None:
    assert "restarted" in str(of_scrapes("killed")[1])


def test_an_open_loop_that_was_only_watched_is_simulated_as_the_one_whose_requests_are_on_record() -> None:
    known = runs(RECORDINGS / "open_loop.jsonl.zst")[3]
    seen = of_scrapes("open_loop")[3]
    assert isinstance(seen, Watched)
    assert len(seen.load.asks) == len(known.load.asks)
    alike = simulate(known, known.flags, H200).measured
    by_scrapes = simulate(_with(known, seen), known.flags, H200).measured
    assert by_scrapes.ttft_s == pytest.approx(alike.ttft_s, rel=0.06)
    assert by_scrapes.e2e_s == pytest.approx(alike.e2e_s, rel=0.02)


def _with(run: Run, seen: Watched) -> Run:
    return replace(run, load=seen.load, observed=seen.observed)


# --- made scrapes -----------------------------------------------------------------------------------------------------


class Scraped:
    """A server scraped every second: requests that finish in it, and those in flight at its end."""

    def __init__(self, finished: int = 0, running: int = 0) -> None:
        self.log, self.server = Log(), Server()
        self.server.pool_tokens = 4096
        self.second = 0.5
        self.then(finished, running)

    def then(self, finish: int, running: int, waiting: int = 0, prompt: int = 100) -> None:
        for _ in range(finish):
            self.server.engine.finish(prompt=prompt, output=20)
        self.server.engine.running, self.server.engine.waiting = running, waiting
        self.log.scrape(self.second, self.server)
        self.second += 1.0

    def read(self, folder: Path) -> list[Run | str]:
        path = folder / "made.jsonl"
        events = (self.log.start, *self.log.events)
        path.write_bytes(b"".join(encode(event) + b"\n" for event in events))
        return read(path)

    def run(self, folder: Path) -> Run:
        (found,) = self.read(folder)
        assert isinstance(found, Run), found
        return found

    def why(self, folder: Path) -> str:
        (found,) = self.read(folder)
        assert isinstance(found, str)
        return found


def test_requests_of_an_open_loop_came_between_the_scrapes_that_saw_their_number_grow(tmp_path: Path) -> None:
    server = Scraped()
    for finish, running in ((0, 2), (1, 4), (2, 3), (0, 9), (6, 3), (2, 5), (5, 0), (0, 0)):
        server.then(finish, running)
    run = server.run(tmp_path)
    assert run.load.concurrency is None
    assert [(ask.due_s, ask.until_s) for ask in run.load.asks] == [
        *[(0, 1)] * 2, *[(1, 2)] * 3, (2, 3), *[(3, 4)] * 6, *[(5, 6)] * 4,
    ]  # fmt: skip


def test_an_open_loop_begins_and_ends_where_its_rate_puts_its_first_and_last_requests(tmp_path: Path) -> None:
    server = Scraped()
    running = (0, 4, 14, 9, 15, 6, 12, 4, 11, 7, 0, 0)
    server.then(0, 0)
    for before, now, came in zip(running, running[1:], (4, *[20] * 8, 5, 0), strict=False):
        server.then(before + came - now, now)
    asks = server.run(tmp_path).load.asks  # 20 a second for 8 s: the first 4 came in 0.2 s, the last 5 in 0.25 s
    at_s = (asks[0].due_s, asks[0].until_s, asks[-1].due_s, asks[-1].until_s)
    assert at_s == pytest.approx((0, 0.2, 8.2, 8.45))


def test_when_within_a_scrape_is_another_chance_for_every_seed() -> None:
    load = ReplayLoad(tuple(Ask(100, 20, 1.0, until_s=2.0) for _ in range(200)))
    seen = []
    for seed in (0, 0, 1):
        engine = Engine(Flags(num_gpu_blocks=5431), H200.timing, H200.frontend, H200.shape)
        done = replay(replace(load, seed=seed), engine)
        seen.append(sorted(request.sent_s or 0.0 for request in done.requests))
    assert seen[0] == seen[1] != seen[2]
    assert 0.99 < seen[0][0] < seen[0][100] < seen[0][-1] < 2.01
    assert seen[0][100] == pytest.approx(1.5, abs=0.1)


def test_requests_that_were_there_when_the_recording_began_came_within_an_e2e_before(tmp_path: Path) -> None:
    server = Scraped(1, 7)
    for finish, running in ((3, 4), (2, 5), (1, 9), (6, 3), (2, 5), (5, 0), (0, 0)):
        server.then(finish, running)
    run = server.run(tmp_path)
    assert run.load.concurrency is None
    first = [ask for ask in run.load.asks if ask.due_s == 0.0]
    assert len(first) == 7
    assert first[0].until_s == pytest.approx(run.observed.e2e_s)
    assert "7 requests were there when the recording began" in run.remarks


def test_a_trial_request_of_another_length_is_none_of_the_load(tmp_path: Path) -> None:
    server = Scraped()
    server.then(1, 4, prompt=16)
    for _ in range(60):
        server.then(3, 4)
    server.then(4, 0)
    run = server.run(tmp_path)
    assert run.load.concurrency == 4
    assert {ask.prompt_tokens for ask in run.load.asks} == {100}
    assert run.observed.requests == len(run.load.asks) == 184
    assert "1 of its first requests, of another length, left out" in run.remarks


def test_a_request_of_another_length_amid_a_load_makes_it_a_mixture(tmp_path: Path) -> None:
    server = Scraped()
    for second in range(60):
        server.then(3, 4, prompt=16 if second == 30 else 100)
    server.then(4, 0)
    assert "several lengths" in server.why(tmp_path)


def test_requests_that_left_without_an_answer_hide_which_came_when(tmp_path: Path) -> None:
    server = Scraped()
    for second in range(30):
        server.then(2, 40 if second < 15 else 20)
    assert "without an answer" in server.why(tmp_path)


def test_loads_with_a_pause_between_them_are_runs_of_their_own(tmp_path: Path) -> None:
    server = Scraped()
    for running in (2, 8):
        for _ in range(20):
            server.then(running, running)
        server.then(running, 0)
        server.then(0, 0)
        server.then(0, 0)
    found = server.read(tmp_path)
    assert [run.load.concurrency for run in found if isinstance(run, Run)] == [2, 8]
    assert [run.name for run in found if isinstance(run, Run)] == ["made, part 1", "made, part 2"]


def test_a_single_scrape_without_requests_is_no_pause_of_a_closed_loop(tmp_path: Path) -> None:
    server = Scraped()
    for second in range(20):
        server.then(4, 0 if second == 9 else 4)
    server.then(4, 0)
    assert server.run(tmp_path).load.concurrency == 4


# --- an error that is absurd ------------------------------------------------------------------------------------------


def test_nothing_is_said_of_other_flags_where_the_recorded_ones_are_far_off() -> None:
    """An open loop taken for a closed one: its mean TTFT would be nine times as long."""
    run = runs(RECORDINGS / "open_loop.jsonl.zst")[3]
    asks = tuple(replace(ask, due_s=None) for ask in run.load.asks)
    taken = replace(run, load=ReplayLoad(asks, 52))
    with pytest.raises(TooFarOff, match=r"no answer: .* off by .*\+\d,?\d+ % in TTFT mean \(at most 50 %\)"):
        what_if(taken, H200, replace(run.flags, max_num_seqs=30))
    only_checked = what_if(taken, H200, run.flags)
    assert "no answer" in only_checked.remarks[0]


def test_an_error_of_some_ms_is_not_absurd_however_short_the_ttft() -> None:
    run = runs(RECORDINGS / "open_loop.jsonl.zst")[0]
    found = simulate(run, run.flags, H200)
    assert found.measured.ttft_s is not None
    shorter = replace(run.observed, queue_s=0.0, prefill_s=0.014, frontend_s=0.004)
    assert found.measured.ttft_s > 1.5 * shorter.ttft_s
    assert too_far_off(replace(run, observed=shorter), found) is None


def test_a_recording_is_known_by_its_content_and_not_by_the_name_of_its_file(tmp_path: Path) -> None:
    first = RECORDINGS / "sweep_c64.jsonl.gz"
    (other := tmp_path / "renamed.jsonl.gz").write_bytes(first.read_bytes())
    assert runs(other)[0].recording == runs(first)[0].recording
    assert H200.fitted_on(runs(other)[0].recording) is True
    (unseen := tmp_path / "sweep_c64.jsonl.gz").write_bytes((RECORDINGS / "overload_seqs12.jsonl.gz").read_bytes())
    assert H200.fitted_on(runs(unseen)[0].recording) is False


def test_a_profile_without_fingerprints_does_not_know_what_it_was_fitted_on() -> None:
    older = replace(H200, residuals=tuple(replace(one, recording=None) for one in H200.residuals))
    run = runs(RECORDINGS / "sweep_c64.jsonl.gz")[0]
    assert older.fitted_on(run.recording) is None
    assert [one for one in what_if(run, older, run.flags).remarks if "is not known" in one]


def test_a_pool_too_small_for_any_request_is_none_that_is_known(tmp_path: Path) -> None:
    server = Scraped()
    server.server.pool_tokens = 16
    server.log.events.clear()
    for finish, running in ((0, 0), (1, 2), (2, 2), (2, 2), (2, 0), (0, 0)):
        server.then(finish, running)
    assert "KV pool" in server.why(tmp_path)
