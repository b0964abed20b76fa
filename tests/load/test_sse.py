"""Events come out of a stream whole and unchanged, wherever it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtop.load.http.sse import EventStream, StreamEvent


def read(*pieces: bytes) -> list[StreamEvent]:
    stream = EventStream()
    return [event for piece in pieces for event in stream.feed(piece)] + stream.end()


def data(*pieces: bytes) -> list[bytes]:
    return [event.data for event in read(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_at_lf_cr_lf_and_cr(end: bytes) -> None:
    assert data(b'data: {"a":1}' + end * 2 + b"data: [DONE]" + end * 2) == [b'{"a":1}', b"[DONE]"]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_an_event_is_there_as_soon_as_its_blank_line_is(end: bytes) -> None:
    stream = EventStream()
    assert stream.feed(b"data: {}" + end[:-1]) == [] or end == b"\r\n\r\n"  # its last LF changes nothing any more
    assert len(EventStream().feed(b"data: {}" + end)) == 1


def test_a_carriage_return_at_the_end_of_a_read_is_not_two_lines() -> None:
    assert data(b"data: a\r", b"\n", b"\r", b"\ndata: b\r", b"\n\r\n") == [b"a", b"b"]


@pytest.mark.parametrize("line", [b"data: {}", b"data:{}"])
def test_the_space_after_the_colon_is_optional(line: bytes) -> None:
    assert data(line + b"\n\n") == [b"{}"]


def test_only_one_space_is_taken_off_and_nothing_is_stripped() -> None:
    assert data(b"data:   a \t\n\n") == [b"  a \t"]


def test_data_on_several_lines_is_joined() -> None:
    assert data(b"data: {\ndata: }\n\n") == [b"{\n}"]


def test_comments_and_unknown_fields_are_no_events() -> None:
    assert data(b": keep-alive\n\n:\n\nretry: 9\n\nfoo: bar\n\ndata: {}\n: ping\n\n\n\n") == [b"{}"]


def test_names_and_ids_belong_to_their_event_only() -> None:
    events = read(b'event: error\nid: 7\ndata: {"a":1}\n\n', b'data: {"b":1}\n\n')
    assert events == [StreamEvent(b'{"a":1}', b"error", b"7"), StreamEvent(b'{"b":1}')]


def test_empty_data_is_an_event_of_no_bytes() -> None:
    assert data(b"data:\n\ndata\n\n") == [b"", b""]


def test_a_name_before_the_fast_path_is_kept() -> None:
    assert read(b"event: error\n", b"data: {}\n\n") == [StreamEvent(b"{}", b"error")]


def test_a_byte_order_mark_is_passed_over_at_the_start_only() -> None:
    assert data(b"\xef", b"\xbb", b"\xbfdata: {}\n\n") == [b"{}"]
    assert data(b"data: {}\n\n\xef\xbb\xbfdata: {}\n\n") == [b"{}"]


def test_the_end_of_the_stream_completes_an_event() -> None:
    assert data(b"data: {}\n") == data(b"data: {}") == [b"{}"]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c"])
def test_no_other_character_ends_a_line(mark: str) -> None:
    line = f'data: {{"text":"a{mark}b"}}\n\n'.encode()
    assert data(line) == data(*(line[n : n + 1] for n in range(len(line)))) == [line[6:-2]]


def test_many_events_in_one_read() -> None:
    assert data(b'data: {"n":1}\n\n' * 1000) == [b'{"n":1}'] * 1000


LINES = st.sampled_from(
    [
        b'data: {"choices":[{"text":"a"}]}',
        'data: {"text":"日本\u2028🙂"}'.encode(),
        b"data:{}",
        b"data: [DONE]",
        b"data",
        b": ping",
        b":",
        b"event: error",
        b"id: 7",
        b"",
        b"\xef\xbb\xbf",
        b"{}",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r", b""])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda lines: b"".join(a + b for a, b in lines))


@given(STREAMS | st.binary(max_size=80) | st.text("ad:t \r\n{}\ufeff", max_size=60).map(str.encode), st.data())
def test_where_a_stream_is_cut_changes_nothing(stream: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(stream)))))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    by_byte = [stream[n : n + 1] for n in range(len(stream))]
    assert read(stream) == read(*pieces) == read(*by_byte)


@given(st.lists(st.binary(max_size=30)))
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    read(*pieces)
