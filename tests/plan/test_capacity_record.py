"""A search of capacity, read from a recording: each run judged from its own lines, and why some are no evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.session.made import Log, Server
from vtop.plan.capacity_answer import on_record
from vtop.recording import CapacitySearch, Identity, Load, Request, SimulatedSearch, Start, bounds, decode, encode
from vtop.recording.cut import cut
from vtop.report.plan.capacity import sections
from vtop.session.capacity.record import RecordedSearch
from vtop.session.capacity.search import Search
from vtop.session.capacity.server_state import ServerState, another
from vtop.session.frame.capacity import CapacityPart
from vtop.session.session import Session

SEARCH = CapacitySearch(
    rule="floor", runs=2, requests=20, seed=101, first_per_s=4.0, most_per_s=100.0, slo={"ttft": 0.5, "e2e": 2.0}
)


def searches(session: Session) -> list[RecordedSearch]:
    return session.searches.found(session.end_s)


Answers = Callable[[int], dict[str, Any]]


def quick(_: int) -> dict[str, Any]:
    return {"first_s": 0.1, "last_s": 0.2}


class Made:
    """A recording of a search: run after run on one server that is scraped every second."""

    def __init__(self, asked: CapacitySearch = SEARCH, servers: int = 1, engines: tuple[str, ...] = ("0",)) -> None:
        self.log, self.server = Log(servers), Server(engines)
        self.now_s, self.phase = 1.0, 0
        for number in range(servers):
            self.log.scrape(0.5, self.server, server=number)
        self.log.add(asked, 0.9)

    def run(
        self, rate: float, seed: int, answers: Answers = quick, *, sent: int = 20, in_flight: bool = False, **more: Any
    ) -> None:
        """A request each 1 / rate seconds. answers: of request k, its instants after it was due, or its error.
        in_flight: with a line also for its being sent."""
        begin_s = self.now_s
        known: dict[str, Any] = {"spec": "rate", "shape": "open", "slo": SEARCH.slo, **more}
        phase = Load(phase=self.phase, state="begin", rate_per_s=rate, requests=20, seed=seed, **known)
        self.log.add(phase, begin_s)
        for k in range(sent):
            due_s = begin_s + k / rate
            own = answers(k)
            after = {name: due_s + value for name, value in own.items() if name.endswith("_s")}
            other = {name: value for name, value in own.items() if not name.endswith("_s")}
            end_s = after.setdefault("end_s", after.get("last_s", due_s + 0.2))
            self.server.engine.count(prompt_tokens=100, generation_tokens=5)
            if in_flight:
                admitted_s = after.get("admitted_s", due_s)
                begun = Request(id=k, phase=self.phase, due_s=due_s, admitted_s=admitted_s, sent_s=after["sent_s"])
                self.log.add(begun, after["sent_s"])
            line = {"due_s": due_s, "sent_s": due_s, "output_tokens": 5, "status": 200, **after, **other}
            self.log.add(Request(id=k, phase=self.phase, **line), end_s)
        end_s = max(begin_s + sent / rate, self.log.events[-1].t) + 0.1
        self.log.add(Load(phase=self.phase, state="end", reason="done", spec="rate", shape="open"), end_s)
        self.now_s, self.phase = end_s + 4.0, self.phase + 1
        self.log.scrape(end_s + 0.5, self.server)

    def found(self) -> RecordedSearch:
        (one,) = searches(self.log.session())
        return one


def made(*runs: tuple[float, int, Answers]) -> Made:
    one = Made()
    for run in runs:
        one.run(*run)
    return one


def test_the_bracket_is_read_from_the_runs_on_record() -> None:
    slow: Answers = lambda k: {"first_s": 0.1 if k % 2 else 0.9, "last_s": 1.0}  # noqa: E731
    now = made((4.0, 101, quick), (4.0, 102, quick), (8.0, 101, slow)).found().search.bracket()
    assert (now.passes_per_s, now.fails_per_s, now.end) == (4.0, 8.0, None)


@pytest.mark.parametrize(
    ("answers", "counted"),
    [
        (lambda k: {"error": "stalled", "detail": "no byte for 60 s"}, ("timeouts", 20)),
        (lambda k: {"error": "http_status", "status": 500} if k < 5 else quick(k), ("errors", 5)),
        (lambda k: {"error": "http_status", "status": 429} if k < 5 else quick(k), ("rejected", 5)),
        (lambda k: {"error": "cancelled_at_end"} if k > 15 else quick(k), ("open", 4)),
    ],
    ids=["stalls", "errors", "rejects", "never answers"],
)
def test_a_server_that_does_not_answer_fails_and_how_is_counted(answers: Answers, counted: tuple[str, int]) -> None:
    one = made((4.0, 101, answers)).found().search
    (rate,) = one.rates()
    assert rate.verdict == "fail"
    assert getattr(rate.runs[0].attained, counted[0]) == counted[1]


def test_requests_that_were_never_sent_are_missed() -> None:
    one = Made()
    one.run(4.0, 101, sent=12)
    (rate,) = one.found().search.rates()
    assert (rate.verdict, rate.runs[0].attained.open, rate.lowest_ratio) == ("fail", 8, 0.6)


def test_a_warm_prefix_cache_is_no_evidence() -> None:
    def warm(_: int) -> dict[str, Any]:
        one.server.engine.count(prefix_cache_hits=50)
        return quick(0)

    one = Made()
    one.run(4.0, 101, warm)
    found = one.found().search
    assert found.results == {}
    assert found.refused[0].why_not == "50% of its prompt tokens came from the prefix cache"
    one.run(4.0, 101, warm)
    one.run(4.0, 101, warm)
    assert one.found().search.end == "no evidence"


def test_the_first_run_of_a_server_that_was_just_started_is_no_evidence() -> None:
    def counted(k: int) -> dict[str, Any]:
        one.server.engine.finish()
        return quick(k)

    asked = msgspec.structs.replace(SEARCH, warm_only=True)
    one = Made(asked)
    one.run(4.0, 101, counted)
    one.run(4.0, 101, counted)
    found = one.found().search
    assert [run.seed for run in found.results[4.0]] == [101]
    assert [run.why_not for run in found.refused] == [
        "the server had served next to nothing since its start: this run warmed it up"
    ]
    one = Made(asked)
    one.run(4.0, 101, counted, warmup=8)
    assert one.found().search.refused == []


def test_a_server_that_restarted_ends_the_search() -> None:
    one = made((4.0, 101, quick))
    one.server = Server(started_s=2000.0)
    one.run(4.0, 102)
    found = one.found().search
    assert (found.end, found.why) == ("server changed", "another process answers: it was restarted")
    assert found.next() is None


def test_another_number_of_engines_behind_the_address_is_another_server() -> None:
    was = ServerState(version=None, models=(), process_start_s=None, pool_tokens=None, engines=2)
    assert was.changed(replace(was, engines=1)) == "engines behind it: 1, and there were 2"
    assert was.changed(replace(was, engines=0)) is None  # not known


def test_a_client_that_was_late_by_more_than_a_bound_can_bear_is_no_evidence() -> None:
    one = Made()
    one.run(4.0, 101, lambda k: quick(k) | {"sent_s": 0.02}, in_flight=True)
    one.run(4.0, 101, lambda k: quick(k) | {"sent_s": 0.1}, in_flight=True)
    found = one.found().search
    assert [run.seed for run in found.results[4.0]] == [101]
    assert [run.why_not for run in found.refused] == [
        "the client was the limit: requests left 100 ms late (at worst of 20)"
    ]


def test_a_run_that_lost_a_worker_is_no_evidence() -> None:
    one = made((4.0, 101, lambda k: {"error": "worker_lost", "detail": "gpu8 is gone"} if k % 4 == 3 else quick(k)))
    found = one.found().search
    assert found.results == {}
    assert found.refused[0].why_not == "the client was the limit: 5 failed here: gpu8 is gone"


def test_under_a_cap_the_clients_queue_and_rejections_are_told_and_are_no_lateness() -> None:
    def behind(k: int) -> dict[str, Any]:
        waits_s = 0.3 * (k % 4)
        own = {"admitted_s": waits_s, "sent_s": waits_s, "first_s": waits_s + 0.1, "last_s": waits_s + 0.2}
        return {"sent_s": 0.0, "error": "http_status", "status": 429} if k == 19 else own

    one = Made()
    one.run(4.0, 101, behind, in_flight=True, max_in_flight=2)
    (rate,) = one.found().search.rates()
    (run,) = rate.runs
    assert run.why_not is None  # of a client without a cap it would be late
    assert run.client_queue_peak == 3
    assert (run.attained.rejected, run.attained.errors) == (1, 0)
    session = one.log.session()
    load = session.frame(session.end_s).load
    assert load is not None
    assert load.slot_wait is not None
    assert (load.rejected, load.limited) == (1, None)
    assert load.slot_wait.mean_s == pytest.approx(sum(0.3 * (k % 4) for k in range(19)) / 20)
    (answer,) = on_record(session)
    words = " ".join(str(block) for section in sections(answer) for block in section.blocks)
    assert "1 were rejected" in words
    assert "up to 3 waited in the client for a slot, under the cap" in words


def test_a_cliff_between_two_near_rates_is_told() -> None:
    slow: Answers = lambda k: {"first_s": 0.9, "last_s": 1.0}  # noqa: E731
    one = made((4.0, 101, quick), (4.0, 102, quick), (4.4, 101, slow))
    (answer,) = on_record(one.log.session())
    words = " ".join(str(block) for section in sections(answer) for block in section.blocks)
    assert "A cliff: 100.0 % at 4.00 and 0.0 % at 4.40 requests/s" in words
    far = made((4.0, 101, quick), (4.0, 102, quick), (8.0, 101, slow))
    (answer,) = on_record(far.log.session())
    assert "A cliff" not in " ".join(str(block) for section in sections(answer) for block in section.blocks)


def test_the_backlog_is_counted_at_the_quarters() -> None:
    growing: Answers = lambda k: {"first_s": 0.1 + 0.2 * k, "last_s": 0.2 + 0.2 * k}  # noqa: E731
    (rate,) = made((4.0, 101, growing)).found().search.rates()
    assert list(rate.runs[0].backlog) == sorted(rate.runs[0].backlog)
    assert rate.runs[0].backlog[-1] > rate.runs[0].backlog[0] > 0


def test_a_closed_loop_stands_beside_the_search_and_is_no_run_of_it() -> None:
    one = Made()
    one.run(4.0, 101, concurrency=2)
    found = one.found()
    assert found.search.results == {}
    assert [(loop.concurrency, loop.requests, loop.attained_ratio) for loop in found.closed] == [(2, 20, 1.0)]


def test_a_run_that_was_broken_off_is_made_again() -> None:
    one = made((4.0, 101, quick))
    one.log.add(Load(phase=1, state="begin", spec="", shape="open", rate_per_s=4.0, requests=20, seed=102), one.now_s)
    one.log.add(Load(phase=1, state="end", reason="stopped", spec="", shape="open"), one.now_s + 1)
    wanted = one.found().search.next()
    assert wanted is not None
    assert (wanted.rate_per_s, wanted.seed) == (4.0, 102)


def test_the_end_of_a_search_is_on_record() -> None:
    one = made((4.0, 101, quick), (4.0, 102, quick))
    one.log.add(CapacitySearch(reason="deadline"), one.now_s)
    (answer,) = on_record(one.log.session())
    assert (answer.bracket.end, answer.bracket.passes_per_s, answer.requests_sent) == ("deadline", 4.0, 40)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Identity(server=0, version="0.33"), "its version is 0.33, and was 0.32"),
        (Identity(server=0, version="0.32", flags={"max-num-seqs": 10}), "its flags changed: --max-num-seqs 8 → 10"),
        (Identity(server=0, version="0.32", flags={"max-num-seqs": 8}), None),
    ],
)
def test_a_search_goes_on_only_on_the_same_server(now: Identity, why: str | None) -> None:
    def session(identity: Identity) -> Any:
        log = Log()
        log.add(identity, 0.1)
        log.scrape(0.5, Server())
        return log.session()

    was = session(Identity(server=0, version="0.32", flags={"max-num-seqs": 8}))
    after = session(now)
    assert another(was.servers[0], was.end_s, after.servers[0], after.end_s) == why


def test_two_searches_of_two_servers_are_kept_apart() -> None:
    one = Made(servers=2)
    one.log.add(msgspec.structs.replace(SEARCH, server=1), 0.95)
    one.run(4.0, 101, server=1)
    first, second = searches(one.log.session())
    assert (len(first.search.results), len(second.search.results)) == (0, 1)


def test_a_frame_holds_what_the_search_knew_at_its_instant() -> None:
    slow: Answers = lambda k: {"first_s": 0.1 if k % 2 else 0.9, "last_s": 1.0}  # noqa: E731
    one = made((4.0, 101, quick), (4.0, 102, quick), (8.0, 101, slow))
    session = one.log.session()
    begins = [phase.begin.t for phase in session.load.phases.values()]

    def at(now_s: float) -> CapacityPart:
        part = session.frame(now_s).capacity
        assert part is not None
        return part

    assert session.frame(0.8).capacity is None
    first = at(begins[0] + 1.0)
    assert (first.passes_per_s, first.rates, first.runs) == (None, (), 0)
    assert first.running is not None
    assert (first.running.rate_per_s, first.running.number) == (4.0, 1)
    third = at(begins[2] + 1.0)
    assert (third.passes_per_s, third.fails_per_s, third.runs) == (4.0, None, 2)
    last = at(session.end_s)
    assert (last.passes_per_s, last.fails_per_s, last.running) == (4.0, 8.0, None)
    again = at(begins[2] + 1.0)  # after a look at a later instant
    assert (again.passes_per_s, again.fails_per_s, again.runs) == (4.0, None, 2)


def test_what_was_simulated_before_stands_beside_the_measured_bracket() -> None:
    simulated = SimulatedSearch(by="a profile", passes_per_s=5.0, fails_per_s=6.0)
    one = Made(msgspec.structs.replace(SEARCH, simulated=simulated))
    for seed in (101, 102):
        one.run(4.0, seed)
    session = one.log.session()
    part = session.frame(session.end_s).capacity
    assert part is not None
    assert part.simulated is not None
    assert (part.simulated.speed_least_ratio, part.simulated.speed_most_ratio) == (4.0 / 6.0, None)
    (answer,) = on_record(session)
    words = " ".join(str(block) for section in sections(answer) for block in section.blocks)
    assert "Simulated before (a profile): between 5.00 and 6.00 requests/s. Measured is over 66.7 % of it." in words


@pytest.mark.parametrize(
    "line",
    [
        CapacitySearch(server=7, rule="floor", runs=2, requests=20),
        CapacitySearch(runs=0, requests=20),
        CapacitySearch(runs=2, requests=20, precision_ratio=-1.0),
        CapacitySearch(runs=2, requests=20, first_per_s=0.0),
        CapacitySearch(runs=2, requests=20, simulated=SimulatedSearch(by="", attained=((1.0, 7.0),))),
    ],
)
def test_a_damaged_search_line_costs_itself(line: CapacitySearch) -> None:
    assert bounds.wrong(line) is not None or Made(line).log.session().frame(1.0).capacity is None


def test_a_stretch_cut_out_of_a_search_holds_the_whole_runs_in_it() -> None:
    one = made((4.0, 101, quick), (4.0, 102, quick))
    session = one.log.session()
    second = session.load.phases[1].begin.t

    def found_from(at_s: float) -> Search:
        lines = list(cut(one.log.start, one.log.events, at_s, session.end_s, "cut"))
        assert isinstance(lines[0], Start)
        part = Session(lines[0])
        for line in lines:
            part.apply(decode(encode(line)))
        (found,) = part.searches.found(part.end_s)
        return found.search

    assert [run.seed for run in found_from(second - 1.0).results[4.0]] == [102]
    assert found_from(session.end_s).results == {}


def test_a_bound_that_this_vtop_does_not_know_and_a_rate_of_nothing_break_no_frame() -> None:
    one = Made(msgspec.structs.replace(SEARCH, slo={"ttft": 0.5, "later": 1.0}))
    one.run(4.0, 101, slo={"ttft": 0.5, "later": 1.0})
    one.log.add(Load(phase=1, state="begin", spec="", shape="open", rate_per_s=0.0, requests=20, seed=102), one.now_s)
    one.log.add(Load(phase=1, state="end", reason="done", spec="", shape="open"), one.now_s + 1)
    session = one.log.session()
    part = session.frame(session.end_s).capacity
    assert part is not None
    assert [rate.rate_per_s for rate in part.rates] == [4.0]
    (answer,) = on_record(session)
    assert "later ≤ 1.00 s" in " ".join(str(block) for section in sections(answer) for block in section.blocks)


def test_of_several_engines_the_one_with_the_longest_queue_is_named() -> None:
    one = Made(engines=("0", "1"))
    one.server.engines["1"].waiting = 9.0
    one.run(4.0, 101, lambda k: {"first_s": 0.9, "last_s": 1.0})
    (run,) = one.found().search.results[4.0]
    assert [(peak.name, peak.waiting) for peak in run.engines] == [("1", 9.0), ("0", 0.0)]
    (answer,) = on_record(one.log.session())
    words = " ".join(str(block) for section in sections(answer) for block in section.blocks)
    assert "of 2 engines, engine 1 had at most 9 waiting, engine 0 0" in words
