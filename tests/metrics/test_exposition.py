"""A page is read as prometheus_client reads it, and where that gives up only the bad lines are lost."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from vtop.metrics import exposition
from vtop.metrics.exposition import MAX_LABEL_CHARS, Page, Parser, SeriesKey

PAGES = sorted((Path(__file__).parent.parent / "scrapes").glob("*.txt"))

Read = tuple[str, tuple[tuple[str, str], ...], str]


def samples(text: str) -> dict[SeriesKey, float]:
    return dict(Parser().parse(text).samples)


def read_by_vtop(page: Page) -> list[Read]:
    return [(series.name, series.labels, repr(value)) for series, value in page.samples]


def read_by_prometheus_client(text: str) -> list[Read]:
    return [
        (sample.name, tuple(sample.labels.items()), repr(float(sample.value)))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_real_page_reads_as_prometheus_client_reads_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    page = Parser().parse(text)
    assert read_by_vtop(page) == read_by_prometheus_client(text)
    assert (page.bad_lines, page.first_bad) == (0, "")


def test_pages_of_many_servers_through_one_parser_read_the_same() -> None:
    parser = Parser()
    for path in PAGES * 2:
        text = path.read_text(encoding="utf-8")
        assert read_by_vtop(parser.parse(text)) == read_by_vtop(Parser().parse(text))


def test_a_series_is_the_same_object_on_every_page() -> None:
    parser = Parser()
    first = parser.parse('a{x="1"} 1\nb 2\n')
    second = parser.parse('b 3\na{x="1"} 4\n')
    assert second.samples[0][0] is first.samples[1][0]
    assert second.samples[1][0] is first.samples[0][0]


def test_types_come_by_family_name_as_on_the_page() -> None:
    text = (
        "# TYPE vllm:iteration_tokens_total histogram\n# TYPE a_total counter\n"
        "# TYPE b gauge\n# TYPE c summary\n# TYPE d untyped\n# TYPE e stateset\n# TYPE cut\n"
    )
    page = Parser().parse(text)
    assert page.types == {
        "vllm:iteration_tokens_total": "histogram",
        "a_total": "counter",
        "b": "gauge",
        "c": "summary",
        "d": "untyped",
        "e": "unknown",
    }
    assert page.bad_lines == 0


def test_types_follow_a_page_that_changes() -> None:
    parser = Parser()
    first = parser.parse("# TYPE a gauge\na 1\n")
    second = parser.parse("# TYPE a counter\na 1\n")
    assert (first.types, second.types) == ({"a": "gauge"}, {"a": "counter"})


def test_labels_may_hold_quotes_braces_commas_and_escapes() -> None:
    assert samples(r'g{a="{x,y=\"1\"}",b="c\\d\ne } 3"} 2') == {
        SeriesKey("g", (("a", '{x,y="1"}'), ("b", "c\\d\ne } 3"))): 2
    }
    assert samples(r'g{a="ends with a backslash\\",b="# \d",} 2') == {
        SeriesKey("g", (("a", "ends with a backslash\\"), ("b", r"# \d"))): 2
    }


def test_a_label_may_hold_what_other_programs_take_for_a_line_end() -> None:
    assert samples('g{a="x\u2028y\x85z"} 2\n') == {SeriesKey("g", (("a", "x\u2028y\x85z"),)): 2}


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("+Inf", math.inf),
        ("-Inf", -math.inf),
        ("1e+09", 1e9),
        ("-0.5", -0.5),
        ("7", 7.0),
        ("1.7959554e+09", 1.7959554e9),
    ],
)
def test_numbers(number: str, value: float) -> None:
    assert samples(f"a {number}\n") == {SeriesKey("a", ()): value}


def test_nan_is_a_sample() -> None:
    ((_, value),) = Parser().parse('vllm:kv_cache_usage_perc{engine="0"} NaN\n').samples
    assert math.isnan(value)


@pytest.mark.parametrize(
    "line",
    [
        'h{le="0.1"} 1',
        'h{le="0.1"} 1 # {trace_id="a"} 0.05 1.7e9',
        'h{le="0.1"} 1 # {trace_id="a b # c"} 0.05',
        'h{le="0.1"} 1 1795956212882',
        'h{le="0.1"} 1 1795956212.882 # {trace_id="a"} 0.05',
        'h{le="0.1"} 1\r',
        '  h {  le = "0.1" , }\t1.0  ',
        'h{le="0.1"}1',
    ],
)
def test_what_stands_around_a_value_does_not_change_it(line: str) -> None:
    parser = Parser()
    for text in (line, f"# TYPE h histogram\n{line}\n# EOF\n", f'h{{le="0.1"}} 1\n{line}'):
        page = parser.parse(text)
        assert set(page.samples) == {(SeriesKey("h", (("le", "0.1"),)), 1.0)}
        assert page.bad_lines == 0


def test_a_page_with_windows_line_ends_reads_the_same() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    parser = Parser()
    for _ in range(2):
        page = parser.parse(text.replace("\n", "\r\n"))
        assert read_by_vtop(page) == read_by_vtop(Parser().parse(text))
        assert page.types == Parser().parse(text).types
        assert page.bad_lines == 0


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    page = Parser().parse("\ufeffa 1\n")
    assert page.samples == ((SeriesKey("a", ()), 1.0),)
    assert page.bad_lines == 0


def test_a_junk_line_loses_only_itself() -> None:
    page = Parser().parse("# TYPE a gauge\na 1\nmssql 7710-3\nb 2\n")
    assert page.samples == ((SeriesKey("a", ()), 1.0), (SeriesKey("b", ()), 2.0))
    assert (page.bad_lines, page.first_bad) == (1, "mssql 7710-3")


def test_a_page_cut_inside_a_label_loses_only_its_last_line() -> None:
    page = Parser().parse('a{x="1"} 1\na{x="2"} 2\na{x="3')
    assert [value for _, value in page.samples] == [1.0, 2.0]
    assert (page.bad_lines, page.first_bad) == (1, 'a{x="3')


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a one",
        "a 1 two",
        "a 1 2 3",
        "a 1_000",
        "a # 1",
        "a-1 5",
        "a{} ",
        "a{x=1} 1",
        "a{x} 1",
        'a{x="1" 1',
        'a{x="1"y="2"} 1',
        'a{x="1",,y="2"} 1',
        'a{x="1",x="2"} 1',
        'a{1x="1"} 1',
        r'a{x="1\"} 1',
        '{x="1"} 1',
        "1a 1",
    ],
)
def test_a_line_that_is_no_sample_is_counted(line: str) -> None:
    parser = Parser()
    parser.parse('a 1\na{} 1\na{x="1"} 1\n')
    page = parser.parse(f"good 1\n{line}\n")
    assert page.samples == ((SeriesKey("good", ()), 1.0),)
    assert (page.bad_lines, page.first_bad) == (1, line.strip())


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("<!doctype html>\n<html><body>Log in</body></html>\n", "<!doctype html>"),
        (
            '{"error": {"message": "Unauthorized", "code": 401}}',
            '{"error": {"message": "Unauthorized", "code": 401}}',
        ),
    ],
)
def test_what_is_no_metrics_page_has_no_samples_and_an_excerpt(text: str, excerpt: str) -> None:
    page = Parser().parse(text)
    assert page.samples == ()
    assert page.bad_lines > 0
    assert page.first_bad == excerpt


def test_the_excerpt_is_short_and_harmless_on_a_terminal() -> None:
    page = Parser().parse("\n\x1b[2J\x07\u202egone" + "x" * 100 + "\nsecond\n")
    assert page.first_bad == "\ufffd[2J\ufffd\ufffdgone" + "x" * 50
    assert page.bad_lines == 2


@pytest.mark.parametrize("unit", ["x", r"\"", "\\\\", '{\\"k\\": 1},'], ids=["x", "quote", "backslash", "json"])
def test_a_huge_label_is_cut_and_not_remembered(unit: str) -> None:
    huge = unit * 100_000
    parser = Parser()
    for _ in range(2):
        page = parser.parse(f'x_info{{a="1",cfg="{huge}",z="2"}} 1\na 3\n')
        (info, one), (a, three) = page.samples
        labels = dict(info.labels)
        assert (one, a, three, page.bad_lines) == (1.0, SeriesKey("a", ()), 3.0, 0)
        assert (labels["a"], labels["z"]) == ("1", "2")
        assert len(labels["cfg"]) <= MAX_LABEL_CHARS
        assert labels["cfg"].endswith("…")
    assert sum(map(len, parser._young)) < 100


def test_ever_changing_labels_do_not_grow_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "_MEMO_CHARS", 1_000)
    parser = Parser()
    (steady,) = (series for series, _ in parser.parse("steady 0\n").samples)
    for i in range(500):
        page = parser.parse(f'steady {i}\nrequest{{id="{i}"}} 1\n')
        assert page.samples[0] == (steady, float(i))
        assert page.samples[0][0] is steady
        assert len(parser._young) + len(parser._old) < 150


@given(st.text(st.characters() | st.sampled_from('\ud800\x00\r\n\n\n {}=",\\#_.01aeNif:')))
@settings(deadline=None)
def test_no_text_raises(text: str) -> None:
    parser = Parser()
    first = parser.parse(text)
    second = parser.parse(text)
    assert read_by_vtop(first) == read_by_vtop(second)
    assert first.bad_lines == second.bad_lines
    assert len(first.samples) + first.bad_lines <= text.count("\n") + 1
    assert (first.first_bad == "") == (first.bad_lines == 0)


@given(st.data())
@settings(deadline=None)
def test_no_damage_to_a_page_raises_or_reaches_beyond_the_damage(data: st.DataObject) -> None:
    lines = [f'h_bucket{{le="{i}",m="a\\"b"}} {i} # {{t="x"}} 0.5' if i % 3 else f"c {i}.5" for i in range(9)]
    whole = Parser().parse("\n".join(lines)).samples
    broken = data.draw(st.integers(0, 8))
    junk = data.draw(st.text(st.characters(exclude_characters="\n")))
    at = data.draw(st.integers(0, len(lines[broken])))
    lines[broken] = lines[broken][:at] + junk + lines[broken][at + data.draw(st.integers(0, 9)) :]
    left = Parser().parse("\n".join(lines)).samples
    assert left[:broken] == whole[:broken]
    after = 8 - broken
    assert after == 0 or left[-after:] == whole[-after:]


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,9}", fullmatch=True)
serieses = st.builds(
    lambda name, labels: SeriesKey(name, tuple(labels.items())),
    names,
    st.dictionaries(label_names, st.text(max_size=20), max_size=4),
)


def as_line(series: SeriesKey, value: float) -> str:
    escaped = (
        (name, text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, text in series.labels
    )
    labels = ",".join(f'{name}="{text}"' for name, text in escaped)
    return f"{series.name}{{{labels}}} {value!r}" if labels else f"{series.name} {value!r}"


@given(st.lists(st.tuples(serieses, st.floats())))
@settings(deadline=None)
def test_a_page_written_and_read_is_the_same_page(written: list[tuple[SeriesKey, float]]) -> None:
    text = "".join(as_line(series, value) + "\n" for series, value in written)
    parser = Parser()
    for _ in range(2):
        page = parser.parse(text)
        assert [(series, repr(value)) for series, value in page.samples] == [(s, repr(v)) for s, v in written]
        assert page.bad_lines == 0
