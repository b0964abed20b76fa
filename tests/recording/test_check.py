"""A check says what a recording holds, and everything that is wrong with its lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from tests.session.made import RECORDINGS, Log, Server, device
from vtop.errors import VtopError
from vtop.recording import AnyEvent, End, FileRecording, Identity, Load, Mark, Outage, Request, Scrape, decode, encode
from vtop.recording.check import Contents, RecordingCheck


def checked(path: Path) -> Contents:
    recording = FileRecording(path)
    looked = RecordingCheck(recording.start)
    while events := recording.take(100):
        for event in events:
            looked.take(event)
    recording.close()
    return looked.contents(recording.faults, recording.faulty, recording.backward)


def contents(log: Log, events: Iterable[AnyEvent]) -> Contents:
    looked = RecordingCheck(log.start)
    for event in (log.start, *events):
        looked.take(event)
    return looked.contents()


def watched(seconds: int = 5) -> Log:
    log, server = Log(), Server()
    for second in range(seconds):
        server.engine.count(generation_tokens=3)
        server.engine.finish()
        log.scrape(second + 0.5, server)
    return log


def begun(log: Log) -> bytes:
    return encode(msgspec.structs.replace(log.start, t=0.0))


def closed(log: Log) -> list[AnyEvent]:
    return [*log.events, End(t=log.events[-1].t)]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_nothing_is_wrong_with_the_recordings_that_come_with_vtop(path: Path) -> None:
    found = checked(path)
    known = ["stretches without scrapes of server 0: 1, the longest 92.0 s"] if path.name.startswith("killed") else []
    assert (found.problems, found.remarks) == ([], known)


def test_it_says_what_there_is() -> None:
    (path,) = [path for path in RECORDINGS if path.name.startswith("overload_loaded")]
    found = checked(path)
    (server,), (gpu,), (phase,) = found.servers, found.devices, found.phases
    assert (server.version, server.scrapes, server.full_scrapes, server.outages) == ("0.26.0", 182, 4, 0)
    assert (gpu.name, gpu.readings) == ("NVIDIA H200", 182)
    assert (phase.requests, phase.ended, phase.failed, phase.end_s) == (128, 128, 0, 167.161435)
    assert (found.trials, found.open_requests, found.end) == (1, 0, "quit")
    assert found.events["request"] == 385


def test_of_a_recording_cut_at_any_byte_it_says_what_is_left(tmp_path: Path) -> None:
    lines = [begun(watched()), *map(encode, closed(watched()))]
    whole = b"\n".join(lines) + b"\n"
    path = tmp_path / "torn.jsonl"
    for size in range(len(lines[0]) + 1, len(whole), 97):
        path.write_bytes(whole[:size])
        found = checked(path)
        kept = whole[:size].count(b"\n")
        assert found.events.get("scrape", 0) + found.events.get("start", 0) == min(kept, 6)
        torn = not whole[:size].endswith(b"\n")
        assert [problem.startswith("last line incomplete") for problem in found.problems[:-1]] == [True] * torn
        assert found.problems[-1].startswith("no line of type end")


@pytest.mark.parametrize("size", [400, 900, 1100])
def test_a_compressed_file_that_breaks_off_is_read_to_there(tmp_path: Path, size: int) -> None:
    path = tmp_path / "torn.jsonl.gz"
    lines = [begun(watched(60)), *map(encode, closed(watched(60)))]
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n")[:size])
    found = checked(path)
    assert found.problems[-1].startswith("no line of type end")


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello\n")
    with pytest.raises(VtopError, match="not a vtop recording"):
        checked(path)


def test_lines_that_cannot_be_read_or_go_back_are_problems(tmp_path: Path) -> None:
    events = closed(watched())
    lines = [begun(watched()), *map(encode, events)]
    lines[3], lines[5] = b"{nonsense", encode(msgspec.structs.replace(events[4], t=0.25))  # type: ignore[type-var]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    first, second, *_ = checked(path).problems
    assert first.startswith("line 4 cannot be read")
    assert second == "lines that go back in time: 1"
    assert "note" not in checked(path).events  # what the reader says is not in the file


def test_of_a_file_full_of_faults_the_first_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(begun(watched()) + b"\n" + b"{\n" * 1500)
    problems = checked(path).problems
    assert len(problems) == 1002
    assert problems[1000] == "lines like these beyond the first 1000: 500"


def test_changes_of_a_scrape_that_is_not_there_are_a_problem() -> None:
    log = watched()
    (problem,) = contents(log, closed(log)[1:]).problems
    assert (
        problem
        == "lines of server 0 that say what changed on a scrape that is not there in full: 4 (the first at 1.510 s)"
    )


def test_changes_after_an_outage_are_a_problem() -> None:
    log = watched()
    events = closed(log)
    events.insert(3, Outage(t=2.9, server=0, at_s=2.8, took_s=0.1, reason="refused"))
    (problem,) = contents(log, events).problems
    assert problem.startswith("lines of server 0 that are not full although no scrape could be had before: 1")


def test_buckets_without_bounds_are_a_problem() -> None:
    log = watched()
    events = closed(log)
    scrape = events[0]
    assert isinstance(scrape, Scrape)
    events[0] = msgspec.structs.replace(scrape, le={})
    assert any("another number of buckets" in problem for problem in contents(log, events).problems)


def test_what_no_writer_would_write_is_a_problem() -> None:
    log = watched()
    events = closed(log)
    last_t = events[-1].t
    found = contents(
        log,
        [
            *events[:-1],
            Identity(t=last_t, server=7),
            Load(t=last_t, phase=3, state="end", spec="c=1", shape="closed"),
            Request(t=last_t, id=1, phase=9, sent_s=4.0, first_s=3.0),
            Scrape(t=last_t, server=0, at_s=99.0, took_s=0.0, bytes=1),
            events[-1],
            Mark(t=last_t),
        ],
    )
    for part in (
        "about server 7",
        "a phase of load that never began",
        "whose instants are not in order",
        "a request of a phase that never began",
        "asked for after they were written",
        "after the end",
    ):
        assert [problem for problem in found.problems if part in problem], part


def test_gaps_open_requests_and_unknown_lines_are_remarks() -> None:
    log = watched()
    log.scrape(30.5, Server())
    log.add(Load(phase=0, state="begin", spec="c=1", shape="closed"), 31.0)
    log.add(Request(id=0, phase=0, sent_s=31.0), 31.0)
    log.gpu(31.5, device())
    log.events.append(decode(b'{"type":"later","t":32.0}'))
    log.events.append(End(t=32.0))
    found = contents(log, log.events)
    assert found.problems == []
    assert found.unknown == {"later": 1}
    assert found.remarks == [
        "lines of the unknown type later: 1, kept, not understood (a newer vtop?)",
        "stretches without scrapes of server 0: 1, the longest 26.0 s",
        "requests that were sent and have no end: 1",
    ]


def test_a_slow_server_has_no_gaps() -> None:
    log = Log()
    for second in range(0, 30, 2):
        log.scrape(float(second), Server())
    assert contents(log, closed(log)).servers[0].gaps == 0


def test_a_server_without_a_scrape_is_said() -> None:
    log = Log(servers=2)
    log.scrape(1.0, Server())
    assert contents(log, closed(log)).remarks == ["server 1 has no scrape"]
