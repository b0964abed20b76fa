"""The panel servers: a row a server, how it is and how old its latest scrape is."""

from __future__ import annotations

from vtop import units
from vtop.draw.grid import rows_of
from vtop.draw.panels.verdict_line import STATES
from vtop.draw.text import Column, Line, Piece
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

_SERVER = (
    Column("", 11, right=False),
    Column("server", 24, right=False),
    Column("age", 10, rank=1),
    Column("engines", 7, rank=3),
    Column("outages", 7, rank=4),
    Column("model", 20, right=False, rank=2),
)


def servers(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """A row a server: how it is, who it is and how old its latest scrape is."""
    rows: list[list[Piece]] = []
    for server in frame.servers:
        word, role = STATES.get(server.status.kind, ("note", "dim"))
        rows.append(
            [
                (f"{look.glyphs.signs[word]} {server.status.kind}", role),
                (server.url.removeprefix("http://"), "text"),
                (units.ago(server.age_s), "text" if server.status.fresh else "warn"),
                (units.count(server.engines), "text"),
                (units.count(server.outages), "text"),
                (", ".join(server.models) or units.UNKNOWN, "dim"),
            ]
        )
    return rows_of(look, width, height, _SERVER, rows)
