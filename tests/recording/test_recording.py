"""Recordings: written by one hand, cut anywhere, followed while they grow, refused when they are none."""

from __future__ import annotations

import errno
import gzip
import io
import math
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from vtop import faults
from vtop.errors import VtopError
from vtop.recording import (
    AnyEvent,
    End,
    Event,
    FileRecording,
    Host,
    Identity,
    LiveRecording,
    Mark,
    Note,
    Playhead,
    Start,
    Target,
    Unknown,
    decode,
    encode,
)
from vtop.recording.events import FORMAT
from vtop.recording.marks_beside import add_mark, path_beside, read_marks
from vtop.recording.recording_file import RecordingFile

START = Start(format=FORMAT, vtop="0", unix_s=1.0, servers=(Target(url="http://a"),), interval_s=1.0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def read(path: Path) -> list[AnyEvent]:
    recording = FileRecording(path)
    events: list[AnyEvent] = []
    while taken := recording.take(7):
        events += taken
    recording.close()
    return events


def lines(count: int) -> list[bytes]:
    return [encode(START), *(encode(Mark(t=float(k), text=f"number {k} – ü")) for k in range(count))]


def texts(events: list[AnyEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Mark)]


def notes(events: list[AnyEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Note)]


# --- what cannot be written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [{"a": 10**5000}, {"a": math.nan}, {"a": [[1]]}])
def test_a_line_that_no_reader_could_take_is_a_note_and_gets_into_no_file(shape: Any, tmp_path: Path) -> None:
    live = LiveRecording(START, Clock(), tmp_path / "a.jsonl")
    live.append(Identity(server=0, shape=shape))
    live.append(Mark(text="after"))
    live.close("quit")
    (note,) = [text for text in notes(read(tmp_path / "a.jsonl")) if "identity" in text]
    assert note.startswith("vtop itself failed recording a line of type identity")
    assert note.endswith("the line is left out")
    assert texts(read(tmp_path / "a.jsonl")) == ["after"]
    assert faults.told
    faults.told.clear()


def test_a_further_reader_is_given_what_is_appended_from_then_on() -> None:
    live = LiveRecording(START, Clock())
    live.append(Mark(text="before"))
    beside = live.reader()
    live.append(Mark(text="after"))
    assert texts(live.take()) == ["before", "after"]
    assert texts(beside.take()) == ["after"]
    assert beside.take() == []
    live.close("quit")


# --- the recording being made ------------------------------------------------------------------------------------


def test_t_never_goes_back_even_when_the_clock_does(tmp_path: Path) -> None:
    clock = Clock()
    live = LiveRecording(START, clock, tmp_path / "a.jsonl")
    for clock.now in (1.0, 5.0, 3.0, -7.0, 5.5):
        live.append(Mark(t=99.0))
    live.close("quit")
    assert [event.t for event in live.take()] == [0.0, 1.0, 5.0, 5.0, 5.0, 5.5, 5.5]
    assert [event.t for event in read(tmp_path / "a.jsonl")] == [0.0, 1.0, 5.0, 5.0, 5.0, 5.5, 5.5]


def test_two_threads_append_whole_lines_in_order(tmp_path: Path) -> None:
    clock = Clock()
    live = LiveRecording(START, clock, tmp_path / "a.jsonl")

    def work(name: str) -> None:
        for number in range(300):
            clock.now += 0.001
            live.append(Mark(text=f"{name} {number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    live.close("quit")
    taken = live.take()
    events = read(tmp_path / "a.jsonl")
    assert events == taken
    assert [event.t for event in events] == sorted(event.t for event in events)
    for name in "ab":
        assert [text for text in texts(events) if text[0] == name] == [f"{name} {number}" for number in range(300)]


def test_what_is_taken_live_is_what_was_decoded() -> None:
    live = LiveRecording(START, Clock())
    gone = Mark(text="x")
    live.append(gone)
    assert live.take(1) == [msgspec.structs.replace(START, t=0.0)]
    taken = live.take()
    assert taken == [Mark(t=0.0, text="x")]
    assert taken[0] is not gone
    assert live.take() == []
    live.close("quit")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_killed_writer_loses_nothing_that_was_appended(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    live = LiveRecording(START, Clock(), path)
    for number in range(50):
        live.append(Mark(text=str(number)))
    assert texts(read(path)) == [str(number) for number in range(50)]  # nothing was closed
    live.close("quit")
    assert isinstance(read(path)[-1], End)


class Disk(io.BytesIO):
    """A file on a disk with so much room; what does not fit is taken in part, as write(2) does."""

    def __init__(self, room: int = 0, number: int = errno.ENOSPC) -> None:
        super().__init__()
        self.room = room
        self.number = number
        self.kept = b""  # what is on it when it was closed

    def write(self, data: Any) -> int:
        taken = min(self.room, len(data))
        if data and not taken:
            raise OSError(self.number, os.strerror(self.number))
        self.room -= taken
        return super().write(bytes(data[:taken]))

    def close(self) -> None:
        self.kept = self.kept or self.getvalue()
        super().close()


def recording_onto(disk: Disk, suffix: str = "") -> LiveRecording:
    """A session that is recorded into x.jsonl on such a disk, and nowhere else."""
    live = LiveRecording(START, Clock())
    live._files.pop(None).close()
    live._files = {Path(f"x.jsonl{suffix}"): RecordingFile(disk, suffix)}
    return live


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_what_a_full_disk_does_not_take_waits_and_nothing_is_lost_once_there_is_room(
    tmp_path: Path, suffix: str
) -> None:
    disk = Disk(100)
    live = recording_onto(disk, suffix)
    live.append(START)
    for number in range(5):
        live.append(Mark(text=str(number)))
    name = f"x.jsonl{suffix}"
    said = f"{name}: No space left on device; what happens waits in memory until there is room"
    assert (notes(live.take()), live.waits_for, live.lost) == ([said], "No space left on device", [])
    disk.room = 1 << 20
    live.append(Mark(text="5"))
    assert (notes(live.take()), live.waits_for) == ([f"{name}: there is room again, nothing is lost"], None)
    live.close("quit")
    (tmp_path / name).write_bytes(disk.kept)
    assert texts(read(tmp_path / name)) == [str(number) for number in range(6)]
    assert live.lost == []


def test_what_waits_at_the_end_is_lost_and_that_is_said() -> None:
    live = recording_onto(Disk(100))
    for number in range(3):
        live.append(Mark(text=f"{number}" * 40))
    live.close("quit")
    assert live.lost == ["x.jsonl: No space left on device; the last 4 lines are lost"]


def test_a_recording_that_is_stopped_while_the_disk_is_full_is_lost_in_part_and_the_session_goes_on() -> None:
    live = recording_onto(Disk(100))
    live.append(Mark(text="0" * 100))
    assert live.stop_saving() is None
    assert notes(live.take())[-1] == "x.jsonl: No space left on device; no longer recorded there"
    assert live.lost == ["x.jsonl: No space left on device; the last 3 lines are lost"]
    live.append(Mark(text="on"))
    assert texts(live.take()) == ["on"]
    live.close("quit")


def test_a_line_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    live = LiveRecording(START, Clock(), tmp_path / "a.jsonl")
    live.append(Host(at_s=0.0, cpu_ratio=1e200))
    live.close("quit")
    assert notes(live.take()) == ["a line of type host is left out: cpu_ratio is out of bounds"]
    assert notes(read(tmp_path / "a.jsonl")) == ["a line of type host is left out: cpu_ratio is out of bounds"]


def test_more_than_fits_into_memory_gives_the_file_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtop.recording.recording_file.HELD_BYTES", 200)
    live = recording_onto(Disk(10))
    for _ in range(9):
        live.append(Mark(text="0123456789"))
    live.close("quit")
    assert notes(live.take())[-1] == "x.jsonl: No space left on device; no longer recorded there"
    assert len(live.lost) == 1
    assert live.saving_to is None


@pytest.mark.parametrize("number", [errno.EIO, errno.EFBIG, errno.EBADF])
def test_an_error_that_does_not_pass_gives_the_file_up_at_once(number: int) -> None:
    live = recording_onto(Disk(10, number))
    live.append(Mark())
    assert notes(live.take())[-1] == f"x.jsonl: {os.strerror(number)}; no longer recorded there"
    assert live.lost == [f"x.jsonl: {os.strerror(number)}; the last 1 line is lost"]
    live.close("quit")


def test_a_reader_of_stdout_that_went_away_is_known() -> None:
    live = recording_onto(Disk(0, errno.EPIPE))
    live.append(Mark())
    assert live.unread
    live.close("quit")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_without_room_is_a_note() -> None:
    live = recording_onto(Disk())
    live._files = {Path("x"): RecordingFile(open("/dev/full", "wb", buffering=0))}
    live.append(Mark())
    live.append(Mark())
    assert len(notes(live.take())) == 1
    live.close("quit")
    assert live.lost == ["x: No space left on device; the last 4 lines are lost"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_file_that_is_removed_is_told_and_its_content_can_be_saved_again(tmp_path: Path, suffix: str) -> None:
    clock = Clock()
    path = tmp_path / f"a.jsonl{suffix}"
    live = LiveRecording(START, clock, path)
    live.append(Mark(text="before"))
    path.unlink()
    clock.now = 2.0
    live.append(Mark(text="after"))
    assert notes(live.take()) == [f"{path} was removed; nothing more is recorded there"]
    assert live.saving_to is None
    again = tmp_path / "b.jsonl"
    assert live.save_to(again) == "from the session's beginning"
    live.close("quit")
    assert texts(read(again)) == ["before", "after"]
    assert live.lost == [f"{path} was removed while it was being recorded"]


def test_a_session_that_goes_on_can_be_read_by_another_process(tmp_path: Path) -> None:
    live, copy = LiveRecording(START, Clock()), tmp_path / "copy.jsonl"
    live.append(Mark(text="before"))
    assert live.copy_to(copy) == copy
    live.append(Mark(text="after"))
    assert texts(read(copy)) == ["before"]
    live.close("quit")
    saved = LiveRecording(START, Clock(), tmp_path / "a.jsonl")
    assert saved.copy_to(copy) == tmp_path / "a.jsonl"
    saved.close("quit")
    assert recording_onto(Disk(0, errno.EIO)).copy_to(copy) is None


def test_a_file_that_somebody_shortens_is_told(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "a.jsonl"
    live = LiveRecording(START, clock, path)
    path.write_bytes(b"")
    clock.now = 2.0
    live.append(Mark())
    assert notes(live.take()) == [f"{path} was shortened by another program; nothing more is recorded there"]
    live.close("quit")


def test_a_file_that_is_renamed_goes_on_being_recorded(tmp_path: Path) -> None:
    clock = Clock()
    live = LiveRecording(START, clock, tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
    clock.now = 2.0
    live.append(Mark(text="after"))
    live.close("quit")
    assert (texts(read(tmp_path / "b.jsonl")), live.lost) == (["after"], [])


def test_saving_begins_now_where_the_beginning_is_gone(tmp_path: Path) -> None:
    live = recording_onto(Disk(0, errno.EIO))
    live.append(Mark(text="lost"))
    assert live.save_to(tmp_path / "b.jsonl") == "from now on"
    live.append(Mark(text="kept"))
    live.close("quit")
    events = read(tmp_path / "b.jsonl")
    assert isinstance(events[0], Start)
    assert texts(events) == ["kept"]
    assert notes(events) == [f"{tmp_path / 'b.jsonl'} begins here: what was before is not at hand any more"]


@pytest.mark.parametrize("name", ["A.JSONL.GZ", "a.jsonl.ZST", "a.Zst", "a.gZ"])
def test_an_ending_in_capitals_is_compressed_all_the_same(tmp_path: Path, name: str) -> None:
    live = LiveRecording(START, Clock(), tmp_path / name)
    live.append(Mark(text="x" * 2000))
    live.close("quit")
    assert (tmp_path / name).read_bytes()[:2] in (b"\x1f\x8b", b"\x28\xb5")
    (tmp_path / name).rename(tmp_path / "renamed.jsonl")
    assert texts(read(tmp_path / "renamed.jsonl")) == ["x" * 2000]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_session_is_saved_from_its_beginning_and_goes_on_being_saved(tmp_path: Path, suffix: str) -> None:
    live = LiveRecording(START, Clock())
    live.append(Mark(text="before"))
    path = tmp_path / f"a.jsonl{suffix}"
    live.save_to(path)
    assert live.saving_to == path
    live.append(Mark(text="meanwhile"))
    live.stop_saving()
    assert live.saving_to is None
    live.append(Mark(text="after"))
    again = tmp_path / "b.jsonl"
    live.save_to(again)
    live.close("quit")
    events = read(path)
    assert texts(events) == ["before", "meanwhile"]
    assert isinstance(events[-1], End)
    assert texts(read(again)) == ["before", "meanwhile", "after"]


def test_no_file_is_ever_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("precious")
    with pytest.raises(VtopError, match="exists already"):
        LiveRecording(START, Clock(), path)
    live = LiveRecording(START, Clock())
    with pytest.raises(VtopError, match="exists already"):
        live.save_to(path)
    assert path.read_text() == "precious"
    with pytest.raises(VtopError, match="cannot be written"):
        live.save_to(tmp_path / "no" / "such" / "folder.jsonl.gz")
    live.close("quit")


def test_saving_that_fails_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveRecording(START, Clock())
    path = tmp_path / "a.jsonl"

    def new(at: Path) -> RecordingFile:
        at.write_bytes(b"half")
        return RecordingFile(Disk(10), path=at)

    monkeypatch.setattr("vtop.recording.recording.new", new)
    with pytest.raises(VtopError, match="No space left"):
        live.save_to(path)
    assert not path.exists()
    live.append(Mark(text="goes on"))
    assert texts(live.take()) == ["goes on"]
    live.close("quit")


# --- a recording in a file ---------------------------------------------------------------------------------------


def test_a_recording_cut_at_any_byte_of_its_last_two_lines_gives_all_whole_lines(tmp_path: Path) -> None:
    made = lines(4)
    whole = b"\n".join(made) + b"\n"
    path = tmp_path / "a.jsonl"
    last_two = len(made[-1]) + len(made[-2]) + 2
    for size in range(len(whole) - last_two, len(whole) + 1):
        path.write_bytes(whole[:size])
        kept = whole[:size].count(b"\n") - 1
        events = read(path)
        assert texts(events) == [f"number {k} – ü" for k in range(kept)]
        torn = not whole[:size].endswith(b"\n")
        assert [text.startswith("last line incomplete") for text in notes(events)] == [True] * torn


def test_junk_lines_are_notes_and_the_rest_is_read(tmp_path: Path) -> None:
    made = lines(3)
    one, two, three = (
        [b"{"],
        [b"", b"\xff\xfe\x00", b'{"type":"thought"}'],
        [b"[" * 100_000, b'{"type":"mark","text":7}'],
    )
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([made[0], *one, made[1], *two, made[2], *three, made[3]]) + b"\n")
    events = read(path)
    assert texts(events) == ["number 0 – ü", "number 1 – ü", "number 2 – ü"]
    assert [text.split(" cannot")[0] for text in notes(events)] == [f"line {k}" for k in (2, 5, 6, 8, 9)]


def test_unknown_events_are_handed_on_in_their_place(tmp_path: Path) -> None:
    line = b'{"type":"thought","t":0.5,"x":1}'
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([*lines(1), line, encode(Mark(t=2.0, text="after"))]) + b"\n")
    events = read(path)
    assert [type(event) for event in events] == [Start, Mark, Unknown, Mark]
    assert encode(events[2]) == line


def test_lines_pasted_out_of_order_keep_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    pasted = [encode(START), *(encode(Mark(t=t)) for t in (4.0, 2.0, 5.0))]
    path.write_bytes(b"\n".join(pasted) + b'\n{"type":"thought","t":1}\n')
    assert [event.t for event in read(path)][1:] == [4.0, 4.0, 5.0, 5.0]


def test_a_second_recording_behind_the_first_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines(2) + lines(3)) + b"\n")
    events = read(path)
    assert texts(events) == ["number 0 – ü", "number 1 – ü"]
    assert notes(events) == ["not read on: line 4 begins another recording"]


PACKED = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_compressed_recording_reads_as_the_plain_one(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(PACKED[suffix](b"\n".join(lines(500)) + b"\n"))
    assert len(texts(read(path))) == 500


@pytest.mark.parametrize("suffix", PACKED)
def test_a_recording_joined_from_several_compressed_pieces_reads_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    whole = b"\n".join(lines(100)) + b"\n"
    path.write_bytes(b"".join(PACKED[suffix](whole[k : k + 999]) for k in range(0, len(whole), 999)))
    events = read(path)
    assert len(texts(events)) == 100
    assert notes(events) == []


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_compressed_recording_gives_what_was_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    live = LiveRecording(START, Clock(), path)
    for number in range(40):
        live.append(Mark(text=f"number {number}"))
    live.close("quit")
    packed = path.read_bytes()
    before = -1
    for size in range(len(packed) // 2, len(packed), 7):
        path.write_bytes(packed[:size])
        events = read(path)
        found = texts(events)
        assert found == [f"number {k}" for k in range(len(found))]
        assert len(found) >= max(before, 5)
        before = len(found)
    assert before == 40


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_recording_damaged_later_on_is_a_note(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    pieces = [PACKED[suffix](line + b"\n") for line in lines(3)]
    path.write_bytes(b"".join(pieces))
    recording = FileRecording(path)
    with open(path, "ab") as file:
        file.write(b"this is no compressed data" * 20)
    events = recording.take() + recording.take()
    recording.close()
    assert texts(events) == ["number 0 – ü", "number 1 – ü", "number 2 – ü"]
    assert len(notes(events)) == 1
    assert notes(events)[0].startswith("not read on:")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_growing_recording_is_followed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    live = LiveRecording(START, Clock(), path)
    reader = FileRecording(path)
    assert [type(event) for event in reader.take()] == [Start]
    for number in range(3):
        live.append(Mark(text=str(number)))
        assert texts(reader.take()) == [str(number)]
        assert reader.take() == []
    live.close("quit")
    assert [type(event) for event in reader.take()] == [End]
    reader.close()


def test_a_line_still_being_written_is_not_yet_called_torn(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    made = lines(2)
    with open(path, "wb", buffering=0) as writer:
        writer.write(made[0] + b"\n" + made[1][:9])
        reader = FileRecording(path)
        assert [type(event) for event in reader.take()] == [Start]
        writer.write(made[1][9:] + b"\n" + made[2][:5])
        assert texts(reader.take()) == ["number 0 – ü"]
        assert len(notes(reader.take())) == 1
        assert reader.take() == []
        writer.write(made[2][5:] + b"\n")
        assert texts(reader.take()) == ["number 1 – ü"]
        assert reader.take() == []
        reader.close()


REFUSED = {
    "empty.jsonl": (b"", "is empty"),
    "started.jsonl": (b'{"type":"start"', "not finished"),
    "other.jsonl": (b'{"a":1}\n', "not JSON of type start"),
    "text.jsonl": (b"hello\nworld\n", "not JSON of type start"),
    "binary.jsonl": (bytes(range(256)) * 40, "not JSON of type start"),
    "no_line_end.jsonl": (b"\x00" * 3_000_000, "not JSON of type start"),
    "deep.jsonl": (b"[" * 300_000 + b"\n", "not JSON of type start"),
    "late.jsonl": (encode(Mark(t=0.0)) + b"\n" + encode(START) + b"\n", "not JSON of type start"),
    "not.jsonl.gz": (b"\x1f\x8bhello", "cannot be read"),
    "not.jsonl.zst": (b"\x28\xb5\x2f\xfd, this is no zstandard frame", "cannot be read"),
    "plain.jsonl.gz": (b"hello", "not JSON of type start"),
    "empty.jsonl.gz": (gzip.compress(b""), "is empty"),
    "newer.jsonl": (b'{"type":"start","t":0,"format":99,"vtop":"9.1","servers":"moved"}\n', "format 99.*use a newer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_recording_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, said = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(VtopError, match=said) as refused:
        FileRecording(tmp_path / name)
    assert "\n" not in str(refused.value)
    assert str(tmp_path / name) in str(refused.value)


def test_a_missing_file_or_a_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.jsonl", tmp_path, tmp_path / "x" / "y.gz"):
        with pytest.raises(VtopError, match="cannot be read"):
            FileRecording(path)


def test_every_line_taken_in_small_helpings_is_every_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines(100)) + b"\n")
    reader = FileRecording(path)
    taken: list[AnyEvent] = []
    while helping := reader.take(3):
        assert len(helping) <= 3
        taken += helping
    reader.close()
    assert taken[1:] == [decode(line) for line in lines(100)[1:]]
    assert all(isinstance(event, Event) for event in taken)


# --- the playhead ------------------------------------------------------------------------------------------------


class Ends:
    def __init__(self, end_s: float) -> None:
        self.end_s = end_s


def playhead(end_s: float) -> tuple[Playhead, Clock, Ends]:
    clock, ends = Clock(), Ends(end_s)
    return Playhead(clock, lambda: ends.end_s), clock, ends


def test_a_live_playhead_stands_at_the_end_while_it_grows() -> None:
    head, clock, ends = playhead(10.0)
    assert (head.now(), head.live, head.paused) == (10.0, True, False)
    clock.now, ends.end_s = 3.0, 13.0
    assert head.now() == 13.0


def test_a_paused_playhead_stands_while_the_recording_grows() -> None:
    head, clock, ends = playhead(10.0)
    head.pause()
    clock.now, ends.end_s = 50.0, 60.0
    assert (head.now(), head.live, head.paused) == (10.0, False, True)
    head.follow()
    assert (head.now(), head.live, head.paused) == (60.0, True, False)


def test_a_moving_playhead_moves_at_its_speed_and_is_live_at_the_end() -> None:
    head, clock, _ = playhead(100.0)
    head.seek(0.0)
    head.play(10.0)
    clock.now = 2.0
    assert (head.now(), head.live, head.paused) == (20.0, False, False)
    head.play(1.0)  # another speed from where it stands
    clock.now = 5.0
    assert head.now() == 23.0
    head.toggle()
    clock.now = 500.0
    assert (head.now(), head.paused) == (23.0, True)
    head.toggle()
    clock.now = 1000.0
    assert (head.now(), head.live) == (100.0, True)


def test_a_moving_playhead_follows_an_end_that_grows_ahead_of_it() -> None:
    head, clock, ends = playhead(10.0)
    head.seek(0.0)
    head.play(2.0)
    for _ in range(20):
        clock.now += 1.0
        ends.end_s += 3.0
        assert not head.live
        assert head.now() == 2.0 * clock.now


def test_a_playhead_that_reached_the_end_is_paused_by_a_seek_like_any_live_one() -> None:
    head, clock, _ = playhead(10.0)
    head.seek(5.0)
    head.play(1.0)
    clock.now = 60.0
    assert (head.now(), head.live) == (10.0, True)
    head.seek(4.0)
    clock.now = 62.0
    assert (head.now(), head.paused) == (4.0, True)


def test_a_seek_stays_within_the_session_and_a_moving_playhead_goes_on_from_there() -> None:
    head, clock, _ = playhead(10.0)
    head.seek(-5.0)
    assert head.now() == 0.0
    head.seek(99.0)
    assert head.now() == 10.0
    head.seek(2.0)
    head.play(1.0)
    clock.now = 1.0
    head.seek(6.0)
    clock.now = 2.0
    assert head.now() == 7.0


def test_marks_that_are_a_pipe_are_none_and_are_not_waited_for(tmp_path: Path) -> None:
    recording = tmp_path / "a.jsonl"
    os.mkfifo(path_beside(recording))
    assert read_marks(recording) == []


def test_a_mark_is_not_written_to_a_pipe_from_which_nobody_reads(tmp_path: Path) -> None:
    recording = tmp_path / "a.jsonl"
    os.mkfifo(path_beside(recording))
    with pytest.raises(VtopError, match="cannot be written"):
        add_mark(recording, Mark(t=1.0))
