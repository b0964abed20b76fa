"""What of a recording can be replayed: every run of it, and of what is none why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.session.made import Log, Server
from vtop import shipped
from vtop.engine.runs.observed import _mean
from vtop.engine.runs.runs import RECORDED, TOLD, Run, read, runs
from vtop.metrics.quantity import Quantity
from vtop.recording import Identity, Load, Request, Scrape, encode
from vtop.session.history.window import Window


def written(log: Log, path: Path) -> Path:
    path.write_bytes(b"".join(encode(event) + b"\n" for event in (log.start, *log.events)))
    return path


TRIAL = Request(id=0, phase=-1, sent_s=0.55, first_s=0.58, last_s=0.58, end_s=0.58, status=200, output_tokens=1)


def busy(
    log: Log,
    server: Server,
    *,
    seconds: int = 20,
    running: int = 4,
    waiting: int = 0,
    kv: float = 0.5,
    trial: bool = False,
) -> None:
    """A scrape a second; a request that ends with each, the server idle before and after."""
    server.pool_tokens = 4096
    log.scrape(0.5, server)
    if trial:
        log.add(TRIAL, 0.59)
        server.engine.finish(queue=0.0, prefill=0.028, decode=0.0, frontend=0.002, prompt=5, output=1)
    for second in range(1, seconds + 1):
        server.engine.running, server.engine.waiting, server.engine.kv = running, waiting, kv
        server.engine.finish(prompt=100, output=20)
        log.scrape(second + 0.5, server)
    server.engine.running = server.engine.waiting = 0
    server.engine.kv = 0.0
    log.scrape(seconds + 1.5, server)


def loaded(
    log: Log,
    *,
    spec: str = "c=4 n=20",
    shape: str = "closed",
    seconds: int = 20,
    ended: bool = True,
    change: Callable[[int], dict[str, object]] = lambda number: {},
) -> None:
    """A phase of vtop's own load: a request a second."""
    target: dict[str, object] = {"concurrency": 4} if shape == "closed" else {"rate_per_s": 1.0}
    common = {"phase": 0, "spec": spec, "shape": shape} | target
    log.events.insert(0, Load(t=0.6, state="begin", **common))  # type: ignore[arg-type]
    for number in range(seconds):
        said: dict[str, object] = {
            "sent_s": 0.7 + number, "first_s": 0.9 + number, "last_s": 1.2 + number, "end_s": 1.2 + number,
            "prompt_tokens": 100, "output_tokens": 20,
        }  # fmt: skip
        log.add(Request(id=number, phase=0, **(said | change(number))), seconds + 1.6)  # type: ignore[arg-type]
    if ended:
        log.add(Load(state="end", reason="done", **common), seconds + 1.7)  # type: ignore[arg-type]


def only(path: Path) -> Run:
    (run,) = runs(path)
    return run


def why(path: Path) -> str:
    (found,) = read(path)
    assert isinstance(found, str)
    assert runs(path) == []
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made.jsonl"


def test_an_open_load_is_its_requests_at_their_instants(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log, shape="open", spec="rate=1 n=20")
    run = only(written(log, path))
    assert run.load.concurrency is None
    assert [ask.due_s for ask in run.load.asks] == pytest.approx(list(range(20)))
    assert run.observed.requests == 20
    assert run.observed.span_s == pytest.approx(19.5)
    assert len(run.observed.answers) == 20
    assert run.observed.answers[0].ttft_s == pytest.approx(0.2)
    assert run.observed.answers[0].tpot_s == pytest.approx(0.3 / 19)


def test_the_trial_before_a_load_is_none_of_its_requests(path: Path) -> None:
    seen = []
    for trial in (True, False):
        log = Log()
        busy(log, Server(), trial=trial)
        loaded(log)
        seen.append(only(written(log, path)).observed)
    with_trial, without = seen
    assert (with_trial.requests, without.requests) == (20, 20)
    for name in ("queue_s", "prefill_s", "decode_s", "e2e_s"):
        assert getattr(with_trial, name) == pytest.approx(getattr(without, name), abs=2e-4), name


def test_what_the_last_scrape_came_too_early_for_is_not_counted(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log)
    log.events = [event for event in log.events if not (isinstance(event, Scrape) and event.at_s > 18)]
    run = only(written(log, path))
    assert (len(run.load.asks), run.observed.requests) == (20, 17)


def test_levels_are_those_of_the_scrapes_between_the_first_request_and_the_last_answer(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server, running=4, waiting=2, kv=0.25)
    loaded(log)
    seen = only(written(log, path)).observed
    assert (seen.running, seen.waiting, seen.kv_ratio) == (4, 2, 0.25)


def test_where_others_wait_and_the_pool_has_room_running_is_max_num_seqs(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server, running=4, waiting=2, kv=0.25)
    loaded(log)
    assert only(written(log, path)).observed.max_num_seqs == 4


def started(log: Log, t: float, version: str = "0.26.0", **flags: int | bool | str) -> None:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    who = Identity(server=0, version=version, max_model_len=4096, command="vllm serve", flags=dict(named))
    place = next((at for at, event in enumerate(log.events) if event.t > t), len(log.events))
    log.events.insert(place, msgspec.structs.replace(who, t=t))


def test_the_flags_of_the_command_on_record_are_the_runs(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log)
    started(
        log, 0.55, max_num_seqs=6, max_num_batched_tokens=512, scheduling_policy="priority", async_scheduling=False,
        long_prefill_token_threshold=64, enforce_eager=True,
    )  # fmt: skip
    written(log, path)
    run = only(path)
    assert (run.flags.max_num_seqs, run.flags.max_num_batched_tokens) == (6, 512)
    assert (run.flags.policy, run.flags.async_scheduling, run.flags.long_prefill_token_threshold) == (
        "priority",
        False,
        64,
    )
    assert set(run.whence.values()) == {RECORDED}
    (told,) = runs(path, {"max_num_seqs": 8})
    assert (told.flags.max_num_seqs, told.flags.max_num_batched_tokens) == (8, 512)
    assert told.whence["max_num_seqs"] == TOLD


def test_a_phase_has_the_flags_that_were_in_force_then(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log)
    started(log, 0.55, max_num_seqs=6)
    started(log, 30.0, max_num_seqs=99)
    assert only(written(log, path)).flags.max_num_seqs == 6


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, (128, 8192)),
        ({"max_num_batched_tokens": 64}, (64, 64)),
        ({"max_num_seqs": 9000}, (9000, 9000)),
        ({"enable_chunked_prefill": False}, (128, 8192)),
    ],
)
def test_a_flag_that_is_not_on_record_is_taken_so_that_it_goes_with_those_that_are(
    path: Path, given: dict[str, int], taken: tuple[int, int]
) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log)
    started(log, 0.55, version="0.1.0", **given)
    run = only(written(log, path))
    assert (run.flags.max_num_seqs, run.flags.max_num_batched_tokens) == taken
    assert set(run.whence) == set(given)


@pytest.mark.parametrize(("waiting", "kv"), [(0, 0.25), (2, 0.99)])
def test_where_nobody_waits_or_the_pool_is_full_it_says_nothing_of_max_num_seqs(
    path: Path, waiting: int, kv: float
) -> None:
    log, server = Log(), Server()
    busy(log, server, running=4, waiting=waiting, kv=kv)
    loaded(log)
    seen = only(written(log, path)).observed
    assert (seen.max_num_seqs, seen.most_running) == (None, 4)


def test_prompts_that_begin_alike_share_their_blocks(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log, spec="c=4 in=100 prefix=40 n=20")
    keys = {ask.prefix_keys for ask in only(written(log, path)).load.asks}
    assert keys == {(("prefix", 0), ("prefix", 1))}


def test_requests_held_back_by_the_loads_own_bound_are_said(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log, shape="open", change=lambda number: {"due_s": 0.7 + number - (0.5 if number > 9 else 0.0)})
    first = log.events[0]
    assert isinstance(first, Load)
    log.events[0] = Load(
        t=first.t, phase=0, state="begin", spec="rate=1 max=4", shape="open", rate_per_s=1.0, max_in_flight=4
    )
    (remark,) = only(written(log, path)).remarks
    assert "bound of 4 in flight held 10 requests back" in remark


def test_what_failed_is_not_replayed(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log, change=lambda number: {"error": "timeout"} if number < 3 else {})
    assert "3 of its 20 requests failed" in why(written(log, path))


def test_a_phase_without_an_end_or_without_an_answer_is_none(path: Path, tmp_path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log, ended=False)
    assert "no end on record" in why(written(log, path))
    log = Log()
    busy(log, Server())
    loaded(log, change=lambda number: {"error": "connect"})
    assert "no request of it succeeded" in why(written(log, tmp_path / "none.jsonl"))


def test_scrapes_that_are_not_of_the_load_are_seen_through(path: Path) -> None:
    log, server = Log(), Server()
    server.pool_tokens = 4096
    for second in range(22):
        log.scrape(second + 0.5, server)
    loaded(log)
    assert "fewer requests than it sent" in why(written(log, path))


def test_a_pool_whose_size_is_not_on_record_cannot_be_simulated(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    server.pool_tokens = None
    log = Log()
    for second in range(22):
        server.engine.finish()
        log.scrape(second + 0.5, server)
    loaded(log)
    assert "how large its KV pool is" in why(written(log, path))


def test_scrapes_alone_are_a_run_when_all_requests_are_of_one_length(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server, seconds=120, running=4, waiting=2)
    run = only(written(log, path))
    assert run.load.concurrency == 6
    assert run.load.asks[0].prompt_tokens == 100
    assert run.observed.span_s == pytest.approx(120, abs=1)
    assert run.observed.answers == ()


def test_how_long_a_short_run_took_scrapes_alone_do_not_say(path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server, seconds=20)
    assert only(written(log, path)).observed.span_s is None


def test_scrapes_alone_of_several_lengths_tell_no_load(path: Path) -> None:
    log, server = Log(), Server()
    server.pool_tokens = 4096
    log.scrape(0.5, server)
    for second in range(1, 21):
        server.engine.running = 4
        server.engine.finish(prompt=100 + 10 * second, output=20)
        log.scrape(second + 0.5, server)
    assert "several lengths" in why(written(log, path))


def test_a_recording_with_nothing_in_it_is_no_run(path: Path, tmp_path: Path) -> None:
    log = Log()
    assert "fewer than two scrapes" in why(written(log, path))
    log, server = Log(), Server()
    server.pool_tokens = 4096
    for second in range(5):
        log.scrape(second + 0.5, server)
    assert "no request finished" in why(written(log, tmp_path / "idle.jsonl"))


def test_several_servers_or_engines_are_not_one_engine(path: Path, tmp_path: Path) -> None:
    assert "2 servers" in why(written(Log(servers=2), path))
    log, server = Log(), Server(("0", "1"))
    busy(log, server)
    assert "2 engines" in why(written(log, tmp_path / "two.jsonl"))


def test_what_finished_of_the_phase_before_is_none_of_this_ones() -> None:
    """A second lay between 64 in flight and 16: scrapes counted the last 64 of the first when the second had begun."""
    path = shipped.folder("recordings") / "sweep_batch1024.jsonl.gz"
    first, second = runs(path)
    assert first.observed.requests == len(first.load.asks) == 320
    assert second.observed.requests == len(second.load.asks) - 16  # the scrape after its last round is not on record
    assert second.observed.e2e_s == pytest.approx(1.655, abs=0.001)


def test_what_warm_ups_saw_leaves_no_time_below_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their client's prefill holds frontend and network: of short prompts it was more than all of the server's."""
    window = Window(())
    monkeypatch.setattr(Window, "sums", lambda *_: (0.020, 10.0))
    assert _mean(window, Quantity.PREFILL, [0.004]) == pytest.approx(0.016 / 9)
    assert _mean(window, Quantity.PREFILL, [0.041, 0.041]) == pytest.approx(0.002)
