"""A recording that broke off anywhere is exported as far as it goes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import vtop
from tests.export.recorded import loaded, reading, strict, written
from vtop.export.formats import csv, perfetto, prometheus
from vtop.recording import FileRecording, Note, Request, Scrape, encode
from vtop.recording.cut import cut


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return written(loaded(), tmp_path_factory.mktemp("whole") / "a.jsonl").read_bytes()


def sizes(whole: bytes) -> list[int]:
    """Every byte of the last two lines, and places all over the file."""
    head = whole.index(b"\n") + 1
    last_two = len(whole) - len(b"\n".join(whole.rsplit(b"\n", 3)[1:]))
    return [*range(head, last_two, 1009), *range(last_two, len(whole) + 1, 13)]


def test_at_whatever_byte_everything_is_made_of_it(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    for number, size in enumerate(sizes(whole)):
        path.write_bytes(whole[:size])
        with closing(FileRecording(path)) as recording:
            events = recording.take()
        out = tmp_path / str(number)
        out.mkdir()
        with reading(path) as recording:
            csv.write(recording, out, folder=True, force=False)
        with reading(path) as recording:
            perfetto.write(recording, out / "trace.json", force=False)
        with reading(path) as recording:
            prometheus.write(recording, out / "run.om", every_s=0.0, force=False)
        rows = (out / "samples.csv").read_text().count("\n") - 1
        assert rows == len([event for event in events if isinstance(event, Scrape)])
        requests = {(event.phase, event.id) for event in events if isinstance(event, Request)}
        assert len(vtop.open(path).requests()) == len(requests)
        names = [entry["name"].split(":")[0] for entry in strict((out / "trace.json").read_bytes())["traceEvents"]]
        assert len({name for name in names if name.startswith("request ")}) == len(requests)
        assert (out / "run.om").read_text().endswith("# EOF\n")


def test_a_cut_of_it_says_that_it_was_torn(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    path.write_bytes(whole[:-40])
    with reading(path) as recording:
        events = [*recording.take(), *recording.take()]
    lines = list(cut(recording.start, events, 1.0, float("inf"), "cut"))
    assert all(encode(line) for line in lines)
    assert any(isinstance(line, Note) and line.text.startswith("last line incomplete") for line in lines)
