"""What a Prometheus stored becomes the scrapes that vtop would have made: each server once, nothing made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec
import pytest

from tests.sources.prometheus_store import Store, answer, series
from vtop.errors import VtopError
from vtop.metrics.page import Folder
from vtop.metrics.quantity import Quantity
from vtop.recording import End, Event, Identity, Note, Outage, Scrape, decode, encode
from vtop.server_kinds import registry
from vtop.server_kinds.registry import series_names
from vtop.session.session import Session
from vtop.sources.prometheus.api import SharedTimes, StoredSeries
from vtop.sources.prometheus.follow import _Followed
from vtop.sources.prometheus.stored import HistoryQuery, Stored, prometheus_target, targets
from vtop.sources.prometheus.who import FoundTarget, LabelSet, matchers, servers

BEGAN = 1_796_085_000.0
TEN = tuple(BEGAN + n for n in range(100, 110))
T = TypeVar("T", bound=Event)
PAGE = {"engine": "0", "model_name": "m"}


def read(
    rows: Sequence[StoredSeries], *, closed: bool = True, piece_s: float = 1e9, **asked: object
) -> tuple[Stored, list[Event]]:
    """A whole store as the lines of a recording."""
    times = [at for row in rows for at in row.columns()[0]]
    stretch = HistoryQuery(min(times), max(times) + 1e-3, **asked)  # type: ignore[arg-type]
    stored = Stored(Store(rows, closed=closed, piece_s=piece_s), stretch)
    lines = [decode(encode(event)) for event in stored.lines()]
    assert [line.t for line in lines] == sorted(line.t for line in lines)
    return stored, [line for line in lines if isinstance(line, Event)]


def session_of(stored: Stored, lines: Sequence[Event]) -> Session:
    session = Session(stored.start)
    for line in lines[1:]:
        session.apply(line)
    return session


def of(kind: type[T], lines: Sequence[Event]) -> list[T]:
    return [line for line in lines if isinstance(line, kind)]


def notes(lines: Sequence[Event]) -> str:
    return "\n".join(note.text for note in of(Note, lines))


def page(
    where: Mapping[str, str],
    *,
    start: float | None = BEGAN,
    by: float = 10.0,
    at: Sequence[float] = TEN,
    own: Mapping[str, str] = PAGE,
    prefix: str = "vllm:",
    up: bool = True,
) -> list[StoredSeries]:
    """A small server: its counters grow by so much a second since `start`."""
    grown = [(t, by * (t - BEGAN)) for t in at]
    rows = [
        series(f"{prefix}num_requests_running", {**where, **own}, [(t, 3.0) for t in at]),
        series(f"{prefix}generation_tokens_total", {**where, **own}, grown),
        series(f"{prefix}prompt_tokens_total", {**where, **own}, grown),
    ]
    if start is not None:
        rows.append(series("process_start_time_seconds", where, [(t, start) for t in at]))
    return rows + ([series("up", where, [(t, 1.0) for t in at])] if up else [])


def named(
    rows: Sequence[StoredSeries], *, by: Sequence[str] = (), match: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    times = [at for row in rows for at in row.columns()[0]]
    found, told = servers(Store(rows), match, min(times) - 1, max(times), by)
    return [one.name for one in found], told


# --- from samples to scrapes -----------------------------------------------------------------------------------------


def test_the_stored_samples_are_the_lines_that_the_pages_would_have_been() -> None:
    rows = answer("1s")
    _, lines = read(rows)
    folder, expected = Folder(series_names), []
    for at in rows[1].columns()[0]:  # of a series that is on every page
        text = ""
        for row in rows:
            values = dict(zip(*row.columns(), strict=True))
            name = row.metric["__name__"]
            labels = [f'{k}="{v}"' for k, v in row.metric.items() if k not in ("__name__", "job", "instance")]
            if at in values and name.count(":") < 2:
                text += f"{name}{{{','.join(labels)}}} {values[at]!r}\n"
        expected.append(folder.scrape(text, server=0, at_s=at, took_s=0.0, bytes=1, health=None))
    scrapes = of(Scrape, lines)
    assert len(scrapes) == 12
    for mine, its in zip(scrapes, expected, strict=True):
        assert (mine.values, mine.hists, mine.le, mine.model) == (its.values, its.hists, its.le, its.model)
    assert scrapes[0].bytes is None
    assert scrapes[0].took_s == pytest.approx(0.002848511)


def test_a_recording_rule_is_no_series_of_the_server_and_is_named() -> None:
    _, lines = read(answer("1s"))
    assert "rate1m" not in encode(of(Scrape, lines)[0]).decode()
    rule = series("vllm:tokens:rate1m", {"job": "vllm", "instance": "a:1"}, [(BEGAN + 103.5, 7.0)])
    _, lines = read([*page({"job": "vllm", "instance": "a:1"}), rule])
    assert "times of their own, left out: vllm:tokens:rate1m" in notes(lines)
    assert not any("rate1m" in name for scrape in of(Scrape, lines) for name in scrape.values)


def test_a_restart_between_two_failed_scrapes_is_two_outages_and_one_restart() -> None:
    stored, lines = read(answer("restart"))
    assert [one.reason for one in of(Outage, lines)] == ["scrape_failed", "scrape_failed"]
    frame = session_of(stored, lines).frame(60.0)
    assert (frame.servers[0].restarts, frame.servers[0].outages) == (1, 1)
    assert frame.generation_tokens.since_start is not None


@pytest.mark.parametrize("piece_s", [7.0, 1e9])
@pytest.mark.parametrize("closed", [True, False])
def test_pieces_that_touch_give_each_scrape_once(closed: bool, piece_s: float) -> None:
    whole, _ = read(answer("1s"))
    _, lines = read(answer("1s"), closed=closed, piece_s=piece_s)
    at = [scrape.at_s for scrape in of(Scrape, lines)]
    assert len(at) == len(set(at)) == 12
    assert whole.start.interval_s == 1.0


def test_the_interval_is_the_one_of_the_times() -> None:
    stored, _ = read(answer("15s"))
    assert stored.start.interval_s == 15.0
    rows = page({"job": "a", "instance": "a:1"}) + page(
        {"job": "b", "instance": "b:1"}, start=1.0, at=[BEGAN + n for n in range(0, 120, 15)]
    )
    stored, _ = read(rows + page({"job": "a", "instance": "c:1"}, start=2.0, by=7.0))
    assert stored.start.interval_s == 1.0
    assert [target.interval_s for target in stored.start.servers] == [None, 15.0, None]


def test_relabelled_names_and_dropped_buckets_are_read_for_what_they_say() -> None:
    stored, lines = read(answer("relabelled"))
    assert stored.start.servers[0].url == "llm-0"
    session = session_of(stored, lines)
    ttft = session.servers[0].histogram(Quantity.TTFT)
    assert ttft is not None
    assert session.frame(58.0).ttft.first_tokens > 0


def test_a_histogram_without_its_largest_bucket_is_counted_by_its_count() -> None:
    where = {"job": "v", "instance": "a:1", **PAGE}
    at = [BEGAN + 100.0, BEGAN + 101.0]
    family = "vllm:time_to_first_token_seconds"
    rows = [
        *page({"job": "v", "instance": "a:1"}, at=at),
        series(f"{family}_bucket", {**where, "le": "0.1"}, [(t, 4.0) for t in at]),
        series(f"{family}_count", where, [(t, 6.0) for t in at]),
        series(f"{family}_sum", where, [(t, 2.0) for t in at]),
    ]
    (first, *_) = of(Scrape, read(rows)[1])
    ((_, counts),) = first.hists.items()
    assert (counts.n, counts.count, first.le[family]) == ((4, 2), 6.0, (0.1,))


def test_le_is_a_number_across_an_upgrade() -> None:
    where = {"job": "v", "instance": "a:1", **PAGE}
    at = [BEGAN + n for n in (100.0, 101.0, 102.0, 103.0)]
    family = "vllm:time_to_first_token_seconds"
    rows = page({"job": "v", "instance": "a:1"}, at=at)
    for le in ("1", "+Inf"):
        rows.append(series(f"{family}_bucket", {**where, "le": le}, [(t, 4.0) for t in at[:2]]))
    for le in ("1.0", "+Inf "):
        rows.append(series(f"{family}_bucket", {**where, "le": le.strip()}, [(t, 5.0) for t in at[2:]]))
    scrapes = of(Scrape, read(rows)[1])
    assert {scrape.le[family] for scrape in scrapes if scrape.full} == {(1.0,)}
    assert [counts.n for scrape in scrapes for counts in scrape.hists.values()] == [(4, 0), (5, 0)]


def test_a_native_histogram_is_said_to_be_unreadable() -> None:
    native = StoredSeries(
        {"__name__": "vllm:e2e_request_latency_seconds", "job": "v", "instance": "a:1", **PAGE},
        histograms=msgspec.Raw(b'[[1,{"count":"1"}]]'),
    )
    _, lines = read([*page({"job": "v", "instance": "a:1"}), native])
    assert "native histograms, which vtop cannot read: vllm:e2e_request_latency_seconds" in notes(lines)


def test_another_start_of_the_process_is_a_restart_though_no_counter_fell() -> None:
    at = [BEGAN + n for n in range(100, 104)]
    rows = page({"job": "v", "instance": "a:1"}, start=None, at=at)
    starts = [(t, BEGAN if t < BEGAN + 102 else BEGAN + 101.5) for t in at]
    rows.append(series("process_start_time_seconds", {"job": "v", "instance": "a:1"}, starts))
    stored, lines = read(rows)
    assert [scrape.full for scrape in of(Scrape, lines)] == [True, False, True, False]
    assert session_of(stored, lines).frame(5.0).servers[0].restarts == 1


def test_what_a_prometheus_cannot_know_is_said_at_the_beginning() -> None:
    _, lines = read(answer("15s"))
    assert "a scrape every 15 s, at its own times. Between two scrapes nothing is known" in notes(lines)
    (who,) = of(Identity, lines)
    assert who.models == ("simulated/h200-qwen2.5-7b",)
    assert "does not store version" in (who.note or "")
    assert isinstance(lines[-1], End)


def test_retention_that_ends_after_from_is_said() -> None:
    rows = page({"job": "v", "instance": "a:1"})
    stored = Stored(Store(rows), HistoryQuery(BEGAN - 3600, BEGAN + 110))
    assert "later than --from asks: nothing older is stored" in notes(list(stored.lines()))


class _Dies(Store):
    def window(self, selector: str, end_s: float, length_s: float) -> list[StoredSeries]:
        if end_s > BEGAN + 105 and "generation_tokens_total" not in selector:
            raise VtopError("http://prom:9090: refused")
        return super().window(selector, end_s, length_s)


def test_what_was_read_before_prometheus_failed_stands() -> None:
    stored = Stored(_Dies(page({"job": "v", "instance": "a:1"}), piece_s=2.0), HistoryQuery(BEGAN + 99, BEGAN + 110))
    lines = list(stored.lines())
    assert len(of(Scrape, lines)) == 5
    assert stored.broken_off == "http://prom:9090: refused"
    assert "not read any further" in notes(lines)


# --- who is who -------------------------------------------------------------------------------------------------------


def test_two_jobs_that_scrape_one_server_are_one_server() -> None:
    late = tuple(BEGAN + n + 0.4 for n in range(100, 110))
    names, told = named(page({"job": "a", "instance": "x:1"}) + page({"job": "b", "instance": "x:1"}, at=late))
    assert names == ["x:1"]
    assert told == ["x:1 is stored 2 times (job differ), by its counters: read once"]


def test_a_pair_of_prometheus_stores_each_server_twice_and_it_is_read_once() -> None:
    rows = []
    for replica, by in (("r1", 0.0), ("r2", 0.3)):
        for server in (1, 2):
            where = {"job": "v", "instance": f"x:{server}", "prometheus_replica": replica}
            at = [BEGAN + n + by for n in range(100, 110)]
            rows += page(where, at=at, start=BEGAN + server, by=10.0 * server)
    stored, lines = read(rows)
    assert [target.url for target in stored.start.servers] == ["x:1", "x:2"]
    assert len(of(Scrape, lines)) == 20


def test_where_one_copy_has_a_hole_the_other_is_read_and_they_are_never_mixed() -> None:
    mine = [BEGAN + n for n in range(100, 130) if not 108 <= n < 118]
    its = [BEGAN + n + 0.4 for n in range(100, 130)]
    rows = page({"job": "v", "instance": "x:1", "replica": "a"}, at=mine)
    rows += page({"job": "v", "instance": "x:1", "replica": "b"}, at=its)
    stored, lines = read(rows, piece_s=10.0)
    assert len(stored.start.servers) == 1
    at = [round(scrape.at_s, 3) for scrape in of(Scrape, lines)]
    assert len(at) == pytest.approx(30, abs=1)
    assert max(b - a for a, b in pairwise(at)) < 2.0
    assert session_of(stored, lines).frame(29.5).servers[0].restarts == 0


def test_two_servers_that_began_together_are_two() -> None:
    names, _ = named(page({"job": "v", "instance": "x:1"}) + page({"job": "v", "instance": "x:2"}, by=900.0))
    assert names == ["x:1", "x:2"]


def test_what_cannot_be_shown_to_be_one_is_two_and_said() -> None:
    idle = {"by": 0.0, "start": None}
    names, told = named(page({"job": "a", "instance": "x:1"}, **idle) + page({"job": "b", "instance": "x:1"}, **idle))  # type: ignore[arg-type]
    assert names == ["x:1 {job=a}", "x:1 {job=b}"]
    assert told == ["x:1 {job=a} and x:1 {job=b} may be one server: their counters do not show it; see --by"]


def test_by_says_what_tells_servers_apart() -> None:
    idle = {"by": 0.0, "start": None}
    rows = page({"job": "a", "instance": "x:1"}, **idle) + page({"job": "b", "instance": "x:1"}, **idle)  # type: ignore[arg-type]
    assert named(rows, by=["instance"])[0] == ["x:1"]
    with pytest.raises(VtopError, match="no server has that label; there are instance, job"):
        named(rows, by=["pod"])


def test_replicas_on_the_page_of_one_node_are_servers_of_their_own() -> None:
    rows = []
    for replica, by in (("a", 10.0), ("b", 500.0)):
        where = {"job": "ray", "instance": "node:8080", "ReplicaId": replica}
        rows += page(where, start=None, by=by, prefix="ray_vllm_", up=False)
    rows.append(series("up", {"job": "ray", "instance": "node:8080"}, [(BEGAN + n, 1.0) for n in range(100, 110)]))
    stored, lines = read(rows)
    assert [target.url for target in stored.start.servers] == [
        "node:8080 {ReplicaId=a}",
        "node:8080 {ReplicaId=b}",
    ]
    assert len(of(Scrape, lines)) == 20


def test_a_label_that_the_target_pushed_aside_is_the_page_s_own() -> None:
    own = {"exported_engine": "1", "model_name": "m"}
    stored, lines = read(page({"job": "v", "instance": "a:1", "engine": "vllm"}, own=own))
    (running,) = [name for name in of(Scrape, lines)[0].values if "running" in name]
    assert running == 'vllm:num_requests_running{engine="1"}'
    assert stored.start.servers[0].url == "a:1"


def test_a_vendor_s_prefix_is_read_as_the_usual_one_and_said() -> None:
    stored, lines = read(page({"job": "v", "instance": "a:1"}, prefix="acme_vllm_"))
    assert "series acme_vllm_… are read as vllm:…" in notes(lines)
    assert session_of(stored, lines).frame(9.0).requests.running.now == 3.0


def test_engines_of_one_server_are_one_server() -> None:
    rows = page({"job": "v", "instance": "a:1"}) + page(
        {"job": "v", "instance": "a:1"}, own={"engine": "1", "model_name": "m"}, up=False, start=None
    )
    stored, lines = read(rows)
    assert session_of(stored, lines).frame(9.0).requests.running.now == 6.0


def test_a_server_that_was_gone_before_the_end_is_found() -> None:
    early = page({"job": "v", "instance": "a:1"}, at=[BEGAN + n for n in range(10)])
    late = page({"job": "v", "instance": "b:1"}, at=[BEGAN + n for n in range(2000, 2010)], start=1.0)
    stored, _ = read(early + late)
    assert [one.interval_s for one in stored.servers] == [1.0, 1.0]


def test_no_server_is_one_line() -> None:
    with pytest.raises(VtopError, match='no vLLM server with job="x" in that time'):
        named(page({"job": "v", "instance": "a:1"}), match=['job="x"'])


@pytest.mark.parametrize(
    ("given", "inside"), [('job="a"', 'job="a"'), ('{job=~"a|b", pod!="x",}', 'job=~"a|b", pod!="x"')]
)
def test_a_matcher_is_taken_with_or_without_braces(given: str, inside: str) -> None:
    assert matchers([given]) == inside


def test_what_is_no_matcher_is_said() -> None:
    with pytest.raises(VtopError, match="--match vllm: expected a PromQL matcher"):
        matchers(["vllm"])


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("prom", "http://prom:9090"),
        (":9091", "http://localhost:9091"),
        ("https://host/prometheus/graph?g0.expr=up", "https://host/prometheus"),
        ("http://host:8481/select/0/prometheus/api/v1/query", "http://host:8481/select/0/prometheus"),
    ],
)
def test_a_url_is_taken_as_people_copy_it(typed: str, url: str) -> None:
    assert prometheus_target(typed).url == url


# --- live -------------------------------------------------------------------------------------------------------------


def test_new_scrapes_come_once_and_half_of_one_is_waited_for() -> None:
    where = {"job": "v", "instance": "a:1"}
    store = Store(page(where, at=[BEGAN + n for n in range(100, 104)]))
    stored = Stored(store, HistoryQuery(BEGAN + 99, BEGAN + 103.5))
    assert len(of(Scrape, list(stored.lines()))) == 4
    followed = _Followed(stored.folders[0], stored.copies[0], BEGAN + 103.5)
    assert list(followed.events(stored, BEGAN + 103.9)) == []
    assert followed.due_s == pytest.approx(BEGAN + 104.15)
    whole = page(where, at=[BEGAN + n for n in range(100, 106)])
    (running, *others) = [
        row if row.metric["__name__"] != "vllm:prompt_tokens_total" else old
        for row, old in zip(whole, store.rows, strict=True)
    ]
    store.rows = [running, *others]  # a counter of the newest pages is not stored yet
    first = of(Scrape, list(followed.events(stored, BEGAN + 105.1)))
    store.rows = whole
    second = of(Scrape, list(followed.events(stored, BEGAN + 105.4)))
    assert [scrape.at_s for scrape in (*first, *second)] == [5.0, 6.0]
    assert followed.due_s == pytest.approx(BEGAN + 106.3)


def test_a_label_set_asks_for_nothing_but_its_own() -> None:
    kind = servers(Store(page({"job": "v"})), [], BEGAN, BEGAN + 200, ())[0][0].copies[0].kind
    one = LabelSet((("job", 'a"b'),), ("replica",), kind, "vllm:", up=(("job", 'a"b'),))
    assert one.selector("x") == '{__name__=~"x",job="a\\"b",replica="",__name__!~".+_created"}'
    assert FoundTarget("a", (one,), None).copies[0].with_up


def test_servers_keep_the_labels_that_they_are_grouped_by_and_no_others() -> None:
    labels = (("instance", "a:1"), ("job", "chat"), ("pod", "chat-0"), ("token", "SECRET"))
    one = FoundTarget("a", (LabelSet(labels, (), registry.DEFAULT, ""),), None)
    (target,) = targets([one])
    assert target.labels == {"job": "chat", "pod": "chat-0"}


def test_series_of_one_scrape_share_their_times_and_others_keep_their_own() -> None:
    shared = SharedTimes()
    rows = [
        StoredSeries({}, msgspec.Raw(text.encode()))
        for text in ('[[1e9,"1"],[1000000015,"2"]]', '[[1e9,"3"],[1000000015,"NaN"]]', '[[1e9,"4"]]', '[[1e9,"x"]]')
    ]
    read = [row.columns(shared) for row in rows]
    assert [times for times, _ in read] == [[1e9, 1e9 + 15], [1e9, 1e9 + 15], [1e9], []]
    assert read[0][0] is read[1][0]
    assert [repr(values) for _, values in read] == [repr(row.columns()[1]) for row in rows]
