"""A file that a session is recorded into: each line is written at once, and waits in memory while the disk is full.

Every line ends a block of the compression, so that a file that is cut anywhere gives all of its whole lines.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from vtop import units
from vtop.errors import VtopError
from vtop.recording.inflate import inflater, suffix_of

STDOUT: Final = Path("-")
HELD_BYTES: Final = 32 << 20  # of lines that wait for room, hours of a usual session
_PASSES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EAGAIN)  # there may be room again


@dataclass(frozen=True, slots=True)
class Saved:
    """A file that was closed with all its lines: how long it is in session time, how large on the disk."""

    path: Path
    long_s: float
    size_bytes: int

    @property
    def words(self) -> str:
        """2:31, 1.20 MB"""
        return f"{units.clock(self.long_s)}, {units.bytes_(self.size_bytes)}"


class RecordingFile:
    """raw: unbuffered. suffix: of its name, which says how it is compressed. path: None for one without a name.

    begins_s: the session time of its first line.
    """

    def __init__(self, raw: IO[bytes], suffix: str = "", path: Path | None = None, *, begins_s: float = 0.0) -> None:
        self.path = path
        self.begins_s = begins_s
        self.waits_for: str | None = None  # why lines are held in memory, while they are
        self.held_lines = 0  # that the disk has not taken in full
        self._raw = raw
        self._suffix = suffix
        self._pack, self._end = _packer(suffix)
        self._held = bytearray()
        self._written = 0  # bytes

    def write(self, line: bytes) -> None:
        """Raises OSError when the file is lost: for a reason that does not pass, or when too much waits."""
        self._held += self._pack(line)
        self.held_lines += 1
        self._drain()

    @property
    def size_bytes(self) -> int:
        """On the disk."""
        return self._written

    def removed(self) -> str | None:
        """What somebody else did to the file that makes recording into it vain; None: nothing."""
        if self.path is None or self.path == STDOUT:
            return None
        now = os.fstat(self._raw.fileno())
        if now.st_nlink == 0:
            return "was removed"
        return "was shortened by another program" if now.st_size < self._written else None

    def content(self) -> Iterator[bytes]:
        """All lines so far, plain, in pieces."""
        inflate = inflater(self._suffix)
        self._raw.seek(0)
        try:
            while chunk := self._raw.read(1 << 18):
                yield from inflate(chunk)
            yield from inflate(bytes(self._held))
        finally:
            self._raw.seek(0, os.SEEK_END)

    def copy_to(self, target: Path) -> None:
        """What stands in the file now; nothing that is written meanwhile waits for it. Raises OSError."""
        at, ends = 0, os.fstat(self._raw.fileno()).st_size
        with target.open("wb") as copy:
            while at < ends and (chunk := os.pread(self._raw.fileno(), min(1 << 18, ends - at), at)):
                at += copy.write(chunk)

    def saved(self, until_s: float) -> Saved | None:
        """What stands in the file, once it is closed; None for one that nobody will find by a name."""
        if self.path is None or self.path == STDOUT:
            return None
        return Saved(self.path, until_s - self.begins_s, self._written)

    def close(self) -> None:
        """Raises OSError when lines are lost by that; a second time it does nothing."""
        if self._raw.closed:
            return
        try:
            self._held += self._end()
            self._drain()
            if self._held:
                raise OSError(errno.ENOSPC, self.waits_for or os.strerror(errno.ENOSPC))
        finally:
            self._raw.close()

    def _drain(self) -> None:
        try:
            while self._held:
                taken = self._raw.write(self._held)
                if not taken:
                    raise BlockingIOError(errno.EAGAIN, "nobody reads it")
                self._written += taken
                del self._held[:taken]
        except OSError as error:
            if error.errno not in _PASSES or len(self._held) > HELD_BYTES:
                raise
            self.waits_for = error.strerror
        else:
            self.waits_for, self.held_lines = None, 0


def new(path: Path) -> RecordingFile:
    """A new file to record into, compressed when it ends in .gz or .zst; "-" is stdout. Raises VtopError; overwrites
    nothing."""
    if path == STDOUT:
        sys.stdout.flush()
        return RecordingFile(os.fdopen(os.dup(1), "wb", buffering=0), path=path)
    try:
        return RecordingFile(open(path, "x+b", buffering=0), suffix_of(path), path)
    except FileExistsError as error:
        raise VtopError(f"{path}: exists already; name a new file, or remove it first") from error
    except (OSError, ValueError) as error:
        raise VtopError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from error


def unnamed() -> RecordingFile:
    """A file that is gone when vtop is. Raises OSError."""
    return RecordingFile(tempfile.TemporaryFile(prefix="vtop-", buffering=0))


def _packer(suffix: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    """What compresses a line such that it can be read at once, and what ends the file."""
    if suffix == ".gz":
        gzip = zlib.compressobj(6, zlib.DEFLATED, 31)
        return lambda line: gzip.compress(line) + gzip.flush(zlib.Z_SYNC_FLUSH), gzip.flush
    if suffix == ".zst":
        import zstandard

        zst = zstandard.ZstdCompressor().compressobj()
        block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return lambda line: zst.compress(line) + zst.flush(block), zst.flush
    return bytes, bytes
