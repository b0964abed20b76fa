"""The text is OpenMetrics that a Prometheus takes for its past: page by page what the server's page said."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as exposition
from prometheus_client.utils import floatToGoString

from tests.export.recorded import OVERLOAD, SHORT, reading, watched, written
from tests.session.made import Log, Server
from vtop.export.formats import prometheus
from vtop.server_kinds.vllm.series import SERIES

PAGES = Path(__file__).resolve().parents[1] / "scrapes"
SAMPLE = re.compile(r"^(?P<series>.*) (?P<value>\S+) (?P<at>\d+\.\d{3})$")


def text_of(path: Path, folder: Path, every_s: float = 0.0) -> str:
    out = folder / "run.om"
    with reading(path) as recording:
        assert prometheus.write(recording, out, every_s=every_s, force=True) == [out]
    return out.read_text(encoding="utf-8")


def openmetrics(text: str) -> Iterator[Metric]:
    """As prometheus_client reads it."""
    found: Iterator[Metric] = openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return found


def families(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """(name, type, lines) in order."""
    name = kind = ""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            if name:
                yield name, kind, lines
            _, _, name, kind = line.split(" ")
            lines = []
        elif line != "# EOF":
            lines.append(line)
    yield name, kind, lines


def at(text: str, stamp: str) -> str:
    """The text as it would be if the server had been asked once, at that instant."""
    kept = [line for line in text.splitlines() if line.startswith("#") or line.endswith(f" {stamp}")]
    return "\n".join(kept) + "\n"


def stamps_of(text: str) -> list[str]:
    return [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith("up{")]


# --- the format ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [OVERLOAD, SHORT], ids=["overload_loaded", "sweep_c64"])
def test_families_and_series_are_together_and_time_goes_forward(path: Path, tmp_path: Path) -> None:
    text = text_of(path, tmp_path)
    assert text.endswith("\n# EOF\n")
    assert text.count("# EOF") == 1
    seen: set[str] = set()
    for name, kind, lines in families(text):
        assert name not in seen
        seen.add(name)
        previous, begun = "", set()
        latest = 0.0
        for line in lines:
            sample = SAMPLE.match(line)
            assert sample is not None, line
            suffixes = (
                ("_bucket", "_count", "_sum") if kind == "histogram" else ("_total",) if kind == "counter" else ("",)
            )
            base = sample["series"].partition("{")[0]
            assert base in {name + suffix for suffix in suffixes}
            metric = re.sub(r',le="[^"]*"', "", sample["series"].partition("{")[2])
            if metric != previous:
                assert metric not in begun
                begun.add(metric)
                previous, latest = metric, 0.0
            assert float(sample["at"]) >= latest
            latest = float(sample["at"])


@pytest.mark.parametrize("path", [OVERLOAD, SHORT], ids=["overload_loaded", "sweep_c64"])
def test_prometheus_client_reads_what_is_no_histogram_in_one_go(path: Path, tmp_path: Path) -> None:
    text = text_of(path, tmp_path)
    plain = [(f"# TYPE {name} {kind}", lines) for name, kind, lines in families(text) if kind != "histogram"]
    count = sum(len(lines) for _, lines in plain)
    found = openmetrics("\n".join("\n".join([head, *lines]) for head, lines in plain) + "\n# EOF\n")
    assert sum(len(family.samples) for family in found) == count > 0


@pytest.mark.parametrize("path", [OVERLOAD, SHORT], ids=["overload_loaded", "sweep_c64"])
def test_prometheus_client_reads_every_page_of_it(path: Path, tmp_path: Path) -> None:
    """Page by page: of a histogram with two timestamps it drops the buckets of the second (0.20 to 0.26)."""
    text = text_of(path, tmp_path)
    for stamp in stamps_of(text)[::30]:
        page = at(text, stamp)
        read = list(openmetrics(page))
        assert sum(len(family.samples) for family in read) == page.count("\n") - page.count("#")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_makes_blocks_of_it(tmp_path: Path) -> None:
    text = text_of(OVERLOAD, tmp_path)
    told = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", tmp_path / "run.om", tmp_path / "data"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    samples = text.count("\n") - text.count("#")
    assert str(samples) in told


# --- what it says -------------------------------------------------------------------------------------------------


def recorded_samples(page: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What prometheus_client reads on a server's own page, of what vtop records."""
    found = {}
    for family in exposition(page):
        for sample in family.samples:
            if not SERIES.recorded(re.sub("_(bucket|sum|count)$", "", sample.name)) or sample.name.endswith("_created"):
                continue
            labels = {name: value for name, value in sample.labels.items() if name in {*SERIES.kept_labels, "le"}}
            found[sample.name, frozenset(labels.items())] = sample.value
    return found


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.txt")), ids=lambda page: page.stem)
def test_a_page_comes_back_as_the_server_wrote_it(page: Path, tmp_path: Path) -> None:
    log, text = Log(), page.read_text(encoding="utf-8")
    log.scrape(1.0, text)
    exported = text_of(written(log, tmp_path / "a.jsonl"), tmp_path)
    found = {}
    for family in openmetrics(exported):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "instance"}
            found[sample.name, frozenset(labels.items())] = sample.value
            assert float(sample.timestamp or 0.0) == 10_001.0
    found.pop(("up", frozenset()))
    expected = recorded_samples(text)
    expected = {key: value for key, value in expected.items() if not math.isnan(value)}
    assert found == expected


def test_each_page_is_a_sample_of_every_series_also_of_those_that_did_not_change(tmp_path: Path) -> None:
    text = text_of(written(watched(5), tmp_path / "a.jsonl"), tmp_path)
    values: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in text.splitlines():
        sample = SAMPLE.match(line)
        if sample is not None:
            values[sample["series"]].append((float(sample["at"]), float(sample["value"])))
    labels = '{engine="0",model_name="m0",instance="host0:8000"}'
    assert values[f"vllm:generation_tokens_total{labels}"] == [(10_000.5 + k, 10.0 * (k + 1)) for k in range(5)]
    assert values[f"vllm:num_requests_waiting{labels}"] == [(10_000.5 + k, 0.0) for k in range(5)]
    assert values['vtop_gpu_power_watts{gpu="0",uuid="GPU-0"}'] == [(10_000.6 + k, 100.0 + k) for k in range(5)]
    assert not [series for series in values if "vtop_gpu_power_watts" in series and "GPU-1" in series]


def test_what_is_not_on_the_page_has_no_sample(tmp_path: Path) -> None:
    log, server = watched(0), Server()
    for second in range(4):
        server.without = (
            {"vllm:num_requests_waiting", "vllm:time_to_first_token_seconds"} if second in (1, 2) else set()
        )
        log.scrape(float(second), server)
    text = text_of(written(log, tmp_path / "a.jsonl"), tmp_path)
    waiting = [line for line in text.splitlines() if line.startswith("vllm:num_requests_waiting{")]
    counts = [line for line in text.splitlines() if line.startswith("vllm:time_to_first_token_seconds_count")]
    assert [line.rpartition(" ")[2] for line in waiting] == ["10000.000", "10003.000"]
    assert [line.rpartition(" ")[2] for line in counts] == ["10000.000", "10003.000"]


def test_an_outage_is_up_0(tmp_path: Path) -> None:
    log = watched(2)
    log.outage(3.0)
    log.scrape(4.0, Server())
    text = text_of(written(log, tmp_path / "a.jsonl"), tmp_path)
    up = [line.split(" ")[1:] for line in text.splitlines() if line.startswith("up{")]
    assert up == [["1.0", "10000.500"], ["1.0", "10001.500"], ["0.0", "10003.000"], ["1.0", "10004.000"]]


def test_servers_are_told_apart_by_instance(tmp_path: Path) -> None:
    text = text_of(written(watched(3, servers=2), tmp_path / "a.jsonl"), tmp_path)
    running = [line for line in text.splitlines() if line.startswith("vllm:num_requests_running{")]
    assert [re.search('instance="([^"]*)"', line)[1] for line in running] == [  # type: ignore[index]
        *["host0:8000"] * 3,
        *["host1:8000"] * 3,
    ]


@pytest.mark.parametrize(("every_s", "kept"), [(0.0, 30), (1.0, 30), (5.0, 6), (15.0, 2)])
def test_thinned_it_has_a_sample_every_so_many_seconds(every_s: float, kept: int, tmp_path: Path) -> None:
    text = text_of(written(watched(30), tmp_path / "a.jsonl"), tmp_path, every_s)
    assert len(stamps_of(text)) == kept
    assert len([line for line in text.splitlines() if line.startswith("vtop_gpu_power_watts{")]) == kept


def test_two_pages_at_one_instant_are_one_sample(tmp_path: Path) -> None:
    log = watched(0)
    for at_s in (1.0, 1.0002, 0.5, 2.0):
        log.scrape(at_s, Server())
    text = text_of(written(log, tmp_path / "a.jsonl"), tmp_path)
    assert stamps_of(text) == ["10001.000", "10002.000"]


@pytest.mark.parametrize(
    ("bound", "text"), [(0.3, "0.3"), (1.0, "1.0"), (100_000.0, "100000.0"), (1e6, "1e+06"), (2_500_000.0, "2.5e+06")]
)
def test_bounds_are_written_as_prometheus_clients_write_them(bound: float, text: str) -> None:
    assert prometheus._bound(bound) == text == floatToGoString(bound)  # type: ignore[no-untyped-call]
