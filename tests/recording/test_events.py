"""Lines and events: strict JSON both ways, and nothing unknown is lost."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtop.recording import (
    Event,
    Gpu,
    Identity,
    Mark,
    Note,
    Scrape,
    Start,
    Unknown,
    decode,
    encode,
)

KINDS = sorted(Event.__subclasses__(), key=lambda kind: kind.__name__)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, as msgspec tells it."""
    match hint:
        case msgspec.inspect.FloatType():
            return FLOATS
        case msgspec.inspect.IntType():
            return st.integers(-(2**53), 2**53)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.StrType() | msgspec.inspect.AnyType():
            return TEXTS
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.UnionType():
            return st.one_of([values_of(one) for one in hint.types])
        case msgspec.inspect.VarTupleType():
            return st.lists(values_of(hint.item_type), max_size=3).map(tuple)
        case msgspec.inspect.TupleType():
            return st.tuples(*[values_of(one) for one in hint.item_types])
        case msgspec.inspect.DictType():
            return st.dictionaries(TEXTS, values_of(hint.value_type), max_size=3)
        case msgspec.inspect.ListType():
            return st.lists(values_of(hint.item_type), max_size=3)
        case msgspec.inspect.StructType():
            fields = {field.name: values_of(field.type) for field in hint.fields}
            return st.builds(hint.cls, **fields)
    raise NotImplementedError(hint)


EVENTS = st.one_of([values_of(msgspec.inspect.type_info(kind)) for kind in KINDS])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(EVENTS)
def test_every_event_comes_back_as_it_was(event: Event) -> None:
    line = encode(event)
    assert b"\n" not in line
    assert decode(line) == event
    assert encode(decode(line)) == line


def _strict(line: bytes) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(line, parse_constant=refuse)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_a_number_is_never_written(value: float) -> None:
    scrape = Scrape(server=0, at_s=0.0, took_s=0.0, bytes=1, values={"a": value, "NaN": 1.0})
    written = _strict(encode(scrape))
    assert written["values"] == {"a": None, "NaN": 1.0}
    read = decode(encode(scrape))
    assert isinstance(read, Scrape)
    assert read.values["a"] is None
    assert encode(Note(source="gpu", text="NaN and Infinity")).count(b"NaN and Infinity") == 1


@pytest.mark.parametrize("line", [b'{"type":"thought","t":3.5,"x":[1,{"y":null}]}', b'{ "t": 2, "type": "thought" }'])
def test_an_unknown_type_is_kept_and_written_back_byte_for_byte(line: bytes) -> None:
    event = decode(line)
    assert isinstance(event, Unknown)
    assert event.t in (3.5, 2)
    assert encode(event) == line


def test_unknown_fields_of_a_known_type_are_no_error() -> None:
    assert decode(b'{"type":"mark","t":1,"text":"x","colour":"red"}') == Mark(t=1.0, text="x")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"12",
        b"null",
        b"{}",
        b'{"type":"mark","t":"1"}',
        b'{"type":"mark","t":1e999}',
        b'{"type":"x"}',
        b"\x00\x01",
        b"\xff\xfe",
        b'{"type":"mark","t":0,"text":"\xff"}',
        b"[" * 200_000,
        b"<html>",
        b'{"type":3,"t":1}',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_a_line_that_is_no_event_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line)


def test_half_a_character_is_replaced_not_fatal() -> None:
    start = Start(format=1, vtop="x", unix_s=0.0, servers=(), interval_s=1.0, argv=("vtop", "caf\udce9.jsonl"))
    read = decode(encode(start))
    assert isinstance(read, Start)
    assert read.argv == ("vtop", "caf?.jsonl")
    identity = Identity(server=0, models=("ok", "\ud800"), max_model_len=5)
    assert decode(encode(identity)) == Identity(server=0, models=("ok", "?"), max_model_len=5)


def test_a_gpu_field_that_is_not_known_is_not_written() -> None:
    line = encode(decode(b'{"type":"gpu","t":0,"at_s":0,"took_s":0,"gpus":[{"index":0,"uuid":"u","power_w":null}]}'))
    assert b"power_w" not in line
    read = decode(line)
    assert isinstance(read, Gpu)
    assert read.gpus[0].power_w is None
