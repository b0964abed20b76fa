"""The panels of the screen: (frame, width, height, look) -> exactly `height` lines of exactly `width` cells.

They draw from the frame alone, so drawing twice changes nothing; any width from 30 and height from 1 will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vtop import units
from vtop.draw.flow import axis, kv, requests, tokens
from vtop.draw.lines import Line
from vtop.draw.load import load
from vtop.draw.look import Look
from vtop.draw.machines import engines, gpus, servers
from vtop.draw.rows import chart_columns
from vtop.draw.story import events, header, status
from vtop.draw.times import latencies, ttft
from vtop.draw.why import why
from vtop.session.frame import Frame

__all__ = [
    "PANELS", "Panel", "axis", "chart_columns", "engines", "events", "gpus", "header", "kv", "latencies", "load",
    "note", "requests", "servers", "status", "tokens", "ttft", "why",
]  # fmt: skip

Panel = Callable[[Frame, int, int, Look], list[Line]]

# Name -> title, panel.
PANELS: Final[Mapping[str, tuple[str, Panel]]] = {
    "header": ("", header),
    "status": ("", status),
    "requests": ("requests", requests),
    "kv": ("KV cache", kv),
    "gpus": ("GPU", gpus),
    "axis": ("", axis),
    "ttft": ("time to first token", ttft),
    "tokens": ("tokens", tokens),
    "latencies": ("latencies", latencies),
    "load": ("load", load),
    "engines": ("engines", engines),
    "servers": ("servers", servers),
    "events": ("events", events),
    "why": ("why", why),
}


def note(name: str, frame: Frame) -> str:
    """What stands at the right end of a panel's heading: of what time or of whom it tells."""
    window = f"last {units.uptime(frame.window_s)}"
    if name == "ttft":
        return f"{units.count(frame.ttft.finished)} finished in {units.uptime(frame.window_s)}"
    if name == "load" and frame.load is not None:
        return f"phase {frame.load.phase + 1} · {units.clock(frame.load.elapsed_s)}"
    if name == "gpus":
        return "" if frame.gpus.local else "this host"
    return window if name in ("requests", "latencies", "why") else ""
