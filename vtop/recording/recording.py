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
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from vtop.errors import VtopError
from vtop.recording.events import FORMAT, AnyEvent, End, Event, Note, Start, decode, encode


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
        self._clock = clock
        self._lock = threading.RLock()
        self._last_t = 0.0
        self._fresh: deque[AnyEvent] = deque()
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
            self._last_t = max(self._last_t, round(self._clock(), 6))
            line = encode(msgspec.structs.replace(event, t=self._last_t))
            failed = self._write(line + b"\n")
            self._fresh.append(decode(line))
            for path, error in failed:
                del self._files[path]
                where = "the temporary file" if path is None else str(path)
                self.append(Note(source="recording", text=f"{where}: {error}; no longer recorded there"))

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
                file.close()
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
                    self.append(Note(source="recording", text=f"{path}: {error}"))

    def close(self, reason: str) -> None:
        with self._lock:
            self.append(End(reason=reason))
            for file in self._files.values():
                try:
                    file.close()
                except OSError:
                    continue  # nobody is left to tell
            self._files.clear()

    def _write(self, line: bytes) -> list[tuple[Path | None, str]]:
        failed = []
        for path, file in self._files.items():
            try:
                file.write(line)
                file.flush()
            except OSError as error:
                failed.append((path, error.strerror or str(error)))
        return failed


def create(path: Path) -> IO[bytes]:
    """A new file to record into; compressed when it ends in .gz or .zst. Raises VtopError; overwrites nothing."""
    try:
        raw = open(path, "xb")
    except FileExistsError as error:
        raise VtopError(f"{path}: exists already; name a new file, or remove it first") from error
    except OSError as error:
        raise VtopError(f"{path}: cannot be written ({error.strerror})") from error
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0)  # type: ignore[return-value]
    if path.suffix == ".zst":
        return _zstandard(path).ZstdCompressor().stream_writer(raw)  # type: ignore[no-any-return]
    return raw


class FileRecording:
    """A recording in a file, finished or still growing. Raises VtopError when it is none.

    A line that cannot be read is a note and is left out; so is a last line that was never finished.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._raw = open(path, "rb")
        except OSError as error:
            raise VtopError(f"{path}: cannot be read ({error.strerror})") from error
        self._inflate = _inflater(path)
        self._pending = b""  # bytes of a line that has no end yet
        self._noted = b""
        self._lines: deque[bytes] = deque()
        self._line_number = 0
        self._last_t = 0.0
        self.start = self._first()

    @property
    def read_ratio(self) -> float:
        """How much of the file has been read, 0 to 1."""
        size = self.path.stat().st_size
        return min(1.0, self._raw.tell() / size) if size else 1.0

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        while len(events) < limit:
            if not self._lines and not self._more():
                if self._pending and self._pending != self._noted:
                    self._noted = self._pending
                    text = f"last line incomplete ({len(self._pending)} bytes), dropped"
                    events.append(Note(t=self._last_t, source="recording", text=text))
                break
            line = self._lines.popleft()
            self._line_number += 1
            if line:
                events.append(self._decoded(line))
        return events

    def close(self) -> None:
        self._raw.close()

    def _first(self) -> Start:
        while not self._lines and self._more():
            pass
        expected = f"{self.path}: not a vtop recording"
        if not self._lines:
            what = "its first line is not finished" if self._pending else "it is empty"
            raise VtopError(f"{expected} ({what})")
        try:
            first = decode(self._lines[0])
        except (ValueError, msgspec.DecodeError) as error:
            raise VtopError(f"{expected} (its first line is not JSON of type start)") from error
        if not isinstance(first, Start):
            raise VtopError(f"{expected} (its first line is not of type start)")
        if first.format > FORMAT:
            raise VtopError(
                f"{self.path}: recorded by vtop {first.vtop} in format {first.format}, this vtop reads up to "
                f"{FORMAT}; use a newer vtop"
            )
        return first

    def _more(self) -> bool:
        """Read on; False at the end of what exists."""
        try:
            chunk = self._raw.read(1 << 18)
            if not chunk:
                return False
            text = self._pending + self._inflate(chunk)
        except (OSError, zlib.error) as error:
            raise VtopError(f"{self.path}: cannot be read ({error})") from error
        *lines, self._pending = text.split(b"\n")
        self._lines.extend(lines)
        return True

    def _decoded(self, line: bytes) -> AnyEvent:
        try:
            event = decode(line)
        except ValueError as error:
            text = f"line {self._line_number} cannot be read ({error}), left out"
            return Note(t=self._last_t, source="recording", text=text)
        if event.t < self._last_t:  # cut and pasted by hand: order is the file's
            if isinstance(event, Event):
                event = msgspec.structs.replace(event, t=self._last_t)
            else:
                event.t = self._last_t
        self._last_t = event.t
        return event


def _inflater(path: Path) -> Callable[[bytes], bytes]:
    """What turns the file's bytes into text, chunk by chunk; a stream that breaks off gives what was whole."""
    if path.suffix == ".gz":
        stream = zlib.decompressobj(31)

        def inflate(chunk: bytes) -> bytes:
            nonlocal stream
            text = stream.decompress(chunk)
            while stream.unused_data:  # a file joined from several
                rest, stream = stream.unused_data, zlib.decompressobj(31)
                text += stream.decompress(rest)
            return text

        return inflate
    if path.suffix == ".zst":
        return _zstandard(path).ZstdDecompressor().decompressobj().decompress  # type: ignore[no-any-return]
    return bytes


def _zstandard(path: Path) -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise VtopError(f"{path}: .zst needs the package zstandard: pip install 'vtop[zstd]'") from error
    return zstandard
