"""A line has exactly its width, text is never markup, and a number is whole or absent."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from vtop.draw.text import Column, Line, Phrase, heading, line, phrases, shorten, table, wrapped
from vtop.draw.theme import clean, load

LOOK = load("dark")
PLAIN = load("dark", ascii=True, colour=False)
TEXT = st.text(st.characters(), max_size=40)


def shown(drawn: Line) -> str:
    return "".join(segment.text for segment in drawn)


@given(st.lists(TEXT, max_size=5), st.integers(0, 60))
def test_every_line_has_exactly_the_width(texts: list[str], width: int) -> None:
    for look in (LOOK, PLAIN):
        drawn = line(look, width, *((text, "text") for text in texts))
        assert cell_len(shown(drawn)) == width
        items = [Phrase(at, ((text, "text"),)) for at, text in enumerate(texts)]
        assert cell_len(shown(phrases(look, width, items, items[:1]))) == width
        if width >= 10 and texts:
            assert cell_len(shown(heading(look, width, texts[0], texts[1:]))) == width


@given(TEXT)
def test_untrusted_text_is_harmless(text: str) -> None:
    safe = clean(text)
    assert safe.isprintable()
    safe.encode("utf-8")
    assert PLAIN.say(text).isascii()
    assert PLAIN.say(text).isprintable()


def test_brackets_are_shown_literally() -> None:
    for name in ("org/model[awq]", "/m/[/x]", "[/]", "[link=x]", "[Errno 111] refused"):
        assert shown(line(LOOK, 40, (name, "title"))).strip() == name


def test_controls_and_surrogates_are_shown_as_signs() -> None:
    assert clean("a\x1b[31mb\x00\ud800\u202e\nc") == "a�[31mb��� c"


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=6), st.integers(1, 50))
def test_no_number_is_cut(numbers: list[int], width: int) -> None:
    text = " · ".join(f"room {number:,}" for number in numbers)
    whole = {f"{number:,}" for number in numbers}
    assert set(re.findall(r"\d[\d,]*", shorten(text, width))) <= whole
    items = [Phrase(at, (("room ", "dim"), (f"{number:,}", "number"))) for at, number in enumerate(numbers)]
    assert set(re.findall(r"\d[\d,]*", shown(phrases(LOOK, width, items)))) <= whole


def test_a_long_word_is_cut_but_not_in_its_number() -> None:
    assert shorten("qwen2.5-7b-instruct", 6) == "qwen…"
    assert shorten("qwen2.5-7b-instruct", 12) == "qwen2.5-7b…"
    assert shorten("86,896", 4) == "…"
    assert shorten("room 86,896 tok", 10) == "room…"


def test_ascii_says_the_same() -> None:
    assert PLAIN.say("10.6 × 8,192 · ≈ 52 s – ≤ 41 °C → −1 µs") == "10.6 x 8,192 | ~ 52 s - <= 41 C -> -1 us"


def test_the_least_important_phrase_goes_first() -> None:
    items = [Phrase(0, (("first", "text"),)), Phrase(2, (("least", "text"),)), Phrase(1, (("second", "text"),))]
    assert shown(phrases(LOOK, 16, items)).strip() == "first · second"
    assert shown(phrases(LOOK, 20, items[:1], [Phrase(0, (("end", "text"),))])) == "first            end"


def test_wide_characters_are_not_halved() -> None:
    assert shown(line(LOOK, 6, ("模型模型模型", "text"))) == "模型… "


def test_a_table_leaves_out_whole_columns() -> None:
    columns = (Column("", 4, right=False), Column("mean", 8), Column("n", 4, rank=1))
    rows = [[("TTFT", "text"), ("48.1 s", "number"), ("23", "dim")]]
    assert shown(table(LOOK, 20, columns, rows)[1]) == "TTFT    48.1 s    23"
    assert shown(table(LOOK, 15, columns, rows)[1]) == "TTFT    48.1 s "


def test_a_heading_keeps_its_first_notes_longest() -> None:
    notes = ("stands since 1:37", "last 1:37")
    assert shown(heading(LOOK, 50, "KV", notes)) == "─ KV " + "─" * 13 + " stands since 1:37 · last 1:37 ─"
    assert shown(heading(LOOK, 34, "KV", notes)) == "─ KV " + "─" * 9 + " stands since 1:37 ─"
    assert shown(heading(LOOK, 20, "KV", notes)) == "─ KV " + "─" * 15


@given(
    st.lists(st.text("ab 1", min_size=1, max_size=30), min_size=1, max_size=5), st.integers(4, 60), st.integers(1, 4)
)
def test_wrapped_phrases_take_no_more_lines_than_they_may(texts: list[str], width: int, rows: int) -> None:
    items = [Phrase(at, ((text, "text"),)) for at, text in enumerate(texts)]
    laid = wrapped(LOOK, width, rows, items)
    assert 1 <= len(laid) <= rows
    whole = "".join(text for text in texts).replace(" ", "")
    said = "".join(text for one in laid for text, _ in one).replace(" ", "").replace("·", "")
    assert all(letter in whole for letter in said)
    if sum(len(text) for text in texts) + 3 * len(texts) <= width:
        assert laid[0] == [piece for item in items for piece in ((" · ", "dim"), *item.pieces)][1:]


def test_phrases_are_wrapped_between_each_other_and_in_themselves_only_when_longer_than_a_line() -> None:
    items = [Phrase(0, (("one two three", "mark"),)), Phrase(1, (("four", "text"), (" five", "dim")))]
    assert wrapped(LOOK, 15, 2, items) == [[("one two three", "mark")], [("four", "text"), (" five", "dim")]]
    assert wrapped(LOOK, 15, 1, items) == [[("one two three", "mark")]]
    said = ["".join(text for text, _ in one) for one in wrapped(LOOK, 8, 2, items)]
    assert said == ["one two", "three"], "the second phrase has no room"
    assert wrapped(LOOK, 8, 1, items) == [[("one two three", "mark")]], "a line shortens what is left"
