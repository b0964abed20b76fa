"""A fault of vtop's own: its traceback goes to a log file, a person gets one line, and the program's exit code says it.

What goes wrong in the world is an event of the recording, and what a user asked for wrongly a VtopError; this is the
rest. The line names the kind of the error and where it happened, never its text: that may hold a key.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from pathlib import Path
from typing import Final

from vtop import xdg

LOG_LIMIT_BYTES: Final = 1 << 20  # then it becomes faults.log.1, and a new one begins
_PACKAGE: Final = f"{Path(__file__).parent}{os.sep}"
_MOST: Final = 100  # different faults of a process

told: list[str] = []  # the lines of this process so far, each fault once; VtopGroup turns them into an exit code

_seen: set[tuple[str, str]] = set()


def log_path() -> Path:
    """Where tracebacks go: vtop/faults.log in XDG_STATE_HOME, or in ~/.local/state."""
    return xdg.state_folder() / "faults.log"


def put_down(error: BaseException, doing: str) -> str:
    """Log the traceback, once for each place it comes from; the line for a person. Nothing raises."""
    error = _innermost(error)
    place = _place(error)
    logged = (place, doing) in _seen or _log(error, doing)
    kind = type(error).__name__
    line = f"vtop itself failed {doing} ({kind} in {place})"
    line += f"; the traceback is in {log_path()}" if logged else ""
    if len(_seen) < _MOST:
        _seen.add((place, doing))
    if line not in told and len(told) < _MOST:
        told.append(line)
    return line


def _innermost(error: BaseException) -> BaseException:
    """Of errors in a group, which asyncio makes, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _place(error: BaseException) -> str:
    """The last line of vtop's own that it passed: server.py:87."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_PACKAGE)] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "an unknown place"


def _log(error: BaseException, doing: str) -> bool:
    path = log_path()
    text = "".join(traceback.format_exception(error, limit=-50))  # of an endless recursion, its end
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    entry = f"{at} UTC, pid {os.getpid()}, {doing}\n{text}\n".encode("utf-8", "replace")
    with contextlib.suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
            path.replace(path.with_suffix(".log.1"))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(entry)
        return True
    return False
