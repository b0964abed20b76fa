"""A name that no file has yet."""

from __future__ import annotations

from itertools import count
from pathlib import Path


def free_name(folder: Path, name: str, ending: str) -> Path:
    """In this folder: name, name-2, name-3 … with the ending, such as ".svg"."""
    names = (f"{name}{f'-{number}' if number > 1 else ''}{ending}" for number in count(1))
    return next(path for one in names if not (path := folder / one).exists())
