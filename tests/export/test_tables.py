"""The tables of an export hold the numbers of the screen, and an empty cell where there is none."""

from __future__ import annotations

import csv as standard
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import vtop
from tests.export.recorded import OVERLOAD, SHORT, SWEEP, loaded, opened, reading, request, strict, watched, written
from tests.session.made import Server, device
from tests.shipped_kinds import EACH
from vtop.errors import VtopError
from vtop.export import spans
from vtop.export.formats import csv, parquet
from vtop.export.tables.table import Cell, TableLayout
from vtop.export.tables.tables import TABLES
from vtop.metrics.quantity import Quantity
from vtop.recording import Mark
from vtop.session.frame.frame import View

DOCS = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def table(name: str) -> TableLayout:
    return next(table for table in TABLES if table.name == name)


def exported(path: Path, folder: Path) -> dict[str, list[dict[str, str]]]:
    """Every table as a CSV reader gives it: words."""
    folder.mkdir(exist_ok=True)
    with reading(path) as recording:
        paths = csv.write(recording, folder, folder=True, force=False)
    found = {}
    for one in paths:
        with open(one, encoding="utf-8", newline="") as file:
            found[one.stem] = list(standard.DictReader(file))
    return found


def number(word: str) -> float | None:
    return float(word) if word else None


# --- the scrape in docs ---------------------------------------------------------------------------------------------


def section(one: TableLayout) -> str:
    lines = [f"### {one.name}", "", f"A row is {one.row}.", "", "| column | | |", "|---|---|---|"]
    lines += [f"| `{column.name}` | {column.kind} | {column.says} |" for column in one.columns]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("one", TABLES, ids=lambda one: one.name)
def test_the_scrape_has_every_column_as_it_is_declared(one: TableLayout) -> None:
    scrape = DOCS.read_text(encoding="utf-8")
    there = re.compile(rf"^### {one.name}\n.*?(?=^##)", re.DOTALL | re.MULTILINE)
    if os.environ.get("VTOP_WRITE"):
        scrape = there.sub(lambda _: section(one) + "\n", scrape)
        DOCS.write_text(scrape, encoding="utf-8")
    found = there.search(scrape)
    assert found is not None
    assert found[0] == section(one) + "\n"


def test_the_scrape_names_no_table_that_is_not_there() -> None:
    named = re.findall(r"^### (\w+)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert named == [one.name for one in TABLES]


@pytest.mark.parametrize("one", TABLES, ids=lambda one: one.name)
def test_a_column_has_one_name_and_says_what_it_is_in(one: TableLayout) -> None:
    assert len(set(one.header)) == len(one.header)
    for column in one.columns:
        if column.kind == "number":
            assert column.name.endswith(("_s", "_total", "_w", "_j", "_c", "_mhz", "_ratio")), column.name


# --- csv ----------------------------------------------------------------------------------------------------------


def test_a_sample_is_what_the_screen_shows_at_that_scrape() -> None:
    run = opened(OVERLOAD)
    rows = run.samples()
    assert len(rows) == 182
    first = rows[0]
    for row in rows[1::20]:
        frame = run.frame(float(row["written_s"]))  # type: ignore[arg-type]
        assert row["running_requests"] == frame.requests.running.now
        assert row["waiting_requests"] == frame.requests.waiting.now
        assert row["kv_used_ratio"] == frame.kv.used.now
        for name, count in (
            ("preemptions_total", frame.preemption.count),
            ("prompt_tokens_total", frame.prompt_tokens),
            ("generation_tokens_total", frame.generation_tokens),
        ):
            assert row[name] - first[name] == count.since_start  # type: ignore[operator]


def test_a_mean_is_a_difference_of_two_rows() -> None:
    run = opened(SHORT)
    rows = run.samples()
    frame = run.session.frame(float(rows[-1]["written_s"]), View(window_s=1e6))  # type: ignore[arg-type]
    ttft = next(one for one in frame.latencies if one.name == "TTFT")
    grown: dict[str, Any] = {name: rows[-1][name] - rows[0][name] for name in ("ttft_sum_s", "ttft_count")}  # type: ignore[operator]
    assert grown["ttft_sum_s"] / grown["ttft_count"] == pytest.approx(ttft.mean_s)
    assert grown["ttft_count"] == ttft.n


@pytest.mark.parametrize("path", EACH)
def test_csv_says_what_the_records_say(path: Path, tmp_path: Path) -> None:
    run, found = opened(path), exported(path, tmp_path / "out")
    for one in TABLES:
        records: list[dict[str, Cell]] = getattr(run, one.name)()
        rows = found[one.name]
        assert len(rows) == len(records), one.name
        for row, record in zip(rows, records, strict=True):
            assert list(row) == list(one.header)
            for column in one.columns:
                assert same(row[column.name], record[column.name]), (one.name, column.name)


def same(word: str, cell: Cell) -> bool:
    if cell is None or cell == ():
        return word == ""
    if isinstance(cell, bool):
        return word == ("true" if cell else "false")
    if isinstance(cell, int | float):
        return float(word) == cell
    if isinstance(cell, tuple):
        return word == " ".join(map(str, cell))
    return word == (f"'{cell}" if cell[:1] in "=+-@" else cell)  # a spreadsheet would run it


def test_what_is_not_known_is_empty_and_what_was_measured_as_nothing_is_0(tmp_path: Path) -> None:
    log, server = watched(3), Server()
    server.without = {"vllm:num_requests_waiting"}
    log.scrape(9.0, server)
    rows = exported(written(log, tmp_path / "a.jsonl"), tmp_path / "out")["samples"]
    assert [row["waiting_requests"] for row in rows] == ["0", "0", "0", ""]
    assert [row["running_requests"] for row in rows] == ["0", "1", "2", "0"]
    assert {row["process_cpu_s_total"] for row in rows} == {""}
    assert {row["gpu_power_w"] for row in rows} == {""}  # one GPU does not tell, so there is no sum


def test_counters_go_on_over_a_restart(tmp_path: Path) -> None:
    log, server = watched(0), Server()
    for second in range(4):
        server.engine.count(generation_tokens=10)
        log.scrape(float(second), server)
    server.restart()
    log.scrape(4.0, server)
    rows = exported(written(log, tmp_path / "a.jsonl"), tmp_path / "out")["samples"]
    assert [row["generation_tokens_total"] for row in rows] == ["10", "20", "30", "40", "40"]
    assert [row["restart"] for row in rows] == ["false"] * 4 + ["true"]


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_however_many_scrapes_are_written_at_once_the_rows_are_the_same(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = opened(OVERLOAD).samples(), opened(OVERLOAD).gpus()
    monkeypatch.setattr(spans, "SCRAPES_AT_ONCE", at_once)
    assert (opened(OVERLOAD).samples(), opened(OVERLOAD).gpus()) == expected
    (server,) = opened(OVERLOAD).session.servers
    for row, scrape in zip(expected[0], range(len(server.t)), strict=True):
        for name, quantity in (("waiting_requests", Quantity.WAITING), ("preemptions_total", Quantity.PREEMPTIONS)):
            track = server.total(quantity)
            assert track is not None
            assert row[name] == track.at(scrape)


def test_engines_and_servers_have_rows_of_their_own(tmp_path: Path) -> None:
    log = watched(4, servers=2, engines=("0", "1"))
    found = exported(written(log, tmp_path / "a.jsonl"), tmp_path / "out")
    assert [(row["server"], row["url"]) for row in found["samples"]] == [
        *[("0", "http://host0:8000")] * 4,
        *[("1", "http://host1:8000")] * 4,
    ]
    rows = [row for row in found["engines"] if row["server"] == "1" and row["engine"] == "1"]
    assert [row["generation_tokens_total"] for row in rows] == ["11", "22", "33", "44"]
    of_server = [row["generation_tokens_total"] for row in found["samples"] if row["server"] == "1"]
    assert of_server == ["22", "44", "66", "88"]


def test_devices_have_a_row_for_each_reading(tmp_path: Path) -> None:
    rows = exported(written(watched(4), tmp_path / "a.jsonl"), tmp_path / "out")["gpus"]
    assert [(row["index"], row["power_w"]) for row in rows] == [
        ("0", "100.0"), ("0", "101.0"), ("0", "102.0"), ("0", "103.0"), ("1", ""), ("1", ""), ("1", ""), ("1", ""),
    ]  # fmt: skip


def test_a_sample_has_no_power_older_than_a_reading_holds(tmp_path: Path) -> None:
    log = watched(0)
    for second in range(9):
        if second < 3:
            log.gpu(second + 0.1, device(power_w=100.0 + second))
        log.scrape(second + 0.5, Server())
    rows = exported(written(log, tmp_path / "a.jsonl"), tmp_path / "out")["samples"]
    assert [row["gpu_power_w"] for row in rows] == ["100.0", "101.0", "102.0", "102.0", "102.0", "", "", "", ""]


def test_commas_quotes_and_signs_of_any_language_survive_and_a_line_end_is_a_space(tmp_path: Path) -> None:
    log = watched(1)
    text = 'a "quoted", and\nbroken line – 日本'
    log.add(Mark(text=text), 3.0)
    rows = exported(written(log, tmp_path / "a.jsonl"), tmp_path / "out")["events"]
    assert [row["text"] for row in rows if row["kind"] == "mark"] == [text.replace("\n", " ")]


# --- requests and phases ------------------------------------------------------------------------------------------


def test_a_request_has_its_stamps_and_the_server_s_timings(tmp_path: Path) -> None:
    rows = exported(written(loaded(), tmp_path / "a.jsonl"), tmp_path / "out")["requests"]
    assert [row["id"] for row in rows] == ["2", "0", "1", "3"]
    failed, timed, late, unended = rows
    assert (failed["error"], failed["detail"], failed["first_s"], failed["server"]) == (
        "refused",
        "no, thanks",
        "",
        "0",
    )
    assert [number(timed[name]) for name in ("server_queue_s", "server_prefill_s", "server_decode_s")] == [
        0.2, 0.3, 0.98,
    ]  # fmt: skip
    assert strict(timed["timings"])["mean_itl_ms"] == 98.0
    assert number(timed["ttft_s"]) == pytest.approx(0.6)
    assert number(timed["tpot_s"]) == pytest.approx(0.1)
    assert timed["gaps_us"] == " ".join(["100000"] * 10)
    assert number(late["sent_s"]) == 1.25  # its last line does not say it; its first does
    assert number(late["ttft_s"]) == 0.75
    assert number(late["ttft_from_due_s"]) == pytest.approx(0.9)
    assert number(late["sent_unix_s"]) == 10_001.25
    assert (unended["sent_s"], unended["end_s"], unended["error"]) == ("2.7", "", "")


def test_the_mean_of_the_requests_is_the_phase_s(tmp_path: Path) -> None:
    run = opened(SWEEP)
    phases, requests = run.phases(), run.requests()
    assert [phase["concurrency"] for phase in phases] == [1, 2, 4, 8, 16, 32, 64]
    for phase in phases:
        mine = [one for one in requests if one["phase"] == phase["phase"] and not one["warmup"]]
        ttft_s: Any = [one["ttft_s"] for one in mine]
        assert phase["done"] == len(mine)
        assert sum(ttft_s) / len(ttft_s) == pytest.approx(phase["ttft_mean_s"], abs=1e-6)
        assert sum(one["output_tokens"] for one in mine) == phase["output_tokens"]  # type: ignore[misc]


def test_a_phase_is_what_the_screen_shows_at_its_end() -> None:
    run = opened(OVERLOAD)
    (phase,) = run.phases()
    part = run.frame(float(phase["end_s"])).load  # type: ignore[arg-type]
    assert part is not None
    assert part.slo is not None
    assert (phase["ttft_p99_s"], phase["itl_p99_s"]) == (part.ttft.p99_s, part.itl.p99_s)
    assert (phase["kept_ratio"], phase["output_per_s"]) == (part.slo.attainment_ratio, part.output_per_s)


def test_a_phase_that_never_ended_is_what_it_was_at_the_end_of_the_recording(tmp_path: Path) -> None:
    run = vtop.open(written(loaded(), tmp_path / "a.jsonl"))
    (phase,) = run.phases()
    assert (phase["end_s"], phase["reason"]) == (None, None)
    assert (phase["sent"], phase["done"], phase["failed"], phase["slo_ttft_s"]) == (4, 2, 1, 0.5)


def test_a_percentile_in_which_a_failed_request_stands_is_inf(tmp_path: Path) -> None:
    log = loaded()
    for identity in range(4, 600):
        log.add(request(9.0, identity, due_s=9.0, sent_s=9.0), 9.0)
        log.add(request(9.0, identity, due_s=9.0, sent_s=9.0, end_s=9.0, error="refused"), 9.0)
    (row,) = exported(written(log, tmp_path / "a.jsonl"), tmp_path / "out")["phases"]
    assert (row["e2e_p99_s"], row["ttft_from_due_p99_s"]) == ("inf", "inf")
    assert row["itl_p99_s"] == ""


# --- where they go, and what is there already ----------------------------------------------------------------------


def test_nothing_is_overwritten_unasked_and_nothing_begun(tmp_path: Path) -> None:
    (tmp_path / "run-engines.csv").write_text("precious")
    with reading(SHORT) as recording, pytest.raises(VtopError, match=r"run-engines\.csv: exists already"):
        csv.write(recording, tmp_path / "run", folder=False, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["run-engines.csv"]
    with reading(SHORT) as recording:
        csv.write(recording, tmp_path / "run", folder=False, force=True)
    assert (tmp_path / "run-engines.csv").read_text().startswith("at_s,")
    assert {path.name for path in tmp_path.iterdir()} == {f"run-{one.name}.csv" for one in TABLES}


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with reading(SHORT) as recording, pytest.raises(VtopError, match="cannot be written"):
        csv.write(recording, tmp_path / "no" / "such", folder=False, force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_without_load_or_devices_has_empty_tables_with_a_header(tmp_path: Path) -> None:
    log = watched(0)
    log.scrape(1.0, Server())
    found = exported(written(log, tmp_path / "a.jsonl"), tmp_path / "out")
    assert {name: len(rows) for name, rows in found.items()} == {
        "samples": 1, "requests": 0, "phases": 0, "events": 2, "engines": 1, "gpus": 0,
    }  # fmt: skip
    assert (tmp_path / "out" / "gpus.csv").read_text() == ",".join(table("gpus").header) + "\n"


# --- parquet ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [OVERLOAD, SHORT], ids=["overload_loaded", "sweep_c64"])
def test_parquet_holds_the_records_with_their_kinds(path: Path, tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow.parquet", reason="vtop[parquet] is not installed")
    with reading(path) as recording:
        parquet.write(recording, tmp_path / "run", folder=False, force=False)
    run = opened(path)
    for one in TABLES:
        found = arrow.read_table(tmp_path / f"run-{one.name}.parquet")
        assert found.column_names == list(one.header)
        records = [
            {name: list(cell) if isinstance(cell, tuple) else cell for name, cell in record.items()}
            for record in getattr(run, one.name)()
        ]
        assert found.to_pylist() == records
        kinds = {str(found.schema.field(column.name).type) for column in one.columns if column.kind == "count"}
        assert kinds <= {"int64"}


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    missing = pytest.raises(VtopError, match=re.escape("pip install 'vtop[parquet]'"))
    with reading(SHORT) as recording, missing:
        parquet.write(recording, tmp_path / "run", folder=False, force=False)
    assert list(tmp_path.iterdir()) == []
