"""A recording: events in order, append-only, written by one writer and read by anyone, even while it grows.

`LiveRecording` is the one being made, `FileRecording` one that was made, or is being made by someone else.
Both hand out decoded lines only, so what a live screen knows is what a replay will know.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Protocol

import msgspec

from vtop import faults, small_file
from vtop.errors import VtopError
from vtop.recording import bounds
from vtop.recording.events import (
    FORMAT,
    AnyEvent,
    End,
    Event,
    Note,
    Start,
    decode,
    encode,
    encode_text,
    format_of,
    instant_of,
)
from vtop.recording.inflate import Undecodable, inflater, suffix_by_content, suffix_of
from vtop.recording.recording_file import STDOUT, RecordingFile, Saved, new, unnamed

_LONGEST_START = 1 << 20  # bytes; what has no line end by then is no recording
_LONGEST_LINE = 1 << 26  # bytes; a longer one is left out, and never held whole
LOOK_EVERY_S = 1.0  # whether a file that is recorded into is still there
_LOOK_AHEAD = 3  # lines, to tell one wrong t from a file that was joined by hand
_TOO_LONG = b"too long"  # stands for such a line
_AT_ONCE = 500  # events, where all are read
_FAULTS_KEPT = 1000  # of a file full of them, the first


class Recording(Protocol):
    """Events to be taken in order, each once."""

    start: Start

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        """The next events, at most `limit`; empty when all that exists so far has been taken."""
        ...


class _Reader:
    """What was appended to a recording that is being made, for one who takes it in, in a thread of his own or not."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self._fresh: deque[AnyEvent] = deque()
        self.give = self._fresh.append

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        return [self._fresh.popleft() for _ in range(min(limit, len(self._fresh)))]


class LiveRecording:
    """The recording being made: `append` encodes, writes, decodes and keeps the decoded event.

    `clock` gives seconds since the start of the session. Without a path the lines go to an unnamed temporary
    file, so that `save_to` can still write the session from its beginning. Lines that a full disk does not take wait in
    memory; what gets lost all the same is a note and stands in `lost`. Threads may append; `t` never goes back.
    """

    def __init__(
        self,
        start: Start,
        clock: Callable[[], float],
        path: Path | None = None,
        secrets: Sequence[str] = (),
        *,
        filed: bool = True,
    ) -> None:
        """secrets: struck out of every line, wherever a server may have put them. filed: False for one whose lines
        somebody else keeps, who takes them."""
        self.start = start
        self.path = path
        self.clock = clock
        self._secrets = tuple(encode_text(secret) for secret in secrets if secret)
        self.lost: list[str] = []  # sentences: the files that lack something of this session, and why
        self.saved: list[Saved] = []  # the files that were closed whole, in order
        self.unread = False  # whoever read stdout has gone
        self._lock = threading.RLock()
        self._last_t = 0.0
        self._looked_s = 0.0  # when the files were last looked after
        self._own = _Reader(start)
        self._readers = [self._own]
        self._listener: Callable[[AnyEvent], object] | None = None
        self._files: dict[Path | None, RecordingFile] = {}
        if not filed:
            pass
        elif path is None:
            with contextlib.suppress(OSError):  # no room for it: the session is seen, only not saved from its start
                self._files[None] = unnamed()
        else:
            self._files[path] = new(path)
        self.append(start)

    def hide(self, secrets: Sequence[str]) -> None:
        """Strike these out of every line from here on, too."""
        with self._lock:
            known = {*self._secrets, *(encode_text(secret) for secret in secrets if secret)}
            self._secrets = tuple(sorted(known, key=len, reverse=True))

    @property
    def saving_to(self) -> Path | None:
        """The file a person will find, or None."""
        return next((path for path in self._files if path is not None), None)

    @property
    def waits_for(self) -> str | None:
        """Why what is to be saved is held in memory, e.g. "No space left on device"; None: it is saved."""
        path = self.saving_to
        return self._files[path].waits_for if path is not None else None

    def append(self, event: Event) -> None:
        with self._lock:
            self._last_t = max(self._last_t, round(self.clock(), 6))
            event = msgspec.structs.replace(event, t=self._last_t)
            try:
                line = encode(event)
                for secret in self._secrets:
                    line = line.replace(secret, b"***")
                decoded = decode(line)  # before it is written: no line that a reader cannot take gets into a file
                if (why := bounds.wrong(decoded)) is not None:
                    text = f"a line of type {event.__struct_config__.tag} is left out: {why}"
                    decoded = Note(t=self._last_t, source="recording", text=text)
                    line = encode(decoded)
            except Exception as fault:
                said = faults.put_down(fault, f"recording a line of type {event.__struct_config__.tag}")
                decoded = Note(t=self._last_t, source="recording", text=f"{said}; the line is left out")
                line = encode(decoded)
            notes = []
            if self._last_t - self._looked_s >= LOOK_EVERY_S:
                self._looked_s = self._last_t
                notes = self._look_after()
            notes += self._write(line + b"\n")
            for reader in self._readers:
                reader.give(decoded)
            if self._listener is not None:
                self._listener(decoded)
            for text in notes:
                self.append(Note(source="recording", text=text))

    def listen(self, listener: Callable[[AnyEvent], object] | None) -> None:
        """Call this from now on when there is something to take; on the thread that appended it, so be quick."""
        self._listener = listener

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        with self._lock:
            return self._own.take(limit)

    def reader(self) -> Recording:
        """A further reader, of what is appended from here on. It must go on taking: what it has not taken is kept."""
        with self._lock:
            self._readers.append(_Reader(self.start))
            return self._readers[-1]

    def so_far(self) -> Iterator[AnyEvent]:
        """All events from the beginning on, where a file still holds them: as they were appended."""
        with self._lock:
            file = self._files.get(None) or next(iter(self._files.values()), None)
            lines = b"".join(file.content()).splitlines() if file is not None and file.path != STDOUT else []
        for line in lines:
            yield decode(line)

    def save_to(self, path: Path) -> str:
        """Write the session to a new file and go on writing there; where it begins, in words. Raises VtopError.

        It begins at the session's beginning, or now, where that was lost with the file before.
        """
        with self._lock:
            spool = self._files.get(None)
            file = new(path)
            file.begins_s = 0.0 if spool is not None else self._last_t
            try:
                for piece in spool.content() if spool is not None else (encode(self._begun_now()) + b"\n",):
                    file.write(piece)
                    if file.waits_for is not None:
                        raise OSError(errno.ENOSPC, file.waits_for)
            except (OSError, Undecodable) as error:
                _give_up(file)
                path.unlink(missing_ok=True)  # half a session under that name would only be in the way
                raise VtopError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
            self._files[path] = file
            if spool is not None:
                return "from the session's beginning"
            self.append(Note(source="recording", text=f"{path} begins here: what was before is not at hand any more"))
            return "from now on"

    def copy_to(self, target: Path) -> Path | None:
        """A file with all lines of the session so far: the one it is recorded to from its beginning, else `target`,
        written now without holding up what is appended meanwhile. None where its beginning is not at hand."""
        if self.path is not None:
            return self.path if self.path in self._files else None
        spool = self._files.get(None)
        if spool is None:
            return None
        try:
            spool.copy_to(target)
        except OSError:
            return None
        return target

    def _begun_now(self) -> Start:
        return msgspec.structs.replace(self.start, t=self._last_t)

    def stop_saving(self) -> Saved | None:
        """Close the file that `save_to` opened, in good order; the session goes on. None where it is not whole."""
        with self._lock:
            path = self.saving_to
            if path is not None and path != self.path:
                file = self._files.pop(path)
                try:
                    file.write(encode(End(t=self._last_t, reason="recording stopped")) + b"\n")
                    file.close()
                except OSError as error:
                    _give_up(file)
                    self.append(Note(source="recording", text=self._lose(path, file, error)))
                    return None
                return self._whole(file)
            return None

    def close(self, reason: str) -> None:
        """The end. What could not be written by now is in `lost`."""
        with self._lock:
            self.append(End(reason=reason))
            for path, file in self._files.items():
                try:
                    file.close()
                except OSError as error:
                    if path is not None:
                        self._lose(path, file, error)
                    continue
                self._whole(file)
            self._files.clear()

    def _whole(self, file: RecordingFile) -> Saved | None:
        if (saved := file.saved(self._last_t)) is not None:
            self.saved.append(saved)
        return saved

    def _write(self, line: bytes) -> list[str]:
        """Write to every file; what there is to say about it. A file that cannot be written any more is given up."""
        said = []
        for path, file in list(self._files.items()):
            name, waited = path or "the temporary file", file.waits_for
            try:
                file.write(line)
            except OSError as error:
                _give_up(self._files.pop(path))
                said.append(self._lose(path, file, error))
                continue
            if file.waits_for is not None and waited is None:
                said.append(f"{name}: {file.waits_for}; what happens waits in memory until there is room")
            elif waited is not None and file.waits_for is None:
                said.append(f"{name}: there is room again, nothing is lost")
        return said

    def _look_after(self) -> list[str]:
        """Whether the files are still there; what there is to say. The content of a removed one is still at hand."""
        said = []
        for path, file in list(self._files.items()):
            if path is not None and (what := file.removed()) is not None:
                del self._files[path]
                if what == "was removed" and None not in self._files:
                    file.path = None
                    self._files[None] = file
                else:
                    _give_up(file)
                self.lost.append(f"{path} {what} while it was being recorded")
                said.append(f"{path} {what}; nothing more is recorded there")
        return said

    def _lose(self, path: Path | None, file: RecordingFile, error: OSError) -> str:
        """Put down that a file lacks lines; the sentence."""
        why = error.strerror or str(error)
        if path is None:
            return f"the temporary file: {why}; no longer recorded there"
        self.unread = self.unread or error.errno == errno.EPIPE
        lines = "1 line is" if file.held_lines == 1 else f"{file.held_lines:,} lines are"
        self.lost.append(f"{path}: {why}; the last {lines} lost" if file.held_lines else f"{path}: {why}")
        return f"{path}: {why}; no longer recorded there"


def _give_up(file: RecordingFile) -> None:
    with contextlib.suppress(OSError):
        file.close()


def create(path: Path, *, packed: bool = True) -> IO[bytes]:
    """A new file; compressed (if packed) when it ends in .gz or .zst. Raises VtopError; overwrites nothing."""
    suffix = suffix_of(path) if packed else ""
    try:
        if suffix == ".gz":
            return gzip.GzipFile(path, "xb", compresslevel=6, mtime=0)  # type: ignore[return-value]
        raw = open(path, "xb")
    except FileExistsError as error:
        raise VtopError(f"{path}: exists already; name a new file, or remove it first") from error
    except OSError as error:
        raise VtopError(f"{path}: cannot be written ({error.strerror})") from error
    if suffix != ".zst":
        return raw
    import zstandard

    return zstandard.ZstdCompressor().stream_writer(raw)


class FileRecording:
    """A recording in a file, finished or still growing. Raises VtopError when it is none.

    A line that cannot be read is a note and is left out; so is a last line that was never finished, once nothing has
    been added to it from one `take` to the next.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._raw = small_file.opened(path)
        except OSError as error:
            raise VtopError(f"{path}: cannot be read ({error.strerror})") from error
        self._lines: deque[bytes] = deque()
        self._pending = bytearray()  # bytes of a line that has no end yet
        self._looked = (0, 0)  # how much of which line was pending at the end of the take before
        self._aside: list[Note] = []  # what there is to say about the line at hand
        self._torn = False  # what is pending has been noted
        self._broken: str | None = None  # why the file cannot be read on
        self._line_number = 0
        self._last_t = 0.0
        self.faults: list[str] = []  # what was wrong with the lines so far, as the notes say: the first of it
        self.faulty = 0  # how many such notes there were
        self.backward = 0  # lines whose t was earlier than that of the line before
        try:
            self._inflate = inflater(suffix_by_content(self._raw.peek(4)[:4]))
            self._pieces: Iterator[bytes] = iter(())
            self._too_long = False  # a line that is being passed over
            self.start = self._first()
        except OSError as error:
            self._raw.close()
            raise VtopError(f"{path}: cannot be read ({error.strerror})") from error
        except VtopError:
            self._raw.close()
            raise

    def again(self) -> FileRecording:
        """The same file from its beginning, to be closed by whoever asks."""
        return FileRecording(self.path)

    @property
    def lines(self) -> int:
        """How many lines have been taken, unreadable ones included."""
        return self._line_number

    @property
    def read_ratio(self) -> float:
        """How much of the file as it is now has been read: 0 to 1."""
        try:
            size = os.fstat(self._raw.fileno()).st_size
            return min(1.0, self._raw.tell() / size) if size else 1.0
        except (OSError, ValueError):  # closed, or a pipe
            return 1.0

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        while len(events) < limit:
            if not self._lines and not self._more():
                break
            if self._lines:
                self._line_number += 1
                line = self._lines.popleft()
                event = self._decoded(line) if line.strip() else None
                if isinstance(event, Start) and self._line_number > 1:
                    self._break_off(f"line {self._line_number} begins another recording")
                elif event is not None:
                    events += (*self._aside, event)
                    self._aside.clear()
        if not events and self._broken is not None:
            events.append(self._note(f"not read on: {self._broken}"))
            self._broken = None
            self._pending.clear()
        looked = (self._line_number, len(self._pending))
        if not events and self._pending and looked == self._looked and not self._torn:
            self._torn = True
            events.append(self._note(f"last line incomplete ({len(self._pending)} bytes), left out"))
        self._looked = looked
        return events

    def close(self) -> None:
        self._raw.close()

    def _first(self) -> Start:
        while not self._lines and len(self._pending) < _LONGEST_START and self._more():
            pass
        if self._broken is not None and not self._lines:
            raise VtopError(f"{self.path}: cannot be read ({self._broken})")
        expected = f"{self.path}: not a vtop recording"
        if not self._lines and not self._pending:
            raise VtopError(f"{expected} (it is empty)")
        if not self._lines and self._pending.startswith(b"{") and len(self._pending) < _LONGEST_START:
            raise VtopError(f"{expected} (its first line is not finished)")
        line = self._lines[0] if self._lines else bytes(self._pending)
        try:
            recorded = format_of(line)
            if recorded.format > FORMAT:
                raise VtopError(
                    f"{self.path}: recorded by vtop {recorded.vtop} in format {recorded.format}, this vtop reads up "
                    f"to {FORMAT}; use a newer vtop"
                )
            start = decode(line)
        except ValueError as error:
            raise VtopError(f"{expected} (its first line is not JSON of type start)") from error
        assert isinstance(start, Start)
        if (why := bounds.wrong(msgspec.structs.replace(start, t=0.0))) is not None:
            raise VtopError(f"{expected} ({why})")
        if not start.servers:
            raise VtopError(f"{expected} (its first line names no server)")
        return start

    def _more(self) -> bool:
        """Read on; False at the end of what exists."""
        if self._raw.closed:
            return False
        try:
            text = next(self._pieces, None)
            if text is None:
                chunk = self._raw.read(1 << 18)
                if not chunk:
                    return False
                self._pieces = self._inflate(chunk)
                text = next(self._pieces, b"")
        except (OSError, Undecodable) as error:
            self._break_off(str(error))
            return False
        if b"\n" not in text:  # a line longer than a chunk
            self._too_long = self._too_long or len(self._pending) + len(text) > _LONGEST_LINE
            self._pending += text
            if self._too_long:
                self._pending.clear()
            return True
        if self._too_long:
            self._too_long, text = False, _TOO_LONG + text[text.index(b"\n") :]
        first, *lines = text.split(b"\n")
        self._lines.append(bytes(self._pending) + first)
        self._lines.extend(lines[:-1])
        self._pending, self._torn = bytearray(lines[-1]), False
        return True

    def _break_off(self, why: str) -> None:
        self._broken = why
        self._raw.close()
        self._lines.clear()

    def _decoded(self, line: bytes) -> AnyEvent:
        if line == _TOO_LONG:
            return self._note(f"line {self._line_number} is longer than {_LONGEST_LINE >> 20} MiB, left out")
        try:
            event = decode(line)
        except ValueError as error:
            return self._note(f"line {self._line_number} cannot be read ({error}), left out")
        if (why := bounds.wrong(event)) is not None:
            return self._note(f"line {self._line_number} cannot be ({why}), left out")
        if event.t > self._last_t and self._alone(event.t):
            later = f"line {self._line_number} is later ({event.t:.6g} s) than all around it, taken as of before"
            self._aside.append(self._note(later))
            event = _at(event, self._last_t)
        if event.t < self._last_t:  # cut and pasted by hand: order is the file's
            self.backward += 1
            event = _at(event, self._last_t)
        self._last_t = event.t
        return event

    def _alone(self, t: float) -> bool:
        """Whether a line's t stands alone: the lines after it are earlier, and no earlier than the lines before it.

        Else one wrong t would pull all later lines along. Only lines that are at hand are looked at.
        """
        later = []
        for line in islice(self._lines, _LOOK_AHEAD):
            with contextlib.suppress(ValueError):
                later.append(instant_of(line))
        return len(later) > 0 and all(self._last_t <= one < t for one in later)

    def _note(self, text: str) -> Note:
        self.faulty += 1
        if len(self.faults) < _FAULTS_KEPT:
            self.faults.append(text)
        return Note(t=self._last_t, source="recording", text=text)


def _at(event: AnyEvent, t: float) -> AnyEvent:
    """The event with another t."""
    if isinstance(event, Event):
        return msgspec.structs.replace(event, t=t)
    event.t = t
    return event


def events_of(recording: Recording) -> Iterator[AnyEvent]:
    """All events that exist so far, each once."""
    while taken := recording.take(_AT_ONCE):
        yield from taken
