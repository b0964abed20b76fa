"""A flight recorder keeps the last hours in bounded space, and what it cuts out shows the numbers of the whole."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.json import encode

from tests.shipped_kinds import FOLDER
from vtop.errors import VtopError
from vtop.recording import AnyEvent, FileRecording, Start, events_of
from vtop.recording.check import RecordingCheck
from vtop.recording.flight import FlightRecorder
from vtop.recording.recording_file import RecordingFile
from vtop.session.frame.frame import View
from vtop.session.session import Session, read

OVERLOAD = FOLDER / "overload.jsonl.gz"  # 2:47 of it
WINDOW = View(window_s=30.0, columns=10)


def events_in(path: Path) -> list[AnyEvent]:
    with contextlib.closing(FileRecording(path)) as recording:
        return list(events_of(recording))


def session(path: Path) -> Session:
    with contextlib.closing(FileRecording(path)) as recording:
        return read(recording)


def recorder(folder: Path, *, keep_s: float = 480.0, most_bytes: float = 1e9) -> FlightRecorder:
    (start,) = (event for event in events_in(OVERLOAD)[:1] if isinstance(event, Start))
    return FlightRecorder(folder, start, keep_s, most_bytes)


def kept(folder: Path, events: Iterable[AnyEvent], **how: float) -> FlightRecorder:
    made = recorder(folder, **how)
    for event in events:
        made.take(event)
    made.close()
    return made


def pieces(folder: Path) -> list[Path]:
    return sorted(folder.glob("kept-*.jsonl"))


def test_each_piece_opens_by_itself_and_nothing_is_wrong_with_it(tmp_path: Path) -> None:
    kept(tmp_path, events_in(OVERLOAD))
    assert len(pieces(tmp_path)) == 3  # of a minute each
    for path in pieces(tmp_path):
        start, *events = events_in(path)
        assert isinstance(start, Start)
        looked = RecordingCheck(start)
        for event in events:
            looked.take(event)
        assert not looked.contents().problems, path


def test_a_cut_over_two_pieces_shows_the_numbers_of_the_whole(tmp_path: Path) -> None:
    made = kept(tmp_path, events_in(OVERLOAD))
    made.cut_to(tmp_path / "cut.jsonl", 40.0, 110.0, "a test")
    whole, part = session(OVERLOAD), session(tmp_path / "cut.jsonl")
    for at_s in (75.0, 90.0, 109.0):
        a, b = whole.frame(at_s, WINDOW), part.frame(at_s - 40.0, WINDOW)
        for part_of in ("running", "waiting"):
            assert encode(getattr(a.requests, part_of)) == encode(getattr(b.requests, part_of))
        assert encode(a.kv) == encode(b.kv)
        assert a.preemption.count.in_window == b.preemption.count.in_window
        assert (a.ttft.queue_s, a.ttft.total_s) == pytest.approx((b.ttft.queue_s, b.ttft.total_s), rel=1e-9)
        assert a.generation_tokens.in_window == b.generation_tokens.in_window


def test_what_is_older_than_what_is_to_be_kept_is_deleted(tmp_path: Path) -> None:
    kept(tmp_path, events_in(OVERLOAD), keep_s=60.0)
    assert len(pieces(tmp_path)) == 2  # the whole minute before, and the one that runs


def test_pieces_take_no_more_room_than_they_may(tmp_path: Path) -> None:
    most = 120_000
    kept(tmp_path, events_in(OVERLOAD), most_bytes=most)
    assert sum(path.stat().st_size for path in pieces(tmp_path)) <= most
    assert len(pieces(tmp_path)) > 1


def test_pieces_of_the_recorder_before_are_the_first_to_go(tmp_path: Path) -> None:
    kept(tmp_path, events_in(OVERLOAD)[:40])
    (old,) = pieces(tmp_path)
    old.rename(tmp_path / "kept-0000000001.jsonl")
    kept(tmp_path, events_in(OVERLOAD), keep_s=60.0)
    assert not (tmp_path / "kept-0000000001.jsonl").exists()


def test_a_piece_that_somebody_removed_is_said_and_another_begins(tmp_path: Path) -> None:
    made = recorder(tmp_path)
    events = events_in(OVERLOAD)
    for number, event in enumerate(events):
        made.take(event)
        if number == len(events) // 4:
            (gone,) = pieces(tmp_path)
            gone.unlink()
    made.close()
    assert made.said == [f"{gone} was removed; another piece begins"]
    assert pieces(tmp_path)


def test_a_disk_without_room_costs_the_oldest_piece_and_not_the_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorder(tmp_path)
    events = [event for event in events_in(OVERLOAD) if event.t < 100.0]
    for event in events[: len(events) // 2]:
        made.take(event)
    write = RecordingFile.write

    def full(file: RecordingFile, line: bytes) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(RecordingFile, "write", full)
    made.take(events[len(events) // 2])
    monkeypatch.setattr(RecordingFile, "write", write)
    for event in events[len(events) // 2 + 1 :]:
        made.take(event)
    made.close()
    assert made.said == [f"{pieces(tmp_path)[0]}: Input/output error; given up; the next line begins another"]
    last = session(pieces(tmp_path)[-1])
    whole = session(OVERLOAD).frame(events[-1].t, WINDOW)
    assert last.frame(last.end_s, WINDOW).requests.running.now == whole.requests.running.now


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VtopError, match="no folder can be made there"):
        recorder(tmp_path / "file" / "kept")


def test_what_was_cut_out_counts_in_the_room_that_pieces_may_take(tmp_path: Path) -> None:
    most = 240_000
    (tmp_path / "cut-1.jsonl").write_bytes(bytes(60_000))
    (tmp_path / "cut-1.html").write_bytes(bytes(40_000))
    made = kept(tmp_path, events_in(OVERLOAD), most_bytes=most)
    assert made.cut_bytes() == 100_000
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= most
    (tmp_path / "cut-1.html").write_bytes(bytes(9 * most))  # what is cut out takes no more than half from them
    made.make_room()
    assert len(pieces(tmp_path)) > 1


def test_a_piece_that_is_begun_anew_loses_nothing(tmp_path: Path) -> None:
    made = recorder(tmp_path)
    events = events_in(OVERLOAD)
    for number, event in enumerate(events):
        made.take(event)
        if number == 30:
            made.begin_anew()
    made.close()
    first, second = (session(path) for path in pieces(tmp_path)[:2])
    assert first.finished
    made.cut_to(tmp_path / "cut.jsonl", 0.0, 160.0, "a test")
    whole, part = session(OVERLOAD), session(tmp_path / "cut.jsonl")
    assert second.start.unix_s > first.start.unix_s
    now, expected = (one.frame(160.0, WINDOW).preemption.count for one in (part, whole))
    assert (now.since_start, now.in_window) == (expected.since_start, expected.in_window)
