"""The metrics that vtop serves: named by Prometheus' rules, absent where not known or stale, and as on the screen."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.session.made import fold, read
from tests.shipped_kinds import FOLDER
from vtop.errors import VtopError
from vtop.export.metrics import exporter
from vtop.export.metrics.exporter import Exporter, MetricsServer
from vtop.export.metrics.names import METRICS, ServerMetrics, samples
from vtop.recording import AnyEvent, Outage
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.prices import Price, Prices, Worth
from vtop.session.rolling import SinceAttached, counts_of
from vtop.shipped import folder

OVERLOAD = FOLDER / "overload.jsonl.gz"
AT_S = 100.0


class Taken:
    """A recording of which all that happened until an instant is there to be taken."""

    def __init__(self, until_s: float, *more: AnyEvent) -> None:
        self.start, events = read(OVERLOAD)
        self._events = [*(event for event in events if event.t <= until_s), *more]

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        taken, self._events = self._events, []
        return taken


def frame(at_s: float = AT_S) -> Frame:
    return fold(*read(OVERLOAD), until=at_s).frame(at_s, View(window_s=60.0, columns=1, stacked=False))


def looked(recording: Taken, at_s: float = AT_S) -> Exporter:
    made = Exporter(recording, lambda: at_s)
    made.take()
    made.look(0)
    return made


def told(of: Exporter) -> dict[tuple[str, str], float]:
    """(name, value of its own label, if any) -> number"""
    return {
        (sample.name, next((value for label, value in sample.labels.items() if label != "server"), "")): sample.value
        for family in of.collect()
        for sample in family.samples
    }


def test_names_follow_prometheus_rules_and_each_stands_in_the_docs() -> None:
    page = Path("docs/serve-metrics.md").read_text()
    for metric in METRICS:
        name = metric.name + ("_total" if metric.kind == "counter" else "")
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", name)
        assert not re.search(r"_(ms|milliseconds|percent|count|minutes)$", name)
        assert f"`vtop_{name}`" in page


def test_numbers_are_those_of_the_screen() -> None:
    numbers, at = told(looked(Taken(AT_S))), frame()
    assert numbers["vtop_up", ""] == 1.0
    assert numbers["vtop_ttft_part_seconds", "queue"] == at.ttft.queue_s
    assert numbers["vtop_ttft_part_seconds", "other"] == at.ttft.frontend_s
    assert numbers["vtop_recomputed_tokens_total", ""] == at.recompute.since_start
    assert numbers["vtop_preemptions_total", ""] == at.preemption.count.since_start
    assert numbers["vtop_verdict", at.verdict.limit] == 1.0
    assert sum(value for (name, _), value in numbers.items() if name == "vtop_verdict") == 1.0
    assert numbers["vtop_last_scrape_timestamp_seconds", ""] == pytest.approx(at.unix_s - (at.servers[0].age_s or 0.0))


def test_of_a_server_that_went_away_nothing_old_is_told() -> None:
    gone = Outage(t=AT_S + 1, at_s=AT_S + 1, took_s=0.0, server=0, reason="refused")
    numbers = told(looked(Taken(AT_S, gone), AT_S + 30))
    assert numbers["vtop_up", ""] == 0.0
    assert numbers["vtop_last_scrape_timestamp_seconds", ""] > AT_S
    assert {name for name, _ in numbers} == {
        "vtop_build_info", "vtop_up", "vtop_server_info", "vtop_last_scrape_timestamp_seconds", "vtop_verdict",
    }  # fmt: skip


def test_a_look_that_is_too_old_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = looked(Taken(AT_S))
    for name in ("STALE_S", "LOOKS"):
        monkeypatch.setattr(exporter, name, -1.0)
    assert {name for name, _ in told(made)} == {"vtop_build_info"}


def test_what_is_not_known_gives_no_sample() -> None:
    at = frame()
    unknown = ServerMetrics(replace(at, kv=replace(at.kv, room_tokens=None)), SinceAttached())
    names = {metric.name for metric, _, _ in samples(unknown)}
    assert "kv_room_tokens" not in names
    assert "recomputed_tokens" not in names
    assert "kv_room_tokens" in {metric.name for metric, _, _ in samples(ServerMetrics(at, counts_of(at)))}


class Priced:
    """Prices of a load that was watched, made once."""

    made = 1

    def of(self, phase: int | None) -> Prices:
        worth = Worth(0.26, 0.02, 0.55)
        return Prices("run", phase, (Price("kv", 7168, 7884, worth, worth, 3),), None, (), 60.0)


def test_prices_are_told_while_they_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Exporter(Taken(AT_S), lambda: AT_S, Priced())
    made.take()
    made.look(0)
    found = {
        (sample.labels["limit"], sample.labels["bound"]): sample.value
        for family in made.collect()
        for sample in family.samples
        if sample.name == "vtop_limit_price_output_ratio"
    }
    assert found == {("kv", "mean"): 0.26, ("kv", "low"): 0.02, ("kv", "high"): 0.55}
    monkeypatch.setattr(exporter, "PRICED_S", -1.0)
    made.look(0)
    assert not any(name == "vtop_limit_price_output_ratio" for name, _ in told(made))


def test_a_page_over_http_is_read_by_prometheus_and_each_query_of_the_dashboard_names_what_it_has() -> None:
    server = MetricsServer("127.0.0.1", 0)
    try:
        server._registry.register(looked(Taken(AT_S)))
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5) as answer:
            page = answer.read().decode()
    finally:
        server.stop()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert families["vtop_recomputed_tokens"].type == "counter"
    assert all(family.documentation for family in families.values())
    panels = json.loads((folder("grafana") / "vtop.json").read_text())["panels"]
    used = {name for panel in panels for target in panel["targets"] for name in re.findall(r"vtop_\w+", target["expr"])}
    known = {sample.name for family in families.values() for sample in family.samples}
    assert used <= known
    assert all('server=~"$server"' in target["expr"] for panel in panels for target in panel["targets"])


def test_a_place_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(VtopError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            MetricsServer("127.0.0.1", port)
    assert "\n" not in str(caught.value)
