"""Many servers: who is in trouble, what they add up to, who differs from its peers, and that like ones do not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import pytest

from tests.session.fleets import Replica, events, session, start
from tests.session.made import recorded
from vtop.metrics.quantity import Quantity
from vtop.recording import TargetChange
from vtop.recording.one_server import OneServer
from vtop.session.fleet.peers import MIN_PEERS, Seen, unlike
from vtop.session.frame.fleet import Fleet, FleetView
from vtop.session.frame.frame import View
from vtop.session.session import Session

LIKE = [Replica() for _ in range(8)]


def table(made: Session, view: FleetView = FleetView(), at_s: float | None = None) -> Fleet:  # noqa: B008 - frozen
    frame = made.frame(made.end_s if at_s is None else at_s, View(window_s=60.0, fleet=view, fleet_alone=True))
    assert frame.fleet is not None
    return frame.fleet


def named(made: Session) -> set[tuple[int, str]]:
    return {(server, how.kind) for server, how in table(made).unlike}


def test_a_replica_that_is_slower_at_like_load_is_named_with_window_and_n() -> None:
    made = session([*LIKE, Replica(itl_s=0.03)])
    assert named(made) == {(8, "slower")}
    (_, how), *_ = table(made).unlike
    assert "median of 8 peers at like load" in how.sentence
    assert "tokens in 60.0 s" in how.sentence
    assert (how.peers, round(how.value / how.median, 1)) == (8, 1.5)


def test_a_little_slower_is_no_claim() -> None:
    assert named(session([*LIKE, Replica(itl_s=0.022)])) == set()


def test_a_slow_replica_of_another_load_is_not_compared() -> None:
    assert named(session([*LIKE, Replica(rate_per_s=9.0, itl_s=0.03)])) == {(8, "more requests")}


def test_load_that_is_routed_unevenly_is_named_on_both_sides() -> None:
    assert named(session([*LIKE, Replica(rate_per_s=10.0)])) == {(8, "more requests")}
    assert named(session([*LIKE, Replica(rate_per_s=1.0)])) == {(8, "fewer requests")}


@pytest.mark.parametrize(("others", "said"), [(MIN_PEERS - 1, set()), (MIN_PEERS, {(0, "slower")})])
def test_nobody_is_named_among_fewer_than_five_peers(others: int, said: set[tuple[int, str]]) -> None:
    assert named(session([Replica(itl_s=0.04), *LIKE[:others]])) == said


def test_servers_of_another_model_side_or_job_are_no_peers() -> None:
    slow = Replica(itl_s=0.04)
    assert named(session([*[Replica(model="other") for _ in range(6)], slow, *LIKE[:3]])) == set()
    jobs = [Replica(labels=(("job", "chat"),)) for _ in range(6)]
    assert named(session([*jobs, slow, *LIKE[:3]])) == set()


def test_like_replicas_are_not_named() -> None:
    """500 fleets of 8: requests come by chance, and the pace of each stretch is within some 3 %."""
    chance = Random(3)
    wrong = 0
    for _ in range(500):
        rate = chance.uniform(0.5, 20.0)
        fleet = []
        for at in range(8):
            came = tuple(float(max(0, round(chance.gauss(20 * rate, (20 * rate) ** 0.5)))) for _ in range(3))
            pace = tuple((n * 100 * 0.02 * chance.gauss(1.0, 0.03), n * 100) for n in came)
            fleet.append(Seen(at, "all", False, 60.0, pace, came, 4.0, 500.0, 100.0))
        wrong += bool(unlike(fleet))
    assert wrong == 0


def test_a_scrape_alone_or_an_outage_says_nothing() -> None:
    slow = [*LIKE, Replica(itl_s=0.04)]
    assert named(session(slow, seconds=30)) == set()
    assert named(session(slow, down=lambda at, second: at == 8 and 40 <= second < 50)) == set()


def test_those_in_trouble_stand_first_and_only_living_ones_are_judged() -> None:
    fleet = [Replica(), Replica(waiting=60.0), Replica(rate_per_s=0.0), Replica()]
    made = session(fleet, down=lambda at, second: at == 3 and second > 50)
    rows = table(made).rows
    assert [row.server for row in rows] == [3, 1, 0, 2]
    assert (rows[0].status.kind, rows[0].verdict, rows[0].running) == ("down", None, None)
    assert rows[1].verdict == "kv"
    assert dict(table(made).states)["down"] == 1


def test_prefill_and_decode_are_never_added_up_and_a_router_counts_nowhere() -> None:
    fleet = [Replica(side="prefill"), Replica(side="prefill"), Replica(side="decode"), Replica(kind="vllm-router")]
    made = table(session(fleet))
    assert [(group.side, group.servers) for group in made.totals] == [("decode", 1), ("prefill", 2)] or [
        (group.side, group.servers) for group in made.totals
    ] == [("prefill", 2), ("decode", 1)]
    sides = {group.side: group for group in made.totals}
    assert sides["prefill"].generation_per_s is None
    assert sides["decode"].prompt_per_s is None
    router = next(row for row in made.rows if row.server == 3)
    assert not router.reads
    assert "router" in router.status.sentence


def test_sides_are_those_of_a_model() -> None:
    """Requests of one token to one model do not make prefill servers of it because another is divided."""
    fleet = [Replica(side="prefill"), Replica(side="decode"), Replica(side="prefill", model="labels")]
    assert [row.side for row in sorted(table(session(fleet)).rows, key=lambda row: row.server)] == [
        "prefill",
        "decode",
        None,
    ]


def test_rows_are_found_grouped_and_ordered() -> None:
    fleet = [
        Replica(model="a" if at % 2 else "b", waiting=float(at), labels=(("job", f"j{at % 3}"),)) for at in range(6)
    ]
    made = session(fleet)
    assert {row.server for row in table(made, FleetView(find="j1")).rows} == {1, 4}
    assert table(made, FleetView(find="nothing")).rows == ()
    assert [row.server for row in table(made, FleetView(order="waiting")).rows] == [5, 4, 3, 2, 1, 0]
    grouped = table(made, FleetView(group="job"))
    assert [(group.name, group.servers) for group in grouped.groups] == [("j2", 2), ("j1", 2), ("j0", 2)]
    assert grouped.labels == ("model", "job")


@pytest.mark.parametrize("group", [None, "model"])
def test_the_chosen_row_is_among_those_shown_wherever_it_stands(group: str | None) -> None:
    made = session([Replica(model=f"m{at % 4}") for at in range(20)], seconds=5)
    for chosen in range(20):
        for first in (0, 7, 19):
            for lines in (1, 2, 5, 30):
                fleet = table(made, FleetView(group=group, chosen=chosen, first=first, lines=lines))
                assert chosen in [row.server for row in fleet.rows]
                headings = len({row.group for row in fleet.rows}) if group else 0
                assert len(fleet.rows) + headings <= max(lines, 1 + bool(group))
                assert fleet.order[fleet.first] == fleet.rows[0].server


def test_a_heat_strip_is_empty_where_there_was_no_scrape() -> None:
    made = session([*LIKE[:2]], down=lambda at, second: at == 1 and 30 <= second < 60)
    by_server = {row.server: row.strip for row in table(made, FleetView(strip=12)).rows}
    assert all(cell.kv_used_ratio is not None for cell in by_server[0])
    assert sum(cell.kv_used_ratio is None for cell in by_server[1]) in (4, 5, 6)


def test_what_is_shown_at_an_instant_does_not_depend_on_when_it_was_asked_for() -> None:
    fleet = [*LIKE, Replica(itl_s=0.03, waiting=9.0)]
    early, late = session(fleet), session(fleet)
    for at_s in range(70):
        early.frame(float(at_s), View(window_s=60.0, fleet=FleetView(), fleet_alone=True))
    one, other = table(early, at_s=70.0), table(late, at_s=70.0)
    assert [(row.server, row.verdict, row.judged_s) for row in one.rows] == [
        (row.server, row.verdict, row.judged_s) for row in other.rows
    ]
    assert [server for server, _ in one.unlike] == [server for server, _ in other.unlike]


def test_a_session_says_who_differed_over_all_of_it() -> None:
    (one,) = session([*LIKE, Replica(itl_s=0.03)], seconds=100).unlike_peers()
    assert (one.server, one.kind) == (8, "slower")
    assert (one.named, one.looks) == (7, 8), "of the first minute the whole is not known"


@pytest.mark.parametrize("name", ["overload", "open_loop", "killed", "sweep_c64"])
def test_the_limit_in_a_row_is_that_of_the_whole_frame(name: str) -> None:
    made = recorded(name)
    for tenth in range(1, 11):
        at_s = made.end_s * tenth / 10
        view = View(window_s=60.0, columns=1, stacked=False)
        alone = made.frame(at_s, replace(view, limit_alone=True)).verdict.limit
        assert alone == made.frame(at_s, view).verdict.limit


def test_a_server_alone_is_what_it_would_be_had_it_been_watched_alone() -> None:
    fleet = [Replica(), Replica(waiting=30.0), Replica(rate_per_s=8.0)]
    whole, one = Session(start(fleet)), OneServer(start(fleet), 1)
    alone = Session(one.start)
    for event in events(fleet, 40, down=lambda at, second: at == 1 and second == 20):
        whole.apply(event)
        if (own := one.of(event)) is not None:
            alone.apply(own)
    view = View(window_s=30.0)
    for at_s in (0.5, 21.0, 39.9):
        assert msgspec.json.encode(whole.alone(1).frame(at_s, view)) == msgspec.json.encode(alone.frame(at_s, view))


def test_what_was_given_up_changes_no_number_over_a_window_after_it() -> None:
    fleet = [Replica(), Replica(waiting=60.0)]
    kept, trimmed = session(fleet, seconds=100), session(fleet, seconds=100)
    trimmed.forget(40.0)
    for at_s in (75.0, 99.0):
        one, other = (made.frame(at_s, View(window_s=30.0)) for made in (kept, trimmed))
        for part in ("kv", "latencies", "ttft", "iteration", "throughput", "pressure", "verdict"):
            assert msgspec.json.encode(getattr(one, part)) == msgspec.json.encode(getattr(other, part)), part
        assert other.generation_tokens.in_window == one.generation_tokens.in_window
        assert (one.generation_tokens.since_start is None, other.generation_tokens.since_start) == (False, None)
    assert len(trimmed.servers[0].total(Quantity.GENERATION_TOKENS).value) < 65  # type: ignore[union-attr]


def test_a_server_that_comes_later_or_leaves_is_in_the_table_only_while_it_is_watched() -> None:
    fleet = [Replica(), Replica(), Replica(waiting=40.0)]
    made = Session(start(fleet[:2]))
    for event in events(fleet, 40):
        if event.t >= 10.0 and len(made.servers) == 2:
            made.apply(TargetChange(t=10.0, server=2, target=start(fleet).servers[2]))
        if event.t >= 30.0 and made.servers[0].watched(event.t):
            made.apply(TargetChange(t=30.0, server=0))
        made.apply(event)
    assert {row.server for row in table(made, at_s=9.0).rows} == {0, 1}
    assert {row.server for row in table(made, at_s=20.0).rows} == {0, 1, 2}
    assert {row.server for row in table(made, at_s=39.0).rows} == {1, 2}
    frame = made.frame(39.0, View(window_s=5.0))
    assert frame.requests.waiting.now == 40.0
    assert [one.text for one in frame.event_log if "watched" in one.text] == [
        "http://r2:8000: watched from here on",
        "http://r0:8000: not watched any more",
    ]
