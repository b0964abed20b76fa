"""The panels of the screen: (frame, width, height, look) -> exactly `height` lines of exactly `width` cells.

They draw from the frame alone, so drawing twice changes nothing; any width from 30 and height from 1 will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vtop import units
from vtop.draw.grid import chart_columns
from vtop.draw.panels.flow import axis, kv, requests, tokens
from vtop.draw.panels.load import load
from vtop.draw.panels.machines import engines, gpus, servers
from vtop.draw.panels.story import events, header, status
from vtop.draw.panels.times import latencies, ttft
from vtop.draw.panels.why import left_out, why
from vtop.draw.text import Line
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

__all__ = [
    "PANELS", "Panel", "axis", "chart_columns", "engines", "events", "gpus", "header", "kv", "latencies",
    "latest_scrape_s", "left_out", "load", "notes", "requests", "servers", "stands", "status", "tokens", "ttft", "why",
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


_OF_THE_SERVERS: Final = ("requests", "kv", "ttft", "tokens", "latencies", "engines", "why")


def notes(name: str, frame: Frame) -> list[str]:
    """What stands at the right end of a panel's heading, the most important first: whether it stands still, of what
    time or of whom it tells. A panel of the GPUs or of vtop's own load goes on when a server has fallen silent."""
    window = f"last {units.span(frame.window_s)}"
    if name == "ttft":
        window = f"{units.count(frame.ttft.finished)} finished in {units.span(frame.window_s)}"
    if name in _OF_THE_SERVERS:
        still = stands(frame)
        return [still, window] if still else [window]
    if name == "load" and frame.load is not None:
        return [f"phase {frame.load.phase + 1} · {units.clock(frame.load.elapsed_s)}"]
    if name == "gpus" and frame.gpus.devices:
        window = f"last {units.span(min(frame.asked_window_s, frame.now_s))}"  # read from the session's beginning on
        return [window] if frame.gpus.local else ["this host", window]
    return []


def stands(frame: Frame) -> str:
    """That what the servers say stands still, and since when; nothing when it does not."""
    if frame.status.fresh or frame.status.kind == "waiting":
        return ""
    if (scrape_s := latest_scrape_s(frame)) is None:
        return "stands still"  # scrapes come, and their numbers do not move or mean nothing
    who = f"server {frame.status.server + 1} stands" if len(frame.servers) > 1 else "stands"
    return f"{who} since {units.clock(scrape_s)}"


def latest_scrape_s(frame: Frame) -> float | None:
    """When the server that is down gave its latest scrape; None when none is down."""
    at = frame.status.server
    age_s = frame.servers[at].age_s if frame.status.kind == "down" and at < len(frame.servers) else None
    return None if age_s is None else frame.now_s - age_s
