"""The panel engines: a row an engine, with a sign at those that have much more or less to do."""

from __future__ import annotations

from vtop import units
from vtop.draw.grid import rows_of, seen
from vtop.draw.text import Column, Line, Piece
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame
from vtop.session.frame.servers import EnginePart

_ENGINE = (
    Column("engine", 6, right=False),
    Column("running", 7),
    Column("waiting", 7),
    Column("KV", 7),
    Column("out /s", 7, rank=2),
    Column("share", 14, right=False, rank=1),
)


def engines(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """A row an engine, with a sign at those that have much more or less to do than the others."""
    look = seen(frame, look)
    side = {server.index: server.side for server in frame.servers}
    several = len(frame.servers) > 1
    rows: list[list[Piece]] = []
    for engine in frame.engines:
        alike = [_requests(one) or 0.0 for one in frame.engines if side.get(one.server) == side.get(engine.server)]
        name = f"{engine.server}·{engine.name}" if several else engine.name
        rows.append(
            [
                (name, "text"),
                (units.short_count(engine.running), "number"),
                (units.short_count(engine.waiting), "number"),
                (units.percent(engine.kv_used_ratio), "number"),
                (units.short(engine.generation_per_s), "number"),
                _skew(engine, sum(alike) / len(alike)),
            ]
        )
    return rows_of(look, width, height, _ENGINE, rows)


def _requests(engine: EnginePart) -> float | None:
    known = [value for value in (engine.running, engine.waiting) if value is not None]
    return sum(known) if known else None


def _skew(engine: EnginePart, mean: float) -> Piece:
    asked = _requests(engine)
    if asked is None or mean < 2:  # of a few requests an uneven share says nothing
        return ("", "dim")
    times = asked / mean
    if times >= 1.5:
        return (f"▲ {units.number(times)} × mean", "warn")
    if times <= 0.5:
        return (f"▼ {units.number(times)} × mean", "warn")
    return ("even", "dim")
