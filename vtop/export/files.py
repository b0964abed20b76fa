"""Files that an export makes: each appears under its name when it is complete, and none is overwritten unasked."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from vtop.errors import VtopError
from vtop.recording.recording import create

STDOUT = Path("-")


def refuse_existing(paths: list[Path]) -> None:
    """Raises VtopError where one of them is there, before any work is done."""
    for path in paths:
        if path != STDOUT and os.path.lexists(path):
            raise VtopError(f"{path}: exists already; name a new file, remove it first, or say --force")


@contextlib.contextmanager
def new_file(path: Path, *, force: bool, packed: bool = True) -> Iterator[IO[bytes]]:
    """A file to write into, compressed (if packed) when its name ends in .gz or .zst; "-" is stdout.

    Until it is complete it has another, hidden name beside its own; when the writing fails nothing is left of it.
    Raises VtopError.
    """
    if path == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.is_dir():
        raise VtopError(f"{path}: is a folder; name a file")
    if not force:
        refuse_existing([path])
    unfinished = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        file = create(unfinished, packed=packed)
    except VtopError as error:
        raise VtopError(str(error).replace(str(unfinished), str(path))) from error
    try:
        with file:
            yield file
        os.replace(unfinished, path)
    except OSError as error:
        raise VtopError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        unfinished.unlink(missing_ok=True)


def table_path(out: Path, folder: bool, table: str, suffix: str) -> Path:
    """Where a table goes: FOLDER/samples.csv, or PREFIX-samples.csv."""
    return out / f"{table}{suffix}" if folder else out.with_name(f"{out.name}-{table}{suffix}")
