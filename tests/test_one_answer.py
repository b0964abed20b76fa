"""One answer a question: where several places say the same thing, they say it by one implementation, and agree."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.report.reports import FOLDER, path_of, report_of, session_of
from tests.session.made import Log, Server, device
from tests.session.test_load import ended as request
from tests.session.test_network import BEGIN, each, ran
from vtop.access import Access
from vtop.difference import judged
from vtop.draw import theme
from vtop.draw.layout import columns_for, screen
from vtop.engine.runs.measured import NUMBERS, quantile
from vtop.engine.runs.runs import runs
from vtop.engine.whatif.simulation import recorded_of
from vtop.engine.whatif.whatif import verdict_of
from vtop.export.notebook import OpenedRecording
from vtop.export.tables.requests import REQUESTS
from vtop.load.http.client import Client
from vtop.metrics.histogram import Histogram, Range
from vtop.recording import GAP_INTERVALS, AnyEvent, FileRecording, Load, Target, events_of
from vtop.recording.merge_gpus import Devices
from vtop.report.compare.compared_numbers import BY_NAME
from vtop.report.compare.compared_phase import FoundDifference, _difference
from vtop.report.compare.noise import StandardError
from vtop.report.findings.validity import checks
from vtop.report.model import of_session
from vtop.samples import nearest_rank, student
from vtop.session.frame.frame import View
from vtop.session.history.gpus import GpuHistory
from vtop.session.history.sampling import _rank
from vtop.session.history.server import ServerHistory
from vtop.session.load.exact_histogram import ExactHistogram
from vtop.session.load.request_latency import keeps_slo, latency_of
from vtop.session.load.server_timings import timings_of
from vtop.session.session import read
from vtop.sources.connection import _headers

# --- which GPUs count ------------------------------------------------------------------------------------------------


def two_gpus() -> Log:
    """A server on one GPU at its limit; of another, as hot, nobody knows whose processes run on it."""
    log, server = Log(), Server()
    log.start = msgspec.structs.replace(log.start, servers=(msgspec.structs.replace(log.start.servers[0], local=True),))
    server.engine.running, server.engine.kv = 16, 0.3
    hot = {"power_limit_w": 700.0, "sm_max_mhz": 1980.0, "throttle": ("power cap",)}
    mine = msgspec.structs.replace(device(0, power_w=690.0, serving=True), name="NVIDIA H200", **hot)
    other = msgspec.structs.replace(device(1, power_w=690.0, serving=None), name="NVIDIA L4", **hot)
    for second in range(40):
        server.engine.count(generation_tokens=100)
        log.scrape(float(second), server)
        log.gpu(second + 0.1, mine, other)
    return log


def test_a_gpu_whose_processes_are_not_known_counts_nowhere_where_another_serves() -> None:
    session = two_gpus().session()
    report = of_session(session, "two")
    frame = session.frame(session.end_s, View(columns=columns_for(120)))
    assert (frame.gpus.power_w, frame.gpus.power_limit_w, frame.gpus.counted) == (690.0, 700.0, 1)
    shown = "".join(text for row in screen(frame, 120, 40, theme.load("dark")) for text, *_ in row)
    assert "690 W" in shown
    assert "1,380 W" not in shown + frame.verdict.sentence
    assert frame.roofline.gpu == "NVIDIA H200"
    assert report.run is not None
    assert report.run.power_w.mean == 690.0
    head = "".join(text for text, *_ in screen(frame, 120, 40, theme.load("dark"))[0])
    assert "NVIDIA H200" in head
    assert "L4" not in head


# --- the server's own timings of a request ---------------------------------------------------------------------------


def test_a_timing_below_zero_is_not_known_anywhere() -> None:
    said = {
        "queue_time_ms": -4.0,
        "time_to_first_token_ms": 30.0,
        "mean_itl_ms": float("nan"),
        "generation_time_ms": 10**400,
    }
    found = timings_of(said)
    assert (found.queue_s, found.prefill_s, found.itl_mean_s, found.decode_s) == (None, 0.03, None, None)
    assert ran(each(6, timings=said)).frame().own_ttft.timed == 0  # type: ignore[union-attr]
    assert {"server_queue_s", "server_prefill_s"} <= {column.name for column in REQUESTS.columns}


# --- server TTFT -----------------------------------------------------------------------------------------------------


def test_the_client_is_held_against_the_ttft_that_the_screen_shows() -> None:
    log, server = Log(), Server()
    log.add(BEGIN, 0.001)
    for second, one in enumerate(each(10)):
        server.engine.finish(queue=0.2, prefill=0.1, frontend=-0.05)  # a wall clock was set back
        log.add(one, (one.end_s or 0.0) + 0.002)
        if second % 2:
            log.scrape(float(second // 2 + 1), server)
    frame = log.frame()
    own = frame.own_ttft
    assert own is not None
    assert own.client_s is not None
    assert own.network_s is not None
    assert own.client_s - own.network_s == pytest.approx(frame.ttft.total_s)


# --- a request keeps its SLO -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late_s", "kept"), [(0.0, True), (0.2, True), (0.4, False)])
def test_a_request_that_left_late_breaks_its_bound_for_the_load_as_for_what_if(late_s: float, kept: bool) -> None:
    one = request(9, 1, due_s=1.0, sent_s=1.0 + late_s, first_s=1.5 + late_s, tokens=20)
    for bounds in ({"ttft": 0.75}, {"e2e": 0.95}, {"ttft": 0.75, "tpot": 0.05, "e2e": 0.95}):
        assert keeps_slo(one, bounds) == latency_of(one).keeps(bounds) == kept


def test_what_if_counts_the_good_requests_that_the_session_counts() -> None:
    run = runs(path_of("open_loop"))[0]
    phase = session_of("open_loop").load.phases[run.phase or 0]
    bounds = {"ttft": 0.05, "tpot": 0.0065}
    good = sum(keeps_slo(one, bounds) for one in phase.ended)
    assert 0 < good < len(phase.ended)
    assert recorded_of(run, bounds).good_ratio == good / len(phase.ended)


# --- is a difference real --------------------------------------------------------------------------------------------


def test_a_difference_is_judged_alike_in_a_comparison_and_in_what_if() -> None:
    said = {"within": "within ±", "no interval": "± not known"}
    again = {"within": "within noise", "no interval": "noise not known"}
    numbers = {better: next(one for one in NUMBERS if one.better == better) for better in ("higher", "lower", None)}
    for (better, number), by, half in itertools.product(numbers.items(), (-2.0, 0.0, 2.0), (None, 1.9, 2.0, 2.1)):
        found = judged(by, (by - half, by + half) if half is not None else None, better)
        assert said.get(found, found) == verdict_of(number, by, half)
        compared = replace(BY_NAME["energy.per_output_token_j"], better=better)
        error = StandardError(half / student(9, 0.99), 9) if half is not None else None
        if half != abs(by):  # but for rounding
            assert _difference(compared, FoundDifference("B", 3.0, 3.0 + by, error), 0.99).verdict == again.get(
                found, found
            )


# --- output tokens/s of a phase --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["open_loop", "overload_loaded"])
def test_a_load_has_one_throughput_over_all_of_it(name: str) -> None:
    found = runs(path_of(name))
    assert found
    for run in found:
        assert run.phase is not None
        load = next(one.load for one in report_of(name).phases if one.load is not None and one.load.phase == run.phase)
        assert load is not None
        assert recorded_of(run, None).output_per_s == pytest.approx(load.whole_output_per_s, rel=1e-9)


def test_without_ramp_and_drain_it_is_another_number_and_has_another_name() -> None:
    phase = next(one for one in report_of("open_loop").phases if one.load is not None and one.load.phase == 0)
    assert phase.load is not None
    assert phase.load.output_per_s == pytest.approx(1151.55)
    assert phase.load.whole_output_per_s == pytest.approx(1176.58, abs=0.01)
    labels = {number.label for number in NUMBERS}
    assert "output tokens/s, whole load" in labels
    assert "output tokens/s" not in labels


# --- a recording read to its end, a document in its form, a server and the way into it --------------------------------


def test_whoever_reads_a_recording_to_its_end_has_the_same_session() -> None:
    path = FOLDER / "killed.jsonl.gz"
    recording = FileRecording(path)
    session = read(recording)
    recording.close()
    assert msgspec.json.encode(OpenedRecording(path).frame()) == msgspec.json.encode(session.frame(session.end_s))
    again = FileRecording(path)
    seen: list[AnyEvent] = []
    read(again, seen.append)
    again.close()
    once = FileRecording(path)
    assert list(events_of(once)) == seen
    once.close()


def test_nobody_else_reads_a_recording_to_its_end() -> None:
    """A live recording is taken from as it grows; a finished one only by `events_of`."""
    source = Path(__file__).parents[1] / "vtop"
    loops = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(
            line.lstrip().startswith("while ") and "recording.take(" in line for line in path.read_text().split("\n")
        )
    }
    assert loops == {"recording/recording.py"}


def test_the_scraper_and_the_load_say_the_same_at_the_door() -> None:
    for access in (Access(" key\n"), Access(basic=("me", "päss")), Access("k", (("Authorization", "Digest x"),))):
        said = {name.lower(): value for name, value in _headers(access)}["authorization"]
        client = Client("http://localhost", clock=lambda: 0.0, access=access)
        assert f"authorization: {said}\r\n".encode() in client._head
        assert msgspec.json.decode(msgspec.json.encode(access), type=Access) == access


# --- constants and ranks ---------------------------------------------------------------------------------------------


def test_a_percentile_is_the_same_value_wherever_it_is_taken() -> None:
    assert (nearest_rank(0.07, 100), nearest_rank(0.55, 100), nearest_rank(0.0, 5), nearest_rank(1.0, 5)) == (
        7,
        55,
        1,
        5,
    )
    for n, hundredths in itertools.product((1, 2, 7, 99, 100, 500), range(1, 100)):
        q, values = hundredths / 100, [float(k) for k in range(1, n + 1)]
        rank = float(nearest_rank(q, n))
        spread = ExactHistogram()
        for value in values:
            spread.add(value)
        histogram = Histogram(tuple(values), (*(1.0 for _ in values), 0.0), sum(values))
        assert spread.quantiles([q], however_few=True) == [rank]
        assert _rank(values, q) == rank
        assert histogram.quantile(q) == Range(rank - 1, rank)
        assert quantile(values, q) in (rank, None)


def test_a_gap_is_as_long_for_scrapes_as_for_gpu_readings() -> None:
    server = ServerHistory(Target(url="http://a"), 2.0)
    log, page = Log(interval_s=2.0), Server()
    log.scrape(0.0, page, took_s=0.0)
    server.apply_scrape(log.events[0])  # type: ignore[arg-type]
    assert server.patience_s(0) == GpuHistory(2.0).patience_s == Devices([9.0], 2.0)._patience_s == 2.0 * GAP_INTERVALS


@pytest.mark.parametrize(("foreign", "known"), [(1, True), (3, False)])
def test_as_many_foreign_requests_hide_the_network_as_make_the_run_doubtful(foreign: int, known: bool) -> None:
    """Of 100 own ones."""
    log, server = Log(), Server()
    log.add(Load(phase=0, state="begin", spec="c=4", shape="closed", concurrency=4), 0.001)
    log.scrape(0.5, server)
    own = each(100)
    for one in own:
        server.engine.finish(queue=0.2, prefill=0.1, frontend=0.01)
        log.add(one, (one.end_s or 0.0) + 0.002)
    for _ in range(foreign):
        server.engine.finish(queue=0.2)
    log.scrape(51.0, server)
    session = log.session()
    found = session.frame(session.end_s).own_ttft
    assert found is not None
    assert (found.network_s is not None) == known
    (check,) = [one for one in checks(of_session(session, "x")) if one.name == "foreign traffic"]
    assert (check.state == "fine") == known


def test_every_verb_knows_the_same_endings() -> None:
    from vtop.cli.common import form_of

    for ending, form in {".htm": "html", ".html": "html", ".md": "md", ".json": "json", ".TXT": "txt"}.items():
        assert form_of(Path(f"a{ending}"), None, ("html", "md", "json", "txt")) == form
