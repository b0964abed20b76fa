"""A file that a person names: never more of it read whole than it may have, and never waited at for ever."""

from __future__ import annotations

import errno
import os
import select
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 8 << 20
PATIENCE_S: Final = 10.0  # since the latest bytes of a pipe or a terminal


def read_bytes(path: Path, limit_bytes: int = LIMIT_BYTES, *, patience_s: float = PATIENCE_S) -> bytes:
    """All of it; a pipe, as of the shell's <(…), to its end. Raises OSError, its strerror in words for a person."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
        content = bytearray()
        while len(content) <= limit_bytes:
            if not select.select([file], [], [], patience_s)[0]:
                raise OSError(errno.ETIMEDOUT, f"nothing came for {patience_s:g} s", str(path))
            chunk = file.read(min(1 << 20, limit_bytes + 1 - len(content)))
            if chunk == b"":
                return bytes(content)
            content += chunk or b""
    raise OSError(errno.EFBIG, f"larger than {limit_bytes >> 20} MiB, not read", str(path))


def opened(path: Path, *, patience_s: float = PATIENCE_S) -> BufferedReader:
    """A file of any length, to be read bit by bit. Raises OSError, also where it is a pipe into which nobody writes."""
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not select.select([file], [], [], patience_s)[0]:
        file.close()
        raise OSError(errno.ETIMEDOUT, f"nothing came for {patience_s:g} s", str(path))
    os.set_blocking(file.fileno(), True)
    return file


def appending(path: Path) -> BufferedWriter:
    """To be written to at its end. Raises OSError, also for a pipe from which nobody reads: it is not waited at."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(path, flags, 0o666), "ab")


def read_text(path: Path, limit_bytes: int = LIMIT_BYTES, *, errors: str = "strict") -> str:
    """The same as UTF-8. Raises OSError, UnicodeDecodeError."""
    return read_bytes(path, limit_bytes).decode("utf-8", errors)


def read_own(path: Path) -> str:
    """A file of vtop's own folders as UTF-8: small, and no pipe that is worth waiting at. Raises OSError,
    UnicodeDecodeError."""
    return read_bytes(path, 1 << 20, patience_s=0.2).decode("utf-8")
