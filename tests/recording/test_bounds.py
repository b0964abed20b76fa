"""A damaged line costs itself: numbers that cannot be, nesting, a line without end, bytes that hold far more bytes."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.recording.test_recording import START, notes, read, texts
from vtop.errors import VtopError
from vtop.recording import (
    Event,
    FileRecording,
    Gpu,
    Host,
    Identity,
    Load,
    LoadHost,
    Mark,
    Outage,
    Request,
    Scrape,
    encode,
)
from vtop.session.session import Session

GOOD = (Mark(t=1.0, text="before"), Mark(t=3.0, text="after"), Mark(t=4.0, text="last"))
SCRAPE = Scrape(t=2.0, server=0, at_s=1.5, took_s=0.1, bytes=10)
REQUEST = Request(t=2.0, id=1, phase=-1, sent_s=1.0, first_s=1.5, last_s=1.5, end_s=1.9)


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may have 1 MiB, so that it does not take a second to make a longer one."""
    monkeypatch.setattr("vtop.recording.recording._LONGEST_LINE", 1 << 20)


def file_of(tmp_path: Path, *middle: Event | bytes) -> Path:
    path = tmp_path / "a.jsonl"
    between = [one if isinstance(one, bytes) else encode(one) for one in middle]
    path.write_bytes(b"\n".join([encode(START), encode(GOOD[0]), *between, *map(encode, GOOD[1:])]) + b"\n")
    return path


def changed(event: Event, **fields: Any) -> bytes:
    return json.dumps(json.loads(encode(event)) | fields).encode()


SENDER = LoadHost(t=2.0, host=0, name="gpu7", at_s=1.0, workers=(0,), offset_s=5.0, rtt_s=0.001, phase=0)


@pytest.mark.parametrize(
    "line",
    [
        changed(SCRAPE, t=1e17),
        changed(SCRAPE, t=-1e17),
        changed(SCRAPE, at_s=1e306),
        changed(SCRAPE, at_s=1e8),
        changed(SCRAPE, took_s=-1.0),
        changed(SCRAPE, took_s=1e300),
        changed(SCRAPE, bytes=10**30),
        changed(SCRAPE, hists={"h": {"sum": 1.0, "count": 1e300, "n": [1]}}),
        changed(SCRAPE, hists={"h": {"sum": 1.0, "count": 1, "n": [10**30]}}),
        changed(SCRAPE, hists={"h": {"sum": 1.0, "count": -1, "n": [-1]}}),
        changed(SCRAPE, values={"vllm:num_requests_running": 1e308}),
        changed(SCRAPE, values={"vllm:num_requests_running": -1e19, "vllm:num_requests_waiting": None}),
        changed(SCRAPE, hists={"h": {"sum": -1e308, "count": 1, "n": [1]}}),
        changed(SCRAPE, full=True, le={"h": [0.5, 1e300]}),
        changed(SCRAPE, full=True, le={"h": [0.5, 2.0, 1.0]}),
        changed(SCRAPE, full=True, le={"h": [0.5, 0.5]}),
        *(changed(REQUEST, **{stamp: 1e306}) for stamp in ("due_s", "sent_s", "first_s", "last_s", "end_s")),
        changed(REQUEST, first_s=5000.0),
        changed(REQUEST, output_tokens=10**30),
        changed(REQUEST, output_tokens=-3),
        changed(REQUEST, prompt_tokens=10**4000),
        changed(REQUEST, gaps_us=[10**30]),
        changed(REQUEST, gap_tokens=[-1]),
        changed(Outage(t=2.0, server=0, at_s=1.0, took_s=0.0, reason="reset"), at_s=1e17),
        changed(Gpu(t=2.0, at_s=1.0, took_s=0.0, gpus=()), at_s=-1e17),
        changed(Gpu(t=2.0, at_s=1.0, took_s=0.0, gpus=()), gpus=[{"index": 0, "power_w": 1e308}]),
        changed(Host(t=2.0, at_s=1.0), at_s=1e17),
        changed(SENDER, offset_s=1e17),
        changed(SENDER, rtt_s=-1.0),
        changed(SENDER, host=-1),
        changed(Host(t=2.0, at_s=1.0), cpu_ratio=1e200),
        changed(Identity(t=2.0, server=0), max_model_len=10**30),
        changed(Identity(t=2.0, server=0), shape={"num_hidden_layers": 10**300}),
        changed(REQUEST, connect_s=1e308),
        changed(Load(t=2.0, phase=0, state="begin", spec="c=1", shape="closed"), phase=-1),
        changed(Load(t=2.0, phase=0, state="begin", spec="c=1", shape="closed"), for_s=1e300),
        b'{"type":"later","t":2,"deep":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"type":"mark","t":2,"deep":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b"[" * 200_000,
        b"x" * 1_500_000,
    ],
    ids=lambda line: line[:60].decode() if len(line) < 1000 else f"{line[:20].decode()}… {len(line)}",
)
def test_a_line_that_cannot_be_is_left_out_with_a_note(line: bytes, tmp_path: Path, short_lines: None) -> None:
    path = file_of(tmp_path, line)
    events = read(path)
    assert texts(events) == ["before", "after", "last"]
    (note,) = notes(events)
    assert note.startswith("line 3 ")
    assert note.endswith("left out")
    session = Session(START)
    for event in events:
        session.apply(event)
    session.frame(session.end_s)


@pytest.mark.parametrize("t", [50.0, 12_577.0, 9e8])
def test_one_t_too_large_pulls_no_later_line_along(t: float, tmp_path: Path) -> None:
    events = read(file_of(tmp_path, Mark(t=t, text="odd")))
    assert [(event.t, event.text) for event in events if isinstance(event, Mark)] == [
        (1.0, "before"),
        (1.0, "odd"),
        (3.0, "after"),
        (4.0, "last"),
    ]
    assert notes(events) == [f"line 3 is later ({t:.6g} s) than all around it, taken as of before"]


def test_a_first_line_with_a_wild_t_is_a_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([changed(START, t=1e17), *map(encode, GOOD)]) + b"\n")
    assert texts(read(path)) == ["before", "after", "last"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"servers": []}, "names no server"),
        ({"servers": [{"url": "http://a"}] * 10_001}, "10,001 of them"),
        ({"interval_s": 0}, "is no interval"),
        ({"interval_s": 1e300}, "is no interval"),
        ({"unix_s": 1e300}, "is no date"),
        ({"unix_s": -5}, "is no date"),
    ],
)
def test_a_first_line_that_cannot_be_is_no_recording(fields: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(changed(START, **fields) + b"\n")
    with pytest.raises(VtopError, match=why):
        FileRecording(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_few_bytes_that_hold_far_more_take_no_memory(suffix: str, tmp_path: Path, short_lines: None) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    head, tail = encode(START) + b"\n", b"\n" + encode(GOOD[1]) + b"\n"
    if suffix == ".gz":
        zeros = gzip.compress(bytes(1 << 25), 9, mtime=0)
        path.write_bytes(gzip.compress(head) + zeros * 2 + gzip.compress(tail))
    else:
        zeros = zstandard.ZstdCompressor().compress(bytes(1 << 25))
        path.write_bytes(zstandard.compress(head) + zeros * 2 + zstandard.compress(tail))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    events = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert texts(events) == ["after"]
    assert notes(events) == ["line 2 is longer than 1 MiB, left out"]
    assert peak < 40 << 20


def test_a_hundred_thousand_lines_that_cannot_be_read_are_read_past(tmp_path: Path) -> None:
    began = time.process_time()
    events = read(file_of(tmp_path, *[b"{"] * 20_000))
    assert len(notes(events)) == 20_000
    assert time.process_time() - began < 5
