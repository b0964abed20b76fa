"""What a screen looked like when it was left: theme, window, hidden panels; the next one begins so."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from vtop import small_file, xdg


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    """None and (): nothing to remember. What is asked for on the command line or in the settings comes first."""

    theme: str | None = None
    window_s: float | None = None  # None: it grows with the session
    hidden: tuple[str, ...] = ()


def path() -> Path:
    return xdg.state_folder() / "screen.json"


def load() -> Remembered:
    """Nothing where there is no such file, or one that means nothing to this vtop."""
    with contextlib.suppress(OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return msgspec.json.decode(small_file.read_own(path()), type=Remembered)
    return Remembered()


def keep(**changes: object) -> None:
    """Remember what changed. Where it cannot be written, the next screen begins as before."""
    kept = msgspec.structs.replace(load(), **changes)
    with contextlib.suppress(OSError):
        path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = path().with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(kept) + b"\n")
        beside.replace(path())
