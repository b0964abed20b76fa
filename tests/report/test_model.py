"""A report says what the screen says: the same numbers, from the same frames, also of half a recording."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from tests.cli.vtop import runner
from tests.report.reports import NAMES, made, path_of, report_of, session_of
from vtop import units
from vtop.cli import main
from vtop.report.render.html import html
from vtop.report.render.json import DIGITS, recording
from vtop.report.render.markdown import markdown
from vtop.report.render.terminal import text
from vtop.report.report_document import document
from vtop.report.tables import phases
from vtop.session.frame.frame import View

# a field of the JSON report's numbers -> the field of `vtop show --json` that it is
SAME = {
    "kv.peak_ratio": "kv.used.high",
    "kv.median_ratio": "kv.used.median",
    "running.median": "requests.running.median",
    "waiting.peak": "requests.waiting.high",
    "generation_per_s": "generation_tokens.per_s",
    "finished": "requests.finished.in_window",
    "preemptions": "preemption.count.in_window",
    "parts.queue_s": "ttft.queue_s",
    "parts.prefill_s": "ttft.prefill_s",
    "parts.frontend_s": "ttft.frontend_s",
    "recompute.tokens": "recompute.tokens",
    "energy.joules": "energy.joules",
    "queueing.waiting_share": "queueing.waiting_share",
}


def at(document: Any, field: str) -> Any:
    for word in field.split("."):
        document = document[word]
    return document


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_screen_and_the_report_give_the_same_digits(name: str) -> None:
    run = recording(report_of(name))["run"]
    shown = runner().invoke(main, ["show", str(path_of(name)), "--json", "--at", asked(name), "--window", window(name)])
    assert shown.exit_code == 0, shown.stderr
    screen = json.loads(shown.stdout)
    for field, there in SAME.items():
        value = at(screen, there)
        expected = float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        assert at(run, field) == expected, field


def asked(name: str) -> str:
    """The instant at which the report asks about the run."""
    run = report_of(name).run
    assert run is not None
    session = session_of(name)
    page = list(session.servers[0].at_s).index(run.end_s)
    return repr(session.servers[0].t[page])


def window(name: str) -> str:
    run = report_of(name).run
    assert run is not None
    return repr(run.end_s - run.begin_s)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["open_loop", "overload", "overload_loaded", "sweep_c64"])
def test_json_html_markdown_and_text_give_the_same_digits(name: str) -> None:
    report = report_of(name)
    content = document([report])
    written = [html(content), markdown(content), text(content)]
    for phase in recording(report)["phases"]:
        of = phase["whole"]
        for value in (
            units.number(of["output_per_s"]),
            units.seconds(of["parts"]["queue_s"]),
            units.seconds(of["parts"]["prefill_s"]),
            units.percent(of["kv"]["peak_ratio"]),
            units.count(of["waiting"]["peak"]),
            units.percent(phase["steady"]["kv"]["median_ratio"]),
        ):
            for form in written:
                assert value in form


def test_a_report_asks_the_session_and_nothing_else() -> None:
    report = report_of("overload")
    session = session_of("overload")
    phase = report.phases[0]
    assert phase.whole is not None
    page = list(session.servers[0].at_s).index(phase.whole.end_s)
    view = View(window_s=phase.whole.end_s - phase.whole.begin_s, columns=1, whole=True)
    frame = session.frame(session.servers[0].t[page], view)
    assert phase.whole.kv.median_ratio == frame.kv.used.median
    assert phase.whole.verdict.sentence == frame.verdict.sentence
    assert phase.whole.parts.queue_s == frame.ttft.queue_s


def test_own_requests_give_exact_times_and_too_few_of_them_none() -> None:
    of = report_of("overload_loaded").phases[0].whole
    assert of is not None
    assert of.ttft is not None
    assert of.itl is not None
    assert (of.ttft.whose, of.ttft.n) == ("own requests", 128)
    assert of.ttft.p99_s is None  # of 128 requests nothing can be said about p99
    assert isinstance(of.itl.p999_s, float)
    assert dict(of.server)["TTFT"].whose == "first token"


@pytest.mark.parametrize(("name", "shown_s"), [("overload_loaded", 1.573209), ("overload_seqs10", 0.198254)])
def test_p9999_of_the_gaps_is_the_gap_at_its_nearest_rank(name: str, shown_s: float) -> None:
    of = report_of(name).phases[0].whole
    assert of is not None
    assert of.itl is not None
    gaps_us: list[int] = []
    for request in session_of(name).load.phases[0].ended:
        gaps = request.gaps_us or ()
        if not request.warmup:
            for us, tokens in zip(gaps, request.gap_tokens or [1] * len(gaps), strict=True):
                gaps_us += [round(us / tokens)] * tokens
    rank = -(-len(gaps_us) * 9999 // 10_000)
    assert of.itl.p9999_s == sorted(gaps_us)[rank - 1] / 1e6 == shown_s


def test_p9999_is_a_column_of_the_phases_only_where_one_has_it() -> None:
    few = report_of("sweep_again")
    assert few.phases[0].whole is not None
    loaded, cut = phases.gaps(report_of("overload_loaded")), phases.gaps(replace(few, phases=few.phases[:1]))
    assert loaded is not None
    assert cut is not None
    assert "1.57 s" in dict(zip(loaded.head, loaded.rows[0], strict=True))["p99.99"]
    assert "p99.99" not in cut.head
    assert "p99.9" in cut.head
    assert all(len(row) == len(cut.head) for row in cut.rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_cut_at_any_byte_reports_what_it_holds(name: str, tmp_path: Path) -> None:
    packed = path_of(name)
    unpack = gzip.decompress if packed.suffix == ".gz" else zstandard.ZstdDecompressor().decompressobj().decompress
    whole = unpack(packed.read_bytes())
    start = whole.index(b"\n") + 1
    chance = Random(1)
    places = [start, start + 1, len(whole) - 1, *(chance.randrange(start, len(whole)) for _ in range(2))]
    for place in places:
        cut = tmp_path / f"{place}.jsonl"
        cut.write_bytes(whole[:place])
        report = made(cut)
        content = document([report])
        assert markdown(content).startswith("# vtop report")
        assert not report.closed


def test_a_compressed_recording_that_breaks_off_reports_too(tmp_path: Path) -> None:
    whole = path_of("overload_loaded").read_bytes()
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    report = made(cut)
    assert report.run is not None
    assert 0 < (report.run.preemptions or 0) < 37


def test_nothing_but_a_first_line_is_a_report_too(tmp_path: Path) -> None:
    first = gzip.decompress(path_of("overload").read_bytes()).split(b"\n")[0] + b"\n"
    path = tmp_path / "first.jsonl"
    path.write_bytes(first)
    report = made(path)
    assert (report.run, report.phases, report.sampling) == (None, (), ())
    assert "no request ran" in markdown(document([report]))
