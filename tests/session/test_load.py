"""What vtop's own load adds up to: claims on small loads built by hand."""

from __future__ import annotations

import math

import msgspec
import pytest

from tests.session.made import Server, recorded
from vtop.metrics.page import Folder
from vtop.recording import Host, Load, LoadHost, Request, Start, Target, decode, encode
from vtop.recording.vocabulary import ErrorClass
from vtop.server_kinds.registry import series_names
from vtop.session.frame.load import LoadPart, Quantiles
from vtop.session.load import load as load_history
from vtop.session.load.exact_histogram import ExactHistogram
from vtop.session.load.waterfall import waterfall
from vtop.session.session import Session

START = Start(t=0.0, format=1, vtop="test", unix_s=1e9, servers=(Target(url="http://localhost:8000"),), interval_s=1.0)


def load(t: float, state: str, **asked: object) -> Load:
    known: dict[str, object] = {"phase": 0, "spec": "c=2", "shape": "closed", "concurrency": 2}
    return Load(t=t, state=state, **{**known, **asked})  # type: ignore[arg-type]


def sent(t: float, id: int, *, due_s: float, sent_s: float | None = None, **rest: object) -> Request:
    return Request(t=t, id=id, phase=0, due_s=due_s, sent_s=sent_s if sent_s is not None else due_s, **rest)  # type: ignore[arg-type]


def ended(t: float, id: int, *, due_s: float, sent_s: float, first_s: float, tokens: int, **rest: object) -> Request:
    known: dict[str, object] = {
        "last_s": first_s + 0.01 * (tokens - 1),
        "end_s": first_s + 0.01 * (tokens - 1) + 0.001,
        "output_tokens": tokens,
        "tokens_from": "ids",
        "chunks": tokens,
        "gaps_us": (10_000,) * (tokens - 1),
        "status": 200,
        "finish": "length",
    }
    return Request(t=t, id=id, phase=0, due_s=due_s, sent_s=sent_s, first_s=first_s, **{**known, **rest})  # type: ignore[arg-type]


def failed(t: float, id: int, error: ErrorClass) -> Request:
    return Request(t=t, id=id, phase=0, due_s=t - 1, sent_s=t - 1, end_s=t, status=503, error=error)


def part(*events: Load | LoadHost | Request | Host, at: float = 100.0) -> LoadPart:
    session = Session(START)
    for event in events:
        session.apply(decode(encode(event)))
    found = session.frame(at).load
    assert found is not None
    return found


def test_without_load_there_is_no_part() -> None:
    assert Session(START).frame(1.0).load is None


def test_in_flight_is_what_was_sent_and_has_not_ended() -> None:
    found = part(
        load(1, "begin"),
        sent(2.0, 0, due_s=2.0),
        sent(2.0, 1, due_s=2.0),
        ended(3.0, 0, due_s=2.0, sent_s=2.0, first_s=2.2, tokens=5),
        at=3.5,
    )
    assert (found.in_flight, found.sent, found.done, found.failed) == (1, 2, 1, 0)


def test_a_request_that_was_never_sent_is_failed_and_not_in_flight() -> None:
    unsent = Request(t=3, id=1, phase=0, due_s=2.0, end_s=3.0, error="connect")
    found = part(load(1, "begin"), sent(2.0, 0, due_s=2.0), unsent)
    assert (found.in_flight, found.failed) == (1, 1)


def test_the_frame_of_an_instant_knows_nothing_later() -> None:
    session = Session(START)
    for event in (
        load(1, "begin"),
        sent(2.0, 0, due_s=2.0),
        ended(3.0, 0, due_s=2.0, sent_s=2.0, first_s=2.2, tokens=5),
        load(4.0, "end", reason="done"),
    ):
        session.apply(event)
    assert [session.frame(at).load.done for at in (5.0, 2.5, 3.0, 2.0)] == [1, 0, 1, 0]  # type: ignore[union-attr]
    assert session.frame(3.5).load.state == "running"  # type: ignore[union-attr]
    assert session.frame(0.5).load is None


def test_ttft_counts_from_sent_and_in_an_open_loop_from_due_as_well() -> None:
    events = [load(1, "begin", shape="open", rate_per_s=8.0, concurrency=None)]
    found = part(*events, ended(5.0, 0, due_s=2.0, sent_s=4.0, first_s=4.5, tokens=3))
    assert found.ttft.p50_s == pytest.approx(0.5)
    assert found.ttft_from_due is not None
    assert found.ttft_from_due.p50_s == pytest.approx(2.5)
    assert part(load(1, "begin"), ended(5.0, 0, due_s=2.0, sent_s=4.0, first_s=4.5, tokens=3)).ttft_from_due is None


def test_a_gap_of_several_tokens_counts_as_several() -> None:
    request = ended(
        5.0, 0, due_s=2, sent_s=2, first_s=2.5, tokens=9, gaps_us=(40_000, 10_000), gap_tokens=(4, 4), last_s=2.55
    )
    found = part(load(1, "begin"), request)
    assert found.itl.n == 8
    assert found.itl.mean_s == pytest.approx(0.05 / 8)


def test_one_token_has_no_tpot() -> None:
    found = part(load(1, "begin"), ended(5.0, 0, due_s=2, sent_s=2, first_s=2.5, tokens=1))
    assert (found.tpot.n, found.tpot.p50_s, found.ttft.n) == (0, None, 1)


def test_failures_are_longer_than_everything_and_have_names() -> None:
    answers = [ended(5.0, k, due_s=2, sent_s=2, first_s=2.5, tokens=2) for k in range(40)]
    found = part(load(1, "begin"), *answers, *[failed(6.0, 100 + k, "http_status") for k in range(10)])
    assert found.failed_by_class == (("http_status", 10),)
    assert (found.ttft.n, found.ttft.failed) == (40, 10)
    assert found.ttft.p90_s == math.inf
    assert found.ttft.p99_s is None  # 50 are too few


def test_p9999_needs_46_050_gaps_and_is_the_nearest_rank() -> None:
    def itl(n: int, torn: int) -> Quantiles:
        few = [ended(5.0, k, due_s=2, sent_s=2, first_s=2.5, tokens=2, gaps_us=(3_000_000,)) for k in range(torn)]
        many = ended(5.0, torn, due_s=2, sent_s=2, first_s=2.5, tokens=n - torn + 1, gaps_us=(7_000,) * (n - torn))
        found = part(load(1, "begin"), *few, many).itl
        assert found.n == n
        return found

    assert itl(46_049, torn=5).p9999_s is None
    assert itl(46_050, torn=4).p9999_s == 0.007  # the 46,046th of 46,050
    assert itl(46_050, torn=5).p9999_s == 3.0
    assert itl(46_050, torn=5).p999_s == 0.007


def test_what_vtop_broke_off_is_unfinished_and_no_failure_of_the_server() -> None:
    begin = load(1, "begin", slo={"ttft": 1.0})
    found = part(begin, failed(6.0, 0, "cancelled_at_end"), ended(5.0, 1, due_s=2, sent_s=2, first_s=2.5, tokens=2))
    assert (found.failed, found.unfinished) == (0, 1)
    assert found.slo is not None
    assert found.slo.attainment_ratio == pytest.approx(0.5)


def test_two_tokens_in_the_first_read_are_no_gap_unsplit() -> None:
    request = ended(5, 0, due_s=2, sent_s=2, first_s=2.5, tokens=4, gaps_us=(10_000, 10_000), first_tokens=2)
    assert not part(load(1, "begin"), request).itl_is_chunks


def test_warm_up_requests_are_in_flight_and_in_nothing_else() -> None:
    found = part(
        load(1, "begin"),
        sent(2, 0, due_s=2, warmup=True),
        sent(2, 1, due_s=2),
        ended(3, 0, due_s=2, sent_s=2, first_s=2.5, tokens=2, warmup=True),
    )
    assert (found.done, found.ttft.n, found.in_flight) == (0, 0, 1)


def test_service_levels_are_kept_jointly_from_due_and_failures_break_them() -> None:
    slo = {"ttft": 0.8, "tpot": 0.05}
    begin = load(1, "begin", shape="open", rate_per_s=1.0, concurrency=None, slo=slo)
    found = part(
        begin,
        ended(5, 0, due_s=2, sent_s=2, first_s=2.5, tokens=3),  # keeps both
        ended(5, 1, due_s=2, sent_s=2.7, first_s=3.0, tokens=3),  # late from due, quick from sent
        ended(5, 2, due_s=2, sent_s=2, first_s=2.5, tokens=3, last_s=2.9),  # slow tokens
        ended(5, 3, due_s=2, sent_s=2, first_s=2.5, tokens=1),  # has no TPOT to break
        failed(6, 4, "timeout"),
    )
    assert found.slo is not None
    assert (found.slo.good, found.slo.judged) == (2, 5)
    assert found.slo.attainment_ratio == pytest.approx(0.4)
    assert [(one.name, one.kept, one.judged) for one in found.slo.by_bound] == [("ttft", 3, 5), ("tpot", 2, 4)]
    assert (found.slo.errors, found.slo.timeouts, found.slo.open, found.slo.single_token) == (0, 1, 0, 1)


def test_where_tpot_is_the_only_bound_an_answer_of_one_token_is_left_out() -> None:
    begin = load(1, "begin", slo={"tpot": 0.05})
    found = part(
        begin,
        ended(5, 0, due_s=2, sent_s=2, first_s=2.5, tokens=3),
        ended(5, 1, due_s=2, sent_s=2, first_s=2.5, tokens=1),
    )
    assert found.slo is not None
    assert (found.slo.good, found.slo.judged, found.slo.undefined) == (1, 1, 1)


def test_a_joint_share_is_less_than_that_of_each_bound() -> None:
    begin = load(1, "begin", slo={"ttft": 0.6, "e2e": 1.0})
    found = part(
        begin,
        ended(5, 0, due_s=2, sent_s=2, first_s=2.7, last_s=2.9, tokens=3),  # breaks TTFT alone
        ended(5, 1, due_s=2, sent_s=2, first_s=2.5, last_s=3.2, tokens=3),  # breaks e2e alone
    )
    assert found.slo is not None
    assert (found.slo.attainment_ratio, [one.ratio for one in found.slo.by_bound]) == (0.0, [0.5, 0.5])


def test_progress_is_by_requests_or_time_whichever_comes_first() -> None:
    by_count = part(load(1, "begin", requests=4), ended(2, 0, due_s=1, sent_s=1, first_s=1.5, tokens=2), at=2.0)
    assert by_count.progress_ratio == pytest.approx(0.25)
    assert by_count.left_s == pytest.approx(3.0)
    assert part(load(1, "begin", for_s=10.0), at=6.0).progress_ratio == pytest.approx(0.5)


def test_lateness_marks_an_open_run_as_limited_by_the_client() -> None:
    begin = load(1, "begin", shape="open", rate_per_s=100.0, concurrency=None)
    late = [sent(2, k, due_s=1.0, sent_s=1.02) for k in range(100)]
    assert "late" in (part(begin, *late).limited or "")
    assert part(begin, *[sent(2, k, due_s=1.0, sent_s=1.0005) for k in range(100)]).limited is None


def test_a_busy_load_process_is_said() -> None:
    assert "core" in (part(load(1, "begin"), Host(t=2, at_s=2, load_cpu_ratio=0.97)).limited or "")


def test_a_request_that_this_machine_could_not_send_marks_the_phase() -> None:
    short = Request(t=3, id=1, phase=0, due_s=2.0, end_s=2.5, error="client_limit", detail="no more open files than 99")
    found = part(load(1, "begin"), short)
    assert found.failed_by_class == (("client_limit", 1),)
    assert found.limited == "1 failed here: no more open files than 99"
    assert part(load(1, "begin"), msgspec.structs.replace(short, warmup=True)).limited is not None
    assert part(load(1, "begin"), failed(6.0, 0, "connect")).limited is None


def test_a_phase_is_not_limited_by_what_the_client_did_before_or_afterwards() -> None:
    busy = Host(t=5, at_s=5, load_cpu_ratio=0.97)
    assert part(load(1, "begin"), load(4, "end"), load(6, "begin", phase=1), busy).limited is None
    assert part(load(1, "begin"), busy, load(6, "end")).limited is not None


def test_a_line_about_the_machine_says_nothing_of_the_load() -> None:
    of_load, of_machine = Host(t=2, at_s=2, load_cpu_ratio=0.97), Host(t=3, at_s=3, cpu_ratio=0.5, vtop_cpu_ratio=0.1)
    found = part(load(1, "begin"), of_load, of_machine)
    assert (found.cpu_ratio, found.limited is not None) == (0.97, True)


def test_a_change_of_target_is_seen_from_its_line_on() -> None:
    events = (load(1, "begin"), load(5, "change", concurrency=3))
    assert part(*events, at=4.0).concurrency == 2
    assert part(*events, at=5.0).concurrency == 3


def test_hits_in_the_prefix_cache_during_the_phase_are_said() -> None:
    server, folder = Server(), Folder(series_names)
    session = Session(START)

    def index(at_s: float) -> None:
        scraped = folder.scrape(server.exposition(), server=0, at_s=at_s, took_s=0.01, bytes=1, health=200)
        session.apply(msgspec.structs.replace(scraped, t=at_s + 0.01))

    index(0.0)
    session.apply(load(0.5, "begin"))
    index(1.0)
    server.engine.count(prefix_cache_hits=64)
    index(2.0)
    assert session.frame(1.5).load.prefix_hit_tokens == 0  # type: ignore[union-attr]
    assert session.frame(2.5).load.prefix_hit_tokens == 64  # type: ignore[union-attr]


def test_a_spread_is_exact_to_the_microsecond() -> None:
    spread = ExactHistogram()
    for us in (1, 2, 3, 4, 1000):
        spread.add_us(us)
    assert spread.quantiles((0.5,)) == [3e-6]
    assert spread.quantiles((1.0,), however_few=True) == [1e-3]
    assert spread.mean_s == pytest.approx(202e-6)


# --- how far it is, and how it ended ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1 / 3, 2 / 3])
def test_the_time_left_of_long_requests_counts_those_under_way_as_half_done(share: float) -> None:
    """Of 128 requests that take 25 s each behind a queue of 50, 35 are done after a third of the time."""
    session = recorded("overload_seqs12")
    phase = session.load.phases[0]
    begin_s, end_s = phase.begin.t, phase.changes[-1].t
    at_s = begin_s + share * (end_s - begin_s)
    found = session.frame(at_s).load
    assert found is not None
    assert found.left_s == pytest.approx(end_s - at_s, rel=0.2)


@pytest.mark.parametrize(("name", "phase"), [("repeat_first", 0), ("repeat_first", 1), ("sweep", 0), ("sweep", 3)])
def test_the_time_left_of_short_requests_is_right_too(name: str, phase: int) -> None:
    history = recorded(name).load
    begin_s, end_s = history.phases[phase].begin.t, history.phases[phase].changes[-1].t
    for share in (1 / 3, 2 / 3):
        at_s = begin_s + share * (end_s - begin_s)
        found = history.part_of(phase, at_s)
        assert found is not None
        assert found.left_s == pytest.approx(end_s - at_s, rel=0.2)


def test_before_a_request_is_done_nobody_knows_how_long_they_take() -> None:
    found = part(load(1, "begin", requests=10), sent(2.0, 0, due_s=2.0), at=3.0)
    assert (found.left_s, found.progress_ratio) == (None, 0.0)


def test_a_phase_that_ended_in_failures_says_how_many_and_why() -> None:
    """The engine was killed under 44 requests; each stream ended with an error in it."""
    session = recorded("killed")
    said = [one.text for one in session.event_log(1e9) if one.kind == "phase" and "ended" in one.text]
    assert said == ["phase 1 ended: done", "phase 2 ended: done · 44 of 91 failed"]
    found = session.frame(100.0).load
    assert found is not None
    assert (found.done, found.failed, found.unfinished) == (47, 44, 0)
    assert found.failed_detail == "EngineCore encountered an issue. See stack trace (above) for the root cause."


def test_what_failed_requests_say_is_that_of_the_most_frequent_error_on_one_line() -> None:
    once = msgspec.structs.replace(failed(5.0, 1, "connect"), detail="refused")
    often = [
        msgspec.structs.replace(failed(6.0, k, "http_status"), detail=None if k == 2 else f"no\n room {k} " + "x" * 200)
        for k in (2, 3, 4)
    ]
    found = part(load(1, "begin"), once, *often)
    assert found.failed_detail is not None
    assert found.failed_detail.startswith("no room 3 xxx")
    assert len(found.failed_detail) == 120
    assert found.failed_detail.endswith("…")
    assert part(load(1, "begin"), once).failed_detail == "refused"
    assert part(load(1, "begin"), failed(5.0, 1, "connect")).failed_detail is None
    assert part(load(1, "begin")).failed_detail is None


def clock(t: float, host: int, offset_s: float, rtt_s: float, **more: object) -> LoadHost:
    known: dict[str, object] = {"phase": 0, "name": f"gpu{host}", "at_s": t, "workers": (host, host + 2)}
    return LoadHost(t=t, host=host, offset_s=offset_s, rtt_s=rtt_s, **{**known, **more})  # type: ignore[arg-type]


def test_each_host_of_a_load_has_its_clock_its_lateness_and_what_was_lost_with_it() -> None:
    lost = Request(t=4, id=5, phase=0, due_s=3.0, end_s=4.0, error="worker_lost", detail="gone", host=1)
    events: tuple[Load | LoadHost | Request, ...] = (
        clock(0.5, 0, 7.0, 0.002),
        clock(0.6, 1, -3.0, 0.001),
        load(1, "begin"),
        *(sent(2, k, due_s=1.5, sent_s=1.5 + 0.001 * (1 + k % 2), host=k % 2) for k in range(4)),
        lost,
        load(5, "end"),
        clock(5.1, 1, -3.0004, 0.003, after=True),
    )
    first, second = part(*events).hosts
    assert (first.name, first.workers, first.offset_s, first.offset_error_s) == ("gpu0", 2, 7.0, 0.001)
    assert (first.sent, first.late_p50_s, first.lost, first.drift_s) == (2, 0.001, 0, None)
    assert (second.sent, second.late_p50_s, second.lost) == (2, 0.002, 1)
    assert second.drift_s == pytest.approx(-0.0004)
    assert second.drift_error_s == pytest.approx(0.002)
    assert part(*events, at=3.0).hosts[1].lost == 0
    assert part(*events).limited == "1 failed here: gone"
    assert part(load(1, "begin")).hosts == ()


def test_of_several_hosts_the_worst_tells_whether_the_client_is_limited() -> None:
    told = [
        Host(t=2.0 + 0.01 * host, at_s=2, load_cpu_ratio=cpu, load_lag_max_s=lag_s, load_host=host)
        for host, (cpu, lag_s) in enumerate([(0.97, 0.001), (0.2, 0.004), (0.1, 0.002)])
    ]
    found = part(load(1, "begin"), *told)
    assert (found.cpu_ratio, found.lag_s) == (0.97, 0.004)
    later = [msgspec.structs.replace(one, t=one.t + 5, load_cpu_ratio=0.1) for one in told]
    assert part(load(1, "begin"), *told, *later).cpu_ratio == 0.1


# --- requests that were given up --------------------------------------------------------------------------------------


def test_what_was_given_up_of_a_load_changes_no_number_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same lines one session keeps all, the other 60 requests: a live screen shows the same of both."""
    monkeypatch.setattr(load_history, "FORGOTTEN_AT_ONCE", 1)
    lines: list[Load | Request] = [load(0.5, "begin", slo={"ttft": 0.4})]
    for id in range(300):
        begun_s, first_s = 1.0 + 0.2 * id, 1.0 + 0.2 * id + 0.1 + (id * 7919 % 500) / 1000
        one = ended(0.0, id, due_s=begun_s, sent_s=begun_s + 0.001 * (id % 5), first_s=first_s, tokens=5 + id % 7)
        lines += [sent(begun_s + 0.01, id, due_s=begun_s), Request(t=first_s, id=id, phase=0, first_s=first_s)]
        lines.append(msgspec.structs.replace(one, t=one.end_s, error="timeout" if id % 50 == 7 else None))
    kept, trimmed = Session(START), Session(START)
    for number, line in enumerate(sorted(lines, key=lambda one: one.t)):
        for made in (kept, trimmed):
            made.apply(line)
        trimmed.load.forget(60)
        if number % 25 == 0:
            assert _shown(trimmed, line.t) == _shown(kept, line.t)
    phase = trimmed.load.phases[0]
    assert len(phase.ended) == 60
    assert len(phase.sent_t) < 70
    assert len(trimmed.load.answered[0].t) < 70
    back_s = phase.forgotten_s + 1.0
    parts = [made.load.part(back_s) for made in (kept, trimmed)]
    assert parts[0] is not None
    assert parts[1] is not None
    assert parts[0].done == parts[1].done
    assert trimmed.load.part(phase.forgotten_s - 0.1) is None


def _shown(session: Session, now_s: float) -> tuple[bytes, bytes, int]:
    history = session.load
    rows = waterfall(history.latest(now_s), now_s, 5.0)
    return msgspec.json.encode(history.part(now_s)), msgspec.json.encode(rows), history.in_flight_at(0, now_s)
