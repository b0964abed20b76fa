"""vtop: the instrument panel of a vLLM server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from vtop.export.notebook import OpenedRecording

__version__ = "0.1.0"


def open(path: str | PathLike[str]) -> OpenedRecording:
    """A recording for a notebook: its session, its frames at any instant, its tables (docs/export.md)."""
    from vtop.export.notebook import open_recording

    return open_recording(path)
