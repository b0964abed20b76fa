"""A recording: events in order, append-only, written by one writer and read by anyone, even while it grows.

`LiveRecording` is the one being made, `FileRecording` one that was made, or is being made by someone else.
Both hand out decoded lines only, so what a live screen knows is what a replay will know.
"""

from __future__ import annotations

import contextlib
import gzip
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol

import msgspec

from vtop.errors import VtopError
from vtop.recording.events import FORMAT, AnyEvent, End, Event, Note, Start, decode, encode, format_of

_LONGEST_START = 1 << 20  # bytes; what has no line end by then is no recording
_AT_ONCE = 500  # events, where all are read
_FAULTS_KEPT = 1000  # of a file full of them, the first


class Recording(Protocol):
    """Events to be taken in order, each once."""

    start: Start

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        """The next events, at most `limit`; empty when all that exists so far has been taken."""
        ...


class LiveRecording:
    """The recording being made: `append` encodes, writes, decodes and keeps the decoded event.

    `clock` gives seconds since the start of the session. Without a path the lines go to an unnamed temporary
    file, so that `save_to` can still write the session from its beginning. A write that fails is a note in the
    recording; the session goes on without that file. Threads may append; `t` never goes back.
    """

    def __init__(self, start: Start, clock: Callable[[], float], path: Path | None = None) -> None:
        self.start = start
        self.path = path
        self.clock = clock
        self._lock = threading.RLock()
        self._last_t = 0.0
        self._fresh: deque[AnyEvent] = deque()
        self._listener: Callable[[AnyEvent], object] | None = None
        self._files: dict[Path | None, IO[bytes]] = {}
        if path is None:
            with contextlib.suppress(OSError):  # no room for it: the session is seen, only not saved from its start
                self._files[None] = tempfile.TemporaryFile(prefix="vtop-")
        else:
            self._files[path] = create(path)
        self.append(start)

    @property
    def saving_to(self) -> Path | None:
        """The file a person will find, or None."""
        return next((path for path in self._files if path is not None), None)

    def append(self, event: Event) -> None:
        with self._lock:
            self._last_t = max(self._last_t, round(self.clock(), 6))
            line = encode(msgspec.structs.replace(event, t=self._last_t))
            failed = self._write(line + b"\n")
            decoded = decode(line)
            self._fresh.append(decoded)
            if self._listener is not None:
                self._listener(decoded)
            for path, error in failed:
                where = "the temporary file" if path is None else str(path)
                self.append(Note(source="recording", text=f"{where}: {error}; no longer recorded there"))

    def listen(self, listener: Callable[[AnyEvent], object] | None) -> None:
        """Call this from now on when there is something to take; on the thread that appended it, so be quick."""
        self._listener = listener

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        with self._lock:
            return [self._fresh.popleft() for _ in range(min(limit, len(self._fresh)))]

    def save_to(self, path: Path) -> None:
        """Write the session from its beginning to a new file and go on writing there. Raises VtopError."""
        with self._lock:
            spool = self._files.get(None)
            if spool is None:
                raise VtopError(f"{path}: the beginning of this session is no longer at hand, nothing is saved")
            file = create(path)
            try:
                spool.seek(0)
                while chunk := spool.read(1 << 20):
                    file.write(chunk)
                file.flush()
            except OSError as error:
                _give_up(file)
                path.unlink(missing_ok=True)  # half a session under that name would only be in the way
                raise VtopError(f"{path}: {error.strerror or error}") from error
            finally:
                spool.seek(0, 2)
            self._files[path] = file

    def stop_saving(self) -> None:
        """Close the file that `save_to` opened, in good order; the session goes on."""
        with self._lock:
            path = self.saving_to
            if path is not None and path != self.path:
                file = self._files.pop(path)
                try:
                    file.write(encode(End(t=self._last_t, reason="recording stopped")) + b"\n")
                    file.close()
                except OSError as error:
                    _give_up(file)
                    self.append(Note(source="recording", text=f"{path}: {error.strerror or error}"))

    def close(self, reason: str) -> None:
        with self._lock:
            self.append(End(reason=reason))
            for file in self._files.values():
                _give_up(file)  # nobody is left to tell of an error
            self._files.clear()

    def _write(self, line: bytes) -> list[tuple[Path | None, str]]:
        """Write to every file; those that failed are given up and returned, with the reason."""
        failed = []
        for path, file in list(self._files.items()):
            try:
                file.write(line)
                file.flush()
            except OSError as error:
                _give_up(self._files.pop(path))
                failed.append((path, error.strerror or str(error)))
        return failed


def _give_up(file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        file.close()


def create(path: Path) -> IO[bytes]:
    """A new file to record into; compressed when it ends in .gz or .zst. Raises VtopError; overwrites nothing."""
    try:
        if path.suffix == ".gz":
            return gzip.GzipFile(path, "xb", compresslevel=6, mtime=0)  # type: ignore[return-value]
        raw = open(path, "xb")
    except FileExistsError as error:
        raise VtopError(f"{path}: exists already; name a new file, or remove it first") from error
    except OSError as error:
        raise VtopError(f"{path}: cannot be written ({error.strerror})") from error
    if path.suffix != ".zst":
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
            self._raw = open(path, "rb")
        except OSError as error:
            raise VtopError(f"{path}: cannot be read ({error.strerror})") from error
        self._lines: deque[bytes] = deque()
        self._pending = b""  # bytes of a line that has no end yet
        self._looked = b""  # what was pending at the end of the take before
        self._torn = False  # what is pending has been noted
        self._broken: str | None = None  # why the file cannot be read on
        self._line_number = 0
        self._last_t = 0.0
        self.faults: list[str] = []  # what was wrong with the lines so far, as the notes say: the first of it
        self.faulty = 0  # how many such notes there were
        self.backward = 0  # lines whose t was earlier than that of the line before
        try:
            self._inflate = _inflater(path)
            self.start = self._first()
        except VtopError:
            self._raw.close()
            raise

    @property
    def lines(self) -> int:
        """How many lines have been taken, unreadable ones included."""
        return self._line_number

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
                    events.append(event)
        if not events and self._broken is not None:
            events.append(self._note(f"not read on: {self._broken}"))
            self._broken, self._pending = None, b""
        if not events and self._pending and self._pending == self._looked and not self._torn:
            self._torn = True
            events.append(self._note(f"last line incomplete ({len(self._pending)} bytes), left out"))
        self._looked = self._pending
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
        line = self._lines[0] if self._lines else self._pending
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
        return start

    def _more(self) -> bool:
        """Read on; False at the end of what exists."""
        if self._raw.closed:
            return False
        try:
            chunk = self._raw.read(1 << 18)
            if not chunk:
                return False
            text = self._inflate(chunk)
        except (OSError, Undecodable) as error:
            self._break_off(str(error))
            return False
        if b"\n" not in text:  # a line longer than a chunk
            self._pending += text
            return True
        *lines, rest = (self._pending + text).split(b"\n")
        self._lines.extend(lines)
        self._pending, self._torn = rest, False
        return True

    def _break_off(self, why: str) -> None:
        self._broken = why
        self._raw.close()
        self._lines.clear()

    def _decoded(self, line: bytes) -> AnyEvent:
        try:
            event = decode(line)
        except ValueError as error:
            return self._note(f"line {self._line_number} cannot be read ({error}), left out")
        if event.t < self._last_t:  # cut and pasted by hand: order is the file's
            self.backward += 1
            if isinstance(event, Event):
                event = msgspec.structs.replace(event, t=self._last_t)
            else:
                event.t = self._last_t
        self._last_t = event.t
        return event

    def _note(self, text: str) -> Note:
        self.faulty += 1
        if len(self.faults) < _FAULTS_KEPT:
            self.faults.append(text)
        return Note(t=self._last_t, source="recording", text=text)


class Undecodable(Exception):
    """A compressed file holds something else than it should."""


def _inflater(path: Path) -> Callable[[bytes], bytes]:
    """What turns the file's bytes into text, chunk by chunk; a stream that breaks off gives what was whole."""
    if path.suffix == ".gz":
        stream = zlib.decompressobj(31)

        def gunzip(chunk: bytes) -> bytes:
            nonlocal stream
            try:
                text = stream.decompress(chunk)
                while stream.unused_data:  # a file joined from several
                    rest, stream = stream.unused_data, zlib.decompressobj(31)
                    text += stream.decompress(rest)
            except zlib.error as error:
                raise Undecodable(str(error)) from error
            return text

        return gunzip
    if path.suffix == ".zst":
        import zstandard

        frames = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

        def unzstd(chunk: bytes) -> bytes:
            try:
                return frames.decompress(chunk)
            except zstandard.ZstdError as error:
                raise Undecodable(str(error)) from error

        return unzstd
    return bytes


def events_of(recording: Recording) -> Iterator[AnyEvent]:
    """All events that exist so far, each once."""
    while taken := recording.take(_AT_ONCE):
        yield from taken
