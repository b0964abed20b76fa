"""The last hours of a session in bounded space: pieces of it, each a recording that opens, the oldest deleted first.

A piece begins with what was known by then (cut.py), so its numbers are those of the whole. Where a piece is lost (a
full disk, a file that somebody removed), the next line begins another.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from vtop.errors import VtopError
from vtop.free_name import free_name
from vtop.recording.cut import JUST_AFTER_S, Known, cut
from vtop.recording.events import AnyEvent, End, Note, Start, encode
from vtop.recording.recording import FileRecording, events_of
from vtop.recording.recording_file import RecordingFile, new
from vtop.recording.shift import moved

PIECES: Final = 8  # that the time to keep is divided into
SHARE: Final = 0.5  # of the bytes: at least so much is for the pieces, at most the rest for what was cut out
CUTS: Final = "cut-*"  # what was cut out, and what was made of it
SHORTEST_S, LONGEST_S = 60.0, 900.0  # of a piece
LOOK_EVERY_S: Final = 10.0  # whether the file is still there
_PREFIX: Final = "kept-"
_NAMED: Final = re.compile(_PREFIX + r"\d+(-\d+)?\.jsonl")  # by the second of the wall clock at which it begins


@dataclass(frozen=True, slots=True)
class KeptPiece:
    path: Path
    begins_s: float  # of the session; below 0 for one of a recorder before this one
    own: bool = True


class FlightRecorder:
    """folder: made where it is missing. keep_s: so much is kept, as far as most_bytes allows. Raises VtopError."""

    def __init__(self, folder: Path, start: Start, keep_s: float, most_bytes: float) -> None:
        self.folder, self.keep_s = folder, keep_s
        self.piece_s = min(max(keep_s / PIECES, SHORTEST_S), LONGEST_S)
        self.lost = False  # whether a piece lacks lines
        self.said: list[str] = []  # what went wrong with the files, in sentences, until it is taken
        self._start, self._most_bytes, self._piece_bytes = start, most_bytes, most_bytes * SHARE / PIECES
        self._known = Known()
        self._file: RecordingFile | None = None
        self._last_t = 0.0  # in the current piece
        self._looked_s = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            older = sorted(one for one in folder.glob(f"{_PREFIX}*.jsonl") if _NAMED.fullmatch(one.name))
        except OSError as error:
            raise VtopError(f"-o {folder}: no folder can be made there ({error.strerror})") from error
        self._pieces = [KeptPiece(path, _began_unix_s(path) - start.unix_s, own=False) for path in older]

    @property
    def end_s(self) -> float:
        """Session time of the latest line."""
        return self._last_t + (self._pieces[-1].begins_s if self._pieces and self._pieces[-1].own else 0.0)

    def take(self, event: AnyEvent) -> None:
        if isinstance(event, Start | End):
            return
        if self._file is not None and (
            event.t >= self._pieces[-1].begins_s + self.piece_s or self._file.size_bytes >= self._piece_bytes
        ):
            self.begin_anew()
        if event.t - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = event.t
            self._look_after()
        if self._file is None:
            self._begin(event.t)
        self._known.take(event)
        if self._file is not None:
            begins_s = self._pieces[-1].begins_s
            self._write(moved(event, -begins_s, max(self._last_t, round(event.t - begins_s, 6), 2 * JUST_AFTER_S)))

    def close(self) -> None:
        self._finish("recording stopped")

    def begin_anew(self) -> None:
        """The next line begins another piece."""
        self._finish("it goes on in the next piece")

    def known(self, at_s: float) -> Iterator[AnyEvent]:
        """What the lines so far say about at_s, as lines in session time."""
        return self._known.in_session(at_s)

    def events(self, from_s: float) -> Iterator[AnyEvent]:
        """What is kept of the session, in session time, from the piece on that holds from_s."""
        held = [piece for piece in self._pieces if piece.own and piece.path.exists()]
        before = [at for at, piece in enumerate(held) if piece.begins_s <= from_s]
        for number, piece in enumerate(held[before[-1] if before else 0 :]):
            with contextlib.closing(FileRecording(piece.path)) as recording:
                for event in events_of(recording):
                    if isinstance(event, Start | End) or (number and event.t <= JUST_AFTER_S):
                        continue  # the pieces before say the same
                    yield moved(event, piece.begins_s)

    def cut_to(self, path: Path, from_s: float, to_s: float, note: str) -> None:
        """A recording of its own of from_s to to_s, as far as they are kept. Raises VtopError, OSError."""
        beside = path.with_name(f".{path.name}.part")
        beside.unlink(missing_ok=True)
        file = new(beside)
        try:
            for event in cut(self._start, self.events(from_s), max(0.0, from_s), to_s, note):
                file.write(encode(event) + b"\n")
            file.close()
            beside.rename(path)
        finally:
            with contextlib.suppress(OSError):
                file.close()
            beside.unlink(missing_ok=True)

    def _begin(self, at_s: float) -> None:
        start = msgspec.structs.replace(self._start, t=0.0, unix_s=self._start.unix_s + at_s)
        while len(self._pieces) > 1 and self._pieces[1].begins_s <= at_s - self.keep_s:
            self._delete_oldest()
        self.make_room()
        path = free_name(self.folder, f"{_PREFIX}{start.unix_s:.0f}", ".jsonl")
        try:
            self._file = new(path)
        except VtopError as error:
            self._say(str(error))
            return
        self._pieces.append(KeptPiece(path, at_s))
        self._last_t = 0.0
        self._write(start)
        self._write(Note(t=0.0, source="recording", text="a piece of what a flight recorder keeps"))
        for line in self._known.lines(at_s):
            self._write(line)

    def _write(self, event: AnyEvent) -> None:
        if self._file is None:
            return
        waited = self._file.waits_for
        try:
            self._file.write(encode(event) + b"\n")
        except OSError as error:
            self._say(f"{self._pieces[-1].path}: {error.strerror or error}; given up; the next line begins another")
            self.lost = True
            self._give_up()
            return
        self._last_t = event.t
        if self._file.waits_for is not None and waited is None:
            gone = self._delete_oldest()
            then = (
                f"{gone} is deleted for it" if gone is not None else "what happens waits in memory until there is room"
            )
            self._say(f"{self._pieces[-1].path}: {self._file.waits_for}; {then}")

    def _finish(self, reason: str) -> None:
        if self._file is None:
            return
        self._write(End(t=self._last_t, reason=reason))
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._say(f"{self._pieces[-1].path}: {error.strerror or error}; its last lines are lost")
                self.lost = True
        self._file = None

    def _look_after(self) -> None:
        if self._file is not None and (what := self._file.removed()) is not None:
            self._say(f"{self._pieces[-1].path} {what}; another piece begins")
            self._give_up()

    def _give_up(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def make_room(self) -> None:
        """Delete the oldest pieces where all of them, with what was cut out, take more than they may."""
        room = max(self._most_bytes - self.cut_bytes(), self._most_bytes * SHARE) - self._piece_bytes
        while self._bytes() > room and self._delete_oldest() is not None:
            pass

    def cut_bytes(self) -> int:
        """What is taken by what was cut out, reports included."""
        return _size(self.folder.glob(CUTS))

    def _bytes(self) -> int:
        return _size(piece.path for piece in self._pieces)

    def _delete_oldest(self) -> Path | None:
        """Never the piece that is being written: None where there is no other."""
        if len(self._pieces) <= (self._file is not None):
            return None
        path = self._pieces.pop(0).path
        with contextlib.suppress(OSError):
            path.unlink()
        return path

    def _say(self, text: str) -> None:
        if not self.said or self.said[-1] != text:
            self.said.append(text)


def _size(files: Iterable[Path]) -> int:
    found = 0
    for path in files:
        with contextlib.suppress(OSError):  # it was removed just now
            found += path.stat().st_size
    return found


def _began_unix_s(path: Path) -> float:
    return float(path.stem.removeprefix(_PREFIX).partition("-")[0])
