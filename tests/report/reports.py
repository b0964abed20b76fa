"""Reports of the recordings that come with vtop, each made once, and of small sessions made by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.shipped_kinds import KINDS, name
from vtop.recording import FileRecording
from vtop.report.model import Report, build
from vtop.session.session import Session, read

FOLDER = Path(__file__).parents[2] / "recordings"
NAMES = tuple(map(name, KINDS))


def path_of(name: str) -> Path:
    return next(FOLDER.glob(f"{name}.jsonl*"))


@cache
def report_of(name: str) -> Report:
    return made(path_of(name))


def made(path: Path) -> Report:
    recording = FileRecording(path)
    try:
        return build(recording, path.name)
    finally:
        recording.close()


@cache
def session_of(name: str) -> Session:
    recording = FileRecording(path_of(name))
    try:
        return read(recording)
    finally:
        recording.close()
