"""Pages become lines: what is kept, under which names, and that nothing unknown is ever written."""

from __future__ import annotations

import math
import re
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtop.metrics.exposition import Parser
from vtop.metrics.page import FULL_EVERY_S, Folder, NotMetrics
from vtop.recording import HistogramCounts, Scrape, bounds, decode, encode
from vtop.server_kinds.registry import series_names
from vtop.server_kinds.vllm.series import SERIES

PAGES = sorted((Path(__file__).parent.parent / "scrapes").glob("*.txt"))


def folded(folder: Folder, text: str, at_s: float = 0.0) -> Scrape:
    scrape = folder.scrape(text, server=0, at_s=at_s, took_s=0.0, bytes=len(text), health=None)
    read = decode(encode(scrape))
    assert isinstance(read, Scrape)
    return read


def line(text: str) -> Scrape:
    return folded(Folder(series_names), text)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_page_is_kept_number_for_number(path: Path) -> None:
    """Each recorded scalar is on the page, and each histogram holds what the page's buckets hold."""
    text = path.read_text(encoding="utf-8")
    scrape = line(text)
    on_page: dict[str, list[float]] = {}
    for series, value in Parser().parse(text).samples:
        on_page.setdefault(series.name, []).append(value)
    assert scrape.full
    for name, number in scrape.values.items():
        family = name.partition("{")[0]
        assert SERIES.recorded(family)
        assert number in on_page[family] or (number is None and any(math.isnan(one) for one in on_page[family])), name
    for name, counts in scrape.hists.items():
        family = name.partition("{")[0]
        assert len(counts.n) == len(scrape.le[family]) + 1
        assert sum(counts.n) == counts.count
        assert counts.count in on_page[family + "_count"] or "http" in name
    wanted = {name for name in on_page if SERIES.recorded(name)}
    kept = {name.partition("{")[0] for name in scrape.values}
    kept |= {name.partition("{")[0] + end for name in scrape.hists for end in ("_bucket", "_sum", "_count")}
    assert wanted <= kept


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_line_holds_a_label_that_vtop_does_not_know(path: Path) -> None:
    scrape = line(path.read_text(encoding="utf-8"))
    for series in [*scrape.values, *scrape.hists]:
        for label, _ in Parser().parse(series + " 0").samples[0][0].labels:
            assert label in SERIES.kept_labels


def versions(text: str) -> list[str]:
    """A page, and what it may be a second later."""
    changed = re.sub(r"(?m)^(vllm:num_requests_running\{[^}]*\}|vllm:prompt_tokens_total\{[^}]*\}) \S+$", r"\1 7", text)
    lines = text.split("\n")
    return [
        text,
        changed,
        text.replace("_total{", "_total2{", 1),  # another series
        "\n".join([*lines[:-1], "new_line 1", ""]),
        "\n".join(lines[1:]),
        re.sub(r"(?m)^(vllm:num_requests_running\{[^}]*\}) \S+$", r"\1 NaN", text),
        re.sub(r"(?m)^(vllm:num_requests_running\{[^}]*\}) \S+$", r"\1 1_000", text),
        re.sub(r"(?m)^(vllm:num_requests_running\{[^}]*\}) \S+$", r"\1 3 1700000000", text),
        re.sub(r"(?m)^(vllm:num_requests_running\{[^}]*\}) \S+$", r"\1", text),
        "<html>",
        re.sub(r"(?m) \d+\.\d+$", " 1.0", text),  # every counter fell
        "\ufeff" + text,
        text,
    ]


@pytest.mark.parametrize("path", PAGES[::3], ids=lambda path: path.stem)
def test_a_page_of_which_only_the_changed_lines_are_read_gives_the_line_that_all_of_it_gives(path: Path) -> None:
    quick, whole = Folder(series_names), Folder(series_names)
    pages = versions(path.read_text(encoding="utf-8"))
    for turn, at in enumerate(Random(5).choices(range(len(pages)), k=40)):
        found: list[Scrape | str] = []
        for folder in (quick, whole):
            if folder is whole:
                folder._page = None  # it reads all of each
            try:
                scrape = folder.scrape(pages[at], server=0, at_s=float(turn), took_s=0.0, bytes=0, health=None)
                found.append(scrape)
            except NotMetrics as error:
                found.append(str(error))
        assert found[0] == found[1], (turn, at)


UNKNOWN_LABEL = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True).filter(
    lambda label: label not in SERIES.kept_labels and label != "le"
)
SECRET = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=4, max_size=30).map(
    lambda text: "SECRET" + text
)
FAMILY = st.sampled_from(["vllm:num_requests_running", "vllm:prompt_tokens_total", "vllm:new_thing", "other_thing"])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(FAMILY, st.dictionaries(UNKNOWN_LABEL, SECRET, max_size=3), st.booleans()), max_size=6),
    st.integers(0, 60),
)
def test_no_unknown_label_value_is_ever_written(series: list[tuple[str, dict[str, str], bool]], cut: int) -> None:
    lines = ["process_start_time_seconds 1"]
    for name, labels, histogram in series:
        quoted = [
            label + '="' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
            for label, value in labels.items()
        ]
        for end in ("_bucket", "_sum", "_count") if histogram else ("",):
            le = ['le="+Inf"'] if end == "_bucket" else []
            kept = ['engine="0"', *quoted, *le]
            lines.append(name + end + "{" + ",".join(kept) + "} 1")
    text = "\n".join(lines)
    cut_short = text[: max(len(lines[0]), len(text) - cut)]
    for page in (text + "\n", cut_short, text.replace("} 1", "} one"), text.replace("\\n", "\n")):
        scrape = Folder(series_names).scrape(page, server=0, at_s=0.0, took_s=0.0, bytes=0, health=None)
        assert b"SECRET" not in encode(scrape)


def test_an_unreadable_line_is_told_by_its_name_only() -> None:
    good = "process_start_time_seconds 1\n"
    assert line(good + "mssql 7710-3\n").first_bad == "mssql 7710-3"
    assert line(good + 'a_b{key="bob@corp"} x\n').first_bad == "a_b{…"
    assert line(good + 'tail of bob@corp"} 1 2 3\n').first_bad == ""
    assert line(good + "x" * 100 + "\n").first_bad == ""
    assert line(good + 'a_b{key="bob@corp"} x\n').bad_lines == 1


@pytest.mark.parametrize(
    ("page", "said"),
    [("", "it is empty"), ("<html><b>Sign in</b>", "'<html><b>Sign in</b>'"), ('{"error":"no"}', "error")],
)
def test_a_page_that_is_no_metrics_page_says_how_it_begins(page: str, said: str) -> None:
    with pytest.raises(NotMetrics, match=re.escape(said)):
        line(page)


def test_a_histogram_whose_name_ends_in_total_is_a_histogram() -> None:
    text = (
        "# TYPE vllm:iteration_tokens_total histogram\n"
        'vllm:iteration_tokens_total_bucket{engine="0",le="1.0"} 2\n'
        'vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} 5\n'
        'vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 6\n'
        'vllm:iteration_tokens_total_sum{engine="0"} 40\n'
        'vllm:iteration_tokens_total_count{engine="0"} 6\n'
    )
    for page in (text, text.partition("\n")[2]):  # with and without its TYPE
        scrape = line(page)
        assert scrape.values == {}
        assert scrape.hists == {
            'vllm:iteration_tokens_total{engine="0"}': HistogramCounts(sum=40, count=6, n=(2, 3, 1))
        }
        assert scrape.le == {"vllm:iteration_tokens_total": (1.0, 8.0)}


def test_the_only_model_is_left_out_of_the_series_and_told_once() -> None:
    scrape = line('vllm:num_requests_running{engine="0",model_name="org/m[awq]"} 3\n')
    assert scrape.values == {'vllm:num_requests_running{engine="0"}': 3}
    assert scrape.model == "org/m[awq]"


def test_a_second_model_does_not_rename_the_series_of_the_first() -> None:
    folder = Folder(series_names)
    first = 'vllm:num_requests_running{engine="0",model_name="a"} 3\n'
    folded(folder, first)
    both = folded(folder, first + 'vllm:num_requests_running{engine="0",model_name="b"} 4\n')
    assert both.values == {
        'vllm:num_requests_running{engine="0"}': 3,
        'vllm:num_requests_running{engine="0",model_name="b"}': 4,
    }
    assert both.model == "a"


def test_series_that_differ_in_dropped_labels_only_are_taken_together() -> None:
    scrape = line(
        'vllm:num_requests_running{engine="0",x="a"} 3\nvllm:num_requests_running{engine="0",x="b"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0",x="a"} 0.3\nvllm:kv_cache_usage_perc{engine="0",x="b"} 0.2\n'
    )
    assert scrape.values == {
        'vllm:num_requests_running{engine="0"}': 7,
        'vllm:kv_cache_usage_perc{engine="0"}': 0.3,
    }


PAGE = "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total {}\nvllm:num_requests_running {}\n"


def test_between_full_lines_only_what_changed_is_written() -> None:
    folder = Folder(series_names)
    assert folded(folder, PAGE.format(10, 1)).full
    scrape = folded(folder, PAGE.format(12, 1), 1.0)
    assert (scrape.full, scrape.values) == (False, {"vllm:prompt_tokens_total": 12})
    assert folded(folder, PAGE.format(12, 1), 2.0).values == {}


def test_a_line_is_full_every_minute_on_a_fall_on_another_layout_and_after_forgetting() -> None:
    folder = Folder(series_names)
    fulls = [folded(folder, PAGE.format(10 + k, 1), float(k)).full for k in range(130)]
    assert [k for k, full in enumerate(fulls) if full] == [0, FULL_EVERY_S, 2 * FULL_EVERY_S]
    assert folded(folder, PAGE.format(3, 1), 130.0).full  # a counter fell
    assert not folded(folder, PAGE.format(3, 0), 131.0).full  # a gauge may
    assert folded(folder, PAGE.format(3, 0) + "vllm:num_requests_waiting 1\n", 132.0).full
    assert folded(folder, PAGE.format(3, 0), 133.0).full
    folder.forget()
    assert folded(folder, PAGE.format(3, 0), 134.0).full


@pytest.mark.parametrize(
    "names",
    [[path for path in PAGES if path.stem.startswith(start)] for start in ("03", "06", "07", "08")] + [PAGES],
    ids=["preempt", "no stats", "api servers", "dp2", "all"],
)
def test_lines_applied_one_by_one_give_what_a_full_line_says(names: list[Path]) -> None:
    folder = Folder(series_names)
    values: dict[str, float | None] = {}
    hists: dict[str, HistogramCounts] = {}
    model = None
    for number, path in enumerate(names * 2):
        text = path.read_text(encoding="utf-8")
        scrape = folded(folder, text, float(number))
        if scrape.full:
            values, hists, model = {}, {}, scrape.model
        values |= scrape.values
        hists |= scrape.hists
        whole = line(text)
        if whole.model == model:
            assert (values, hists) == (whole.values, whole.hists)


def test_numbers_that_are_none_and_counts_that_are_absurd_are_written_as_strict_json() -> None:
    scrape = line(
        "vllm:num_requests_running NaN\nvllm:kv_cache_usage_perc +Inf\n"
        'vllm:e2e_request_latency_seconds_bucket{le="1.0"} 3\nvllm:e2e_request_latency_seconds_bucket{le="2.0"} NaN\n'
        'vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 1e300\nvllm:e2e_request_latency_seconds_sum NaN\n'
        "vllm:e2e_request_latency_seconds_count NaN\n"
        'vllm:request_queue_time_seconds_bucket{le="1.0"} 5\nvllm:request_queue_time_seconds_bucket{le="+Inf"} 4\n'
        "vllm:request_queue_time_seconds_count 5\nvllm:request_queue_time_seconds_sum 1\n"
    )
    assert scrape.values == {"vllm:num_requests_running": None, "vllm:kv_cache_usage_perc": None}
    e2e = scrape.hists["vllm:e2e_request_latency_seconds"]
    assert (e2e.sum, e2e.n[:2]) == (None, (3, 0))
    assert scrape.hists["vllm:request_queue_time_seconds"].n == (5, 0)


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-Inf", "1e308", "-1e308", "1e19", "-1e19", "-3"])
def test_whatever_number_stands_on_a_page_its_line_can_be_read_again(number: str) -> None:
    e2e = "vllm:e2e_request_latency_seconds"
    scrape = line(
        f'vllm:num_requests_running {number}\n{e2e}_bucket{{le="1.0"}} {number}\n{e2e}_bucket{{le="1e300"}} 1\n'
        f'{e2e}_bucket{{le="+Inf"}} {number}\n{e2e}_sum {number}\n{e2e}_count {number}\n'
    )
    assert bounds.wrong(msgspec.structs.replace(scrape, t=1.0)) is None
    assert scrape.values == {"vllm:num_requests_running": -3.0 if number == "-3" else None}


def test_created_series_and_foreign_families_are_not_recorded() -> None:
    scrape = line("vllm:prompt_tokens_created 1.7e9\npython_gc_objects 3\nprocess_open_fds 7\nvllm:new_thing 4\n")
    assert scrape.values == {"vllm:new_thing": 4}
