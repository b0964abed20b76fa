"""A person's file becomes requests: prompts, lengths, instants; what cannot be read is told in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vtop.errors import VtopError
from vtop.load.workload.dataset import Item, look_for, parse, read
from vtop.load.workload.phase import PlannedPhase
from vtop.load.workload.spec import phases


def one(text: str) -> PlannedPhase:
    (phase,) = phases([text])
    return phase


def parsed(text: str, phase: str = "c=1 dataset=d") -> tuple[Item, ...]:
    return parse(text.encode(), one(phase), "d.jsonl")


SHAREGPT = [
    {"id": "a", "conversations": [{"from": "human", "value": "First?"}, {"from": "gpt", "value": "Yes."}]},
    {"id": "b", "conversations": []},
    {"id": "c", "conversations": [{"from": "system", "value": "x"}, {"from": "user", "value": "Second?"}]},
]


@pytest.mark.parametrize("indent", [None, 2])
def test_sharegpt_gives_the_first_question_of_each_conversation(indent: int | None) -> None:
    assert [item.text for item in parsed(json.dumps(SHAREGPT, indent=indent))] == ["First?", "Second?"]


def test_sharegpt_may_come_in_lines_and_with_a_byte_order_mark() -> None:
    text = "\ufeff" + "\r\n".join(map(json.dumps, SHAREGPT))
    assert [item.text for item in parsed(text)] == ["First?", "Second?"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "truncated"),
        ("hello", "malformed"),
        ("[1]", "Expected `object`"),
        ('{"text": "a"}', 'neither "prompt" nor "input"'),
        ('{"prompt": ""}', "the prompt is empty"),
        ('{"prompt": 7}', "$.prompt"),
        ('{"input": "7"}', "$.input"),
        ('{"input": 0}', "a prompt of 0 tokens; write 1 or more"),
        ('{"input": 5, "output": 0}', "an output of 0 tokens; write 1 or more"),
        ('{"input": 600, "hash_ids": [1, 2, 3]}', "3 hash_ids of 512 tokens are more than 600 tokens; write block="),
    ],
)
def test_a_malformed_line_is_named_by_its_number(line: str, what: str) -> None:
    with pytest.raises(VtopError) as raised:
        parsed('{"prompt": "a"}\n\n' + line + '\n{"prompt": "b"}')
    assert str(raised.value).startswith("d.jsonl line 3: ")
    assert what in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_malformed_entry_is_named_by_its_number() -> None:
    with pytest.raises(VtopError, match=r"d\.jsonl entry 2: .*\$\.conversations"):
        parsed(json.dumps([SHAREGPT[0], {"conversations": 3}]))
    with pytest.raises(VtopError, match=r"d\.jsonl: .*expected a JSON array"):
        parsed('[{"prompt": "a"}, {"pro')


@pytest.mark.parametrize("text", ["", "  \n", "[]", '[{"conversations": []}]'])
def test_a_file_without_a_request_is_an_error(text: str) -> None:
    with pytest.raises(VtopError, match=r"d\.jsonl: no request in it"):
        parsed(text)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VtopError, match="no such file or directory; expected a file of requests"):
        read(one(f"c=1 dataset={tmp_path}/none.jsonl"))
    file = tmp_path / "a, b.jsonl"
    file.write_text('{"prompt": "a"}')
    assert read(one(f'c=1 dataset="{file}"')) == (Item(text="a"),)
    assert read(one("c=1")) == ()


TRACE = """{"timestamp": 2000, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 3]}
{"timestamp": 0, "input_length": 1300, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 500.5, "input_length": 700, "output_length": 9}
{"timestamp": 500.5, "input_length": 1400, "output_length": 9, "hash_ids": [0]}
"""


def test_a_trace_is_read_in_the_order_of_its_times() -> None:
    items = parsed(TRACE, "trace=t")
    assert [item.at_s for item in items] == [0, 0.5005, 0.5005, 2.0]
    assert [(item.input_tokens, item.output_tokens) for item in items] == [(1300, 500), (700, 9), (1400, 9), (1100, 5)]


def test_a_trace_lacks_nothing() -> None:
    for line in ('{"input_length": 5, "output_length": 5}', '{"timestamp": 5, "input_length": 5}'):
        with pytest.raises(
            VtopError, match=r"d\.jsonl line 1: a trace's line has timestamp \(ms\) or timestamp_s, and"
        ):
            parsed(line, "trace=t")


@pytest.mark.parametrize(("field", "instant"), [("timestamp", 1500), ("timestamp_s", 1.5), ("arrival_s", 1.5)])
def test_the_name_of_an_instant_says_its_unit(field: str, instant: float) -> None:
    (item,) = parsed(json.dumps({field: instant, "input_length": 5, "output_length": 5}), "trace=t")
    assert item.at_s == 1.5


def test_an_instant_that_is_a_date_is_refused_with_what_to_write() -> None:
    line = '{"timestamp": "2023-11-16 18:15:46.680590", "input_length": 5, "output_length": 5}'
    with pytest.raises(VtopError, match=r"d\.jsonl line 1: the timestamp is a text; write timestamp_s, seconds"):
        parsed(line, "trace=t")
    assert parsed(line) == (Item(input_tokens=5, output_tokens=5),)  # without its times


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n",
    ],
)
def test_a_trace_in_csv_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(VtopError) as raised:
        parsed(text, "trace=t")
    assert str(raised.value) == (
        "d.jsonl: its first line is not JSON (a CSV file?); "
        'write lines such as {"timestamp_s": 1.5, "input_length": 1024, "output_length": 256}'
    )


def test_files_are_looked_for_before_anything_begins(tmp_path: Path) -> None:
    (tmp_path / "here.jsonl").write_text("never read")
    look_for(phases([f"c=1 dataset={tmp_path}/here.jsonl", "c=1"]))
    for spec in (f"trace={tmp_path}/none.jsonl", f"c=1 dataset={tmp_path}"):
        with pytest.raises(VtopError, match="expected a file of requests"):
            look_for(phases([spec]))
