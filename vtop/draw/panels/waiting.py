"""The card before the first scrape: each server that is waited for, the whole of its last error, and what to do."""

from __future__ import annotations

from typing import Final

from vtop.draw.text import Line, Phrase, Piece, blank, line, padded, width_of, wrapped
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

LEAST_ROWS: Final = 8
_INDENT: Final = 2
_TO_DO: Final = (
    ("start it", "and this screen begins by itself with the first answer"),
    ("vtop :8301", "where it listens on another port; vtop gpu7:8000 on another host"),
    ("vtop demo", "shows this screen with a simulated server, without a GPU"),
)


def awaited(frame: Frame) -> bool:
    """Whether there is nothing to show yet: no server has answered."""
    return frame.status.kind == "waiting" and frame.origin is None


def unasked(frame: Frame) -> bool:
    """Whether there will never be anything to show of a server: a load alone is on record."""
    return frame.status.kind == "blind" and all(server.age_s is None for server in frame.servers)


def waiting(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """A sentence a server, never cut while there are rows, and what a person can do about it."""
    inner = max(1, width - 2 * _INDENT)
    margin: Piece = (" " * _INDENT, "dim")
    lines = [blank(look, width)]
    for server in frame.servers:
        sign = f"{look.glyphs.signs['waiting']} "
        said = wrapped(look, inner - width_of(sign), height, [Phrase(0, ((server.status.sentence, "text"),))])
        for at, pieces in enumerate(said):
            lines.append(line(look, width, margin, (sign if at == 0 else " " * width_of(sign), "warn"), *pieces))
    lines.append(blank(look, width))
    face = max(len(command) for command, _ in _TO_DO) + 2
    for command, what in _TO_DO:
        for at, pieces in enumerate(wrapped(look, inner - face, 2, [Phrase(0, ((what, "dim"),))])):
            lines.append(line(look, width, margin, (padded(command if at == 0 else "", face), "mark"), *pieces))
    return (lines + [blank(look, width)] * (height - len(lines)))[:height]
