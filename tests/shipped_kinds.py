"""The recordings that come with vtop, one of each kind of session.

What is true of a recording for being one (replay equals live, every form gives the same digits) is tried on these; the
others are the same kind of session on another day, and would only take longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "recordings"
ALIKE = {
    "open_loop_again": "open_loop",
    "open_loop_seats48": "open_loop",
    "overload_seqs10": "overload_loaded",
    "overload_seqs12": "overload_loaded",
    "pool7168": "sweep",
    "repeat_first": "sweep",
    "repeat_second": "sweep",
    "sweep_again": "sweep",
    "sweep_batch1024": "sweep_batch512",
    "sweep_batch512_again": "sweep_batch512",
}


def name(path: Path) -> str:
    return path.name.partition(".")[0]


ALL = sorted(FOLDER.glob("*.jsonl*"))
KINDS = [path for path in ALL if name(path) not in ALIKE]
LONG = ("open_loop", "overload_loaded", "sweep", "sweep_batch512")  # seconds a test each: run with the slow ones
EACH = [pytest.param(path, id=name(path), marks=[pytest.mark.slow] if name(path) in LONG else []) for path in KINDS]
