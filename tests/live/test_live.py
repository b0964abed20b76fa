"""vtop beside a real vLLM server: what it records and shows, against the server's own counters.

VTOP_VLLM names vLLM's virtual environment (tests/live/install_vllm.sh makes one); without it these tests are skipped.
They take some minutes. The server is one for all: 4,096 tokens of KV, at most 16 requests running.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from tests.live.load import Answer, send
from tests.live.vllm_server import KEY, Page, VllmServer, free_port, until
from tests.live.vtop_record import VTOP, VtopRecord, environment, events, frames, last_frame, negatives, session
from vtop import units
from vtop.recording import End, FileRecording, HistogramCounts, Identity, Note, Outage, Scrape
from vtop.session.frame.frame import Frame
from vtop.session.session import Session

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif("VTOP_VLLM" not in os.environ, reason="no vLLM: VTOP_VLLM names no virtual environment with it"),
]

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


# --- vtop comes first, the server later -----------------------------------------------------------------------------


def once(url: str, *options: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [VTOP, "--url", url, "--once", "--json", *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        timeout=30,
        check=False,
    )
    assert done.stderr.decode() == ""
    return done.returncode, json.loads(done.stdout)


def test_once_says_2_when_nothing_listens() -> None:
    code, document = once(f"http://127.0.0.1:{free_port()}")
    assert code == 2
    assert document["status"]["kind"] == "waiting"
    assert "refused" in document["status"]["sentence"]
    assert document["requests"]["running"]["now"] is None


def test_vtop_waits_for_the_server_and_starts_by_itself(early: tuple[VllmServer, VtopRecord]) -> None:
    _, record = early
    kinds = [type(event) for event in record.events() if isinstance(event, Outage | Scrape)]
    tries, pages = kinds.count(Outage), kinds.count(Scrape)
    assert tries >= 3
    assert pages >= 3
    assert kinds == [Outage] * tries + [Scrape] * pages
    assert {outage.reason for outage in record.outages()} <= {"refused", "reset", "timeout"}

    folded = session(record.path)
    third = record.outages()[2]
    waiting = folded.frame(third.t).status
    assert waiting.kind == "waiting"
    assert "try 3" in waiting.sentence
    last = folded.frame(folded.end_s)
    assert last.status.kind == "idle"
    assert last.servers[0].version == "0.32.0"
    assert last.servers[0].outages == 1
    assert last.servers[0].restarts == 0
    started = last.servers[0].started
    assert started is not None
    assert (started.command, started.max_num_seqs, started.flags["block-size"]) == ("vllm serve", 16, 32)
    assert KEY not in record.path.read_text()


def test_sigterm_leaves_a_complete_file(early: tuple[VllmServer, VtopRecord]) -> None:
    _, record = early
    assert record.path.read_bytes().endswith(b"\n")
    last = record.events()[-1]
    assert isinstance(last, End)
    assert last.reason == "SIGTERM"


# --- forty requests at once -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overload:
    """One recorded run of 40 requests, with the server's own pages from before and after it."""

    path: Path
    before: Page
    after: Page
    answers: list[Answer]
    executed: int  # tokens that the engine ran, by its log
    frame: Frame  # at the end, over all of it

    def grown(self, name: str) -> float:
        return self.after[name] - self.before[name]

    def mean(self, family: str) -> float:
        return self.grown(f"{family}_sum") / self.grown(f"{family}_count")


@pytest.fixture(scope="module")
def overload(early: tuple[VllmServer, VtopRecord], tmp_path_factory: pytest.TempPathFactory) -> Overload:
    server, _ = early
    path = tmp_path_factory.mktemp("overload") / "overload.jsonl"
    before, executed = server.idle_page(), server.executed_tokens()
    with VtopRecord(server.url, path, "--for", "60s", "--api-key", KEY, "-H", "X-Tenant: blue-7731") as record:
        record.await_scrapes()
        answers = send(server, 40)
        after, executed = server.idle_page(), server.executed_tokens() - executed
        record.await_scrapes()  # fails when the requests took longer than the recording
        assert record.end(within_s=90) == 0
    return Overload(path, before, after, answers, executed, last_frame(path))


def test_the_load_was_as_meant(overload: Overload) -> None:
    assert {answer.finish for answer in overload.answers} == {"length"}
    assert sum(answer.prompt_tokens for answer in overload.answers) == 4000
    assert sum(answer.output_tokens for answer in overload.answers) == 16000


def test_preemptions_are_the_servers(overload: Overload, measured: list[str]) -> None:
    preempted = overload.grown("vllm:num_preemptions_total")
    measured.append(f"{preempted:.0f} preemptions")
    assert preempted > 10
    count = overload.frame.preemption.count
    assert count.in_window == count.since_start == preempted
    staircase = [step for step in overload.frame.charts.preemptions if step is not None]
    assert staircase == sorted(staircase)
    assert staircase[-1] == preempted
    assert any(logged.kind == "preemption" for logged in overload.frame.event_log)


def test_every_preemption_is_an_event_of_the_staircase(overload: Overload, measured: list[str]) -> None:
    staircase = overload.frame.staircase
    assert sum(event.count for event in staircase.events) == overload.grown("vllm:num_preemptions_total")
    assert staircase.unconfirmed == 0
    dated = sum(event.count for event in staircase.events if event.dated_by == "gauges")
    measured.append(f"{dated:.0f} preemptions dated by the gauges; cycle: {staircase.cycle}")


def test_recomputed_tokens_are_those_that_the_engine_ran_again(overload: Overload, measured: list[str]) -> None:
    recompute = overload.frame.recompute
    least = 40 * (100 + 400 - 1)
    again = overload.executed - least
    measured.append(
        f"{again} tokens recomputed by the engine's log; vtop: {recompute.since_start} ({recompute.method}), "
        f"by FLOP {recompute.by_flops_tokens}, by KV {recompute.by_kv_tokens}"
    )
    assert again > 1000
    assert recompute.method == "write bytes, model shape"
    assert recompute.least_tokens == least
    assert recompute.executed_tokens == pytest.approx(overload.executed, rel=1e-3)
    assert recompute.since_start == pytest.approx(again, rel=0.01)
    assert recompute.unsettled_tokens == 0


def test_tokens_are_the_servers_and_the_clients(overload: Overload) -> None:
    assert overload.frame.prompt_tokens.in_window == overload.grown("vllm:prompt_tokens_total") == 4000
    assert overload.frame.generation_tokens.in_window == overload.grown("vllm:generation_tokens_total") == 16000
    assert overload.frame.iteration.tokens is not None
    steps = overload.frame.iteration.steps
    assert overload.frame.iteration.tokens * steps == pytest.approx(overload.grown("vllm:iteration_tokens_total_sum"))


def test_finished_requests_are_the_servers_by_reason(overload: Overload) -> None:
    name = "vllm:request_success_total"
    before, after = overload.before.by(name, "finished_reason"), overload.after.by(name, "finished_reason")
    grown = {reason: after[reason] - before[reason] for reason in after if after[reason] > before[reason]}
    assert dict(overload.frame.requests.finished_by_reason) == grown == {"length": 40}
    assert overload.frame.requests.finished.in_window == 40


def test_the_ttft_mean_is_the_servers(overload: Overload) -> None:
    ttft = overload.frame.ttft
    assert ttft.first_tokens == ttft.finished == 40
    assert ttft.first_token_s == pytest.approx(overload.mean("vllm:time_to_first_token_seconds"), abs=1e-6)
    assert ttft.queue_s == pytest.approx(overload.mean("vllm:request_queue_time_seconds"), abs=1e-6)
    assert ttft.prefill_s == pytest.approx(overload.mean("vllm:request_prefill_time_seconds"), abs=1e-6)


def test_queue_prefill_and_frontend_add_up_to_ttft(overload: Overload, measured: list[str]) -> None:
    """All forty began and finished within the recording: here both cohorts are the same requests."""
    ttft = overload.frame.ttft
    parts = [part for part in (ttft.queue_s, ttft.prefill_s, ttft.frontend_s) if part is not None]
    assert len(parts) == 3
    assert sum(parts) == pytest.approx(ttft.total_s)
    assert sum(parts) == pytest.approx(ttft.first_token_s, rel=0.01)
    queue, prefill, frontend, total, first = (
        units.seconds(value) for value in (*parts, ttft.total_s, ttft.first_token_s)
    )
    measured.append(f"TTFT {first}; queue {queue} + prefill {prefill} + frontend {frontend} = {total}")


def test_latency_means_are_the_servers(overload: Overload) -> None:
    shown = {latency.name: latency for latency in overload.frame.latencies}
    families = {
        "TTFT": "vllm:time_to_first_token_seconds",
        "ITL": "vllm:inter_token_latency_seconds",
        "TPOT": "vllm:request_time_per_output_token_seconds",
        "e2e": "vllm:e2e_request_latency_seconds",
        "queue": "vllm:request_queue_time_seconds",
        "prefill": "vllm:request_prefill_time_seconds",
        "decode": "vllm:request_decode_time_seconds",
    }
    assert set(shown) == set(families)
    for name, latency in shown.items():
        assert latency.n == overload.grown(f"{families[name]}_count")
        assert latency.mean_s == pytest.approx(overload.mean(families[name]), abs=1e-6)


def test_the_server_is_known(overload: Overload) -> None:
    server, kv = overload.frame.servers[0], overload.frame.kv
    assert (server.version, server.models, server.max_model_len) == ("0.32.0", ("tiny",), 1024)
    assert (kv.pool_tokens, kv.block_size, kv.max_concurrency) == (4096, 32, 4.0)
    assert kv.bytes_per_token == 2048
    assert kv.pool_bytes == 8 * 2**20


def test_peaks_are_those_of_a_full_server(overload: Overload) -> None:
    running, used = overload.frame.requests.running, overload.frame.kv.used
    assert running.high is not None
    assert 4 <= running.high <= 16
    assert used.high is not None
    assert 0.9 < used.high <= 1.0
    assert overload.frame.requests.waiting.high is not None
    assert overload.frame.requests.waiting.high >= 20
    assert (running.now, used.now, overload.frame.status.kind) == (0, 0, "idle")


def test_every_series_on_record_is_the_servers(overload: Overload) -> None:
    """All lines laid on one another give the page that the server shows at the end."""
    values: dict[str, float | None] = {}
    hists: dict[str, HistogramCounts] = {}
    le: dict[str, tuple[float, ...]] = {}
    for event in events(overload.path):
        if isinstance(event, Scrape):
            values |= event.values
            hists |= event.hists
            le |= event.le
    recorded: dict[tuple[str, frozenset[tuple[str, str]]], float | None] = {
        _key(series): value for series, value in values.items()
    }
    for series, counts in hists.items():
        name, labels = _key(series)
        recorded[f"{name}_sum", labels] = counts.sum
        recorded[f"{name}_count", labels] = counts.count
        total = 0
        for bound, n in zip([*map(_bound, le[name]), "+Inf"], counts.n, strict=True):
            total += n
            recorded[f"{name}_bucket", labels | {("le", bound)}] = total
    of_vllm = {
        (name, _with_plain_bounds(labels)): value
        for (name, labels), value in overload.after.values.items()
        if name.startswith("vllm:") and not name.endswith(("_created", "_info"))  # not kept; of an info, some labels
    }
    assert {key: recorded.get(key) for key in of_vllm} == of_vllm


def _key(series: str) -> tuple[str, frozenset[tuple[str, str]]]:
    name, _, labels = series.partition("{")
    return name, frozenset(LABEL.findall(labels))


def _bound(number: float) -> str:
    return f"{number:g}"


def _with_plain_bounds(labels: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset((n, v if n != "le" or v == "+Inf" else _bound(float(v))) for n, v in labels)


def test_every_second_is_on_record(overload: Overload, measured: list[str]) -> None:
    at_s = [event.at_s for event in events(overload.path) if isinstance(event, Scrape)]
    ticks = [round(at - at_s[0]) for at in at_s]
    assert ticks == list(range(len(ticks)))
    assert len(ticks) in (60, 61)
    late_s = [abs(at - at_s[0] - tick) for at, tick in zip(at_s, ticks, strict=True)]
    cuts = quantiles(late_s, n=100, method="inclusive")
    measured.append(f"sampling error p50 {cuts[49] * 1e3:.2f} ms, p99 {cuts[98] * 1e3:.2f} ms")
    took_s = [event.took_s for event in events(overload.path) if isinstance(event, Scrape)]
    measured.append(f"a page took at most {max(took_s) * 1e3:.0f} ms")
    assert cuts[49] < 0.02
    assert cuts[98] < 0.25
    assert not session(overload.path).servers[0].gaps


def test_no_secret_is_on_record(overload: Overload) -> None:
    content = overload.path.read_bytes()
    assert KEY.encode() not in content
    assert b"blue-7731" not in content
    argv = FileRecording(overload.path)
    assert "…" in argv.start.argv
    argv.close()


def test_the_frames_of_the_run_have_no_negative_number(overload: Overload) -> None:
    assert not [found for frame in frames(overload.path) for found in negatives(frame)]


def test_show_gives_the_same_numbers(overload: Overload) -> None:
    done = subprocess.run(
        [VTOP, "show", overload.path, "--json"], capture_output=True, env=environment(), timeout=30, check=True
    )
    document = json.loads(done.stdout)
    assert document["preemption"]["count"]["in_window"] == overload.grown("vllm:num_preemptions_total")
    assert document["ttft"]["first_token_s"] == overload.frame.ttft.first_token_s


# --- one frame as a document ----------------------------------------------------------------------------------------


def test_once_gives_the_frame_as_a_document(server: VllmServer) -> None:
    code, document = once(server.url, "--api-key", KEY)
    assert code == 0
    assert document["status"]["kind"] == "idle"
    shown = document["servers"][0]
    assert (shown["version"], shown["models"], shown["max_model_len"]) == ("0.32.0", ["tiny"], 1024)
    assert shown["note"] is None
    assert document["kv"]["pool_tokens"] == 4096
    assert document["requests"]["running"] == dict.fromkeys(("now", "mean", "median", "low", "high"), 0.0) | {"n": 2}


def test_a_key_that_is_missing_or_wrong_is_said_and_the_rest_is_shown(server: VllmServer) -> None:
    code, document = once(server.url)
    assert code == 0
    assert "401 (an API key is needed" in document["servers"][0]["note"]
    assert document["servers"][0]["models"] == ["tiny"]
    code, document = once(server.url, "--api-key", "wrong-key-4471")
    assert code == 0
    assert "401 (the key given is not accepted)" in document["servers"][0]["note"]
    assert "wrong-key-4471" not in json.dumps(document)


# --- clients and vtop itself die ------------------------------------------------------------------------------------


def test_twelve_clients_hang_up(server: VllmServer, tmp_path: Path) -> None:
    before = server.idle_page()
    with VtopRecord(server.url, tmp_path / "aborted.jsonl", "--no-gpu") as record:
        record.await_scrapes()
        answers = send(server, 12, prompt=50, output=900, hang_up_after=30)
        assert {answer.finish for answer in answers} == {None}
        after = server.idle_page()
        record.await_scrapes()
        assert record.terminate() == 0

    frame = last_frame(record.path)
    assert (frame.requests.running.now, frame.requests.waiting.now, frame.kv.used.now) == (0, 0, 0)
    assert frame.status.kind == "idle"
    assert frame.ttft.first_tokens == 12
    assert frame.ttft.finished == 0  # vLLM forgets what is aborted
    assert frame.ttft.total_s is None
    grown = after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"]
    assert frame.generation_tokens.in_window == grown
    assert frame.requests.finished.in_window == 0
    assert not [found for one in frames(record.path) for found in negatives(one)]


def test_kill_9_costs_at_most_the_line_being_written(server: VllmServer, tmp_path: Path) -> None:
    paths = [tmp_path / f"killed.{suffix}" for suffix in ("jsonl", "jsonl.gz", "jsonl.zst")]
    for path in paths:
        with VtopRecord(server.url, path, "--interval", "0.1", "--no-gpu") as record:
            record.await_scrapes(10)
            known = len(record.scrapes())
            record.kill()
        found = events(path)
        notes = [event for event in found if isinstance(event, Note) and event.source == "recording"]
        assert len([event for event in found if isinstance(event, Scrape)]) >= known
        assert not any(isinstance(event, End) for event in found)
        assert all("last line incomplete" in note.text for note in notes)
        assert len(notes) <= 1
        assert not session(path).finished


# --- the server dies ------------------------------------------------------------------------------------------------


def test_a_restart_is_seen_and_nothing_falls(server: VllmServer, tmp_path: Path) -> None:
    before = server.page()
    with VtopRecord(server.url, tmp_path / "restart.jsonl", "--api-key", KEY) as record:
        record.await_scrapes()
        send(server, 8, output=50)
        ended = server.idle_page()
        record.await_scrapes()
        server.stop()
        until(lambda: len(record.outages()) >= 2, "the outage is noticed")
        server.start()
        until(lambda: len(record.identities()) >= 2, "the server is asked again who it is")
        began = server.page()
        send(server, 4, output=50)
        after = server.idle_page()
        record.await_scrapes()
        assert record.terminate() == 0

    frame = last_frame(record.path)
    kinds = [logged.kind for logged in frame.event_log if logged.kind in ("outage", "back", "restart")]
    assert kinds == ["outage", "back", "restart"]
    assert (frame.servers[0].outages, frame.servers[0].restarts) == (1, 1)
    first, second = (event for event in record.events() if isinstance(event, Identity))
    assert (first.version, first.models) == (second.version, second.models) == ("0.32.0", ("tiny",))
    for name, shown in (
        ("vllm:generation_tokens_total", frame.generation_tokens.since_start),
        ("vllm:prompt_tokens_total", frame.prompt_tokens.since_start),
    ):
        assert began[name] == 0
        assert shown == ended[name] - before[name] + after[name]
    assert frame.requests.finished.since_start == 12
    assert not [found for one in frames(record.path) for found in negatives(one)]
    assert "down" in _statuses(record.path)
    folded = session(record.path)
    assert folded.frame(second.t).status.kind == "idle"  # counters at 0 are no work done since the page before
    assert frame.status.kind == "idle"


def test_a_dead_engine_is_not_taken_for_a_live_one(server: VllmServer, tmp_path: Path) -> None:
    """/metrics goes on giving the last values."""
    with VtopRecord(server.url, tmp_path / "dead.jsonl", "--no-gpu") as record:
        record.await_scrapes()

        def kill() -> None:
            record.await_scrapes(2)  # the second shows them running; a third could come after their end
            server.kill_engine()

        answers = send(server, 4, output=900, when_all_run=kill)
        assert {answer.finish for answer in answers} == {None}
        assert server.health() == 503
        record.await_scrapes(2)
        server.stop()
        until(lambda: len(record.outages()) >= 2, "the outage is noticed")
        assert record.terminate() == 0

    order = list(dict.fromkeys(_statuses(record.path)))
    assert [kind for kind in order if kind in ("busy", "unhealthy", "down")] == ["busy", "unhealthy", "down"]
    folded: Session = session(record.path)
    ill = next(scrape for scrape in record.scrapes() if scrape.health != 200)
    assert ill.health == 503
    status = folded.frame(ill.t).status
    assert (status.kind, status.fresh) == ("unhealthy", False)
    assert "503" in status.sentence
    assert any(logged.kind == "unhealthy" for logged in folded.frame(folded.end_s).event_log)


def _statuses(path: Path) -> list[str]:
    return [frame.status.kind for frame in frames(path)]
