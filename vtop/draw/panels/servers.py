"""The panel servers: a row a server, those in trouble on top: what each does, and how old its latest scrape is."""

from __future__ import annotations

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import rows_of
from vtop.draw.panels.verdict_line import STATES
from vtop.draw.text import Column, Line, Piece, padded, width_of
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame
from vtop.session.frame.servers import ServerLoad, ServerPart

_METER = 4  # cells of the bar of KV use
_SERVER = (
    Column("", 1, right=False),
    Column("server", 20, right=False),
    Column("run", 4),
    Column("wait", 5),
    Column("KV", _METER + 6, right=False, rank=1),
    Column("age", 7, rank=2),
    Column("tok/s", 7, rank=3),
    Column("TTFT", 7, rank=4),
    Column("engines", 7, rank=6),
    Column("outages", 7, rank=7),
    Column("model", 20, right=False, rank=5),
)
_AT_WORK = ("busy", "idle")  # that need no word
_UNKNOWN = ServerLoad(None, None, None, None, None)


def servers(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """A row a server. Of one that does not answer only its own row is dim."""
    return rows_of(look, width, height, _SERVER, [_row(server, look) for server in ordered(frame)])


def ordered(frame: Frame) -> list[ServerPart]:
    """Those in trouble first."""
    return sorted((server for server in frame.servers if server.watched), key=_calm)


def _calm(server: ServerPart) -> tuple[bool, float, float]:
    """Those that do not answer first, then those with most waiting, then the fullest."""
    does = server.load or _UNKNOWN
    return server.status.fresh, -(does.waiting or 0.0), -(does.kv_used_ratio or 0.0)


def _row(server: ServerPart, look: Look) -> list[Piece]:
    word, role = STATES.get(server.status.kind, ("note", "dim"))
    fresh, does = server.status.fresh, server.load or _UNKNOWN
    text, number = ("text", "number") if fresh else ("dim", "dim")
    filled, _ = chart.meter(does.kv_used_ratio, _METER, look.glyphs)
    kv = f"{padded(filled, _METER)} {padded(units.whole_percent(does.kv_used_ratio), 5, right=True)}"
    name = server.url.removeprefix("http://")
    state = "" if server.status.kind in _AT_WORK else f" {server.status.kind}"
    if width_of(name + state) > _SERVER[1].width:  # its sign says it
        state = ""
    return [
        (look.glyphs.signs[word], role),
        (name + state, text if fresh else role),
        (units.short_count(does.running), number),
        (units.short_count(does.waiting), number),
        (kv, "kv" if fresh else "dim"),
        (units.span(server.age_s), text if fresh else "warn"),
        (units.short(does.generation_per_s), text),
        (units.seconds(does.ttft_s), text),
        (units.count(server.engines), text),
        (units.count(server.outages), text),
        (f"{server.side or ''} {', '.join(server.models) or units.UNKNOWN}".strip(), "dim"),
    ]
