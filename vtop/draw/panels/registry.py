"""The table of panels, a row each: what it is called, how it is drawn, where it stands and how many rows it can use.

A panel is a function (frame, width, height, look) -> exactly `height` lines of exactly `width` cells, in a file of its
own. It draws from the frame alone, so drawing twice changes nothing; any width from 30 and height from 1 will do.
docs/adding-a-panel.md shows how one is added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from vtop.draw.panels import by_load, capacity, lora, speculation, waterfall
from vtop.draw.panels.engines import engines
from vtop.draw.panels.events import events
from vtop.draw.panels.fleet import fleet
from vtop.draw.panels.freshness import stands, window
from vtop.draw.panels.gpus import gpus, gpus_alone, watched
from vtop.draw.panels.heat_map import heat_map
from vtop.draw.panels.kv import kv, kv_alone
from vtop.draw.panels.latencies import latencies
from vtop.draw.panels.load import load, load_lines, phase
from vtop.draw.panels.requests import requests, rows_wide
from vtop.draw.panels.servers import servers
from vtop.draw.panels.sizes import Rows
from vtop.draw.panels.tokens import tokens, tokens_alone
from vtop.draw.panels.ttft import ttft, whose
from vtop.draw.panels.why import left_out, why
from vtop.draw.text import Line, blank
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

Draw = Callable[[Frame, int, int, Look], list[Line]]
Screen = Literal["narrow", "wide", "alone"]  # one column, two columns, one panel that has the whole body
TALL: Final = 46  # rows from which there is room for the reasons beside all else
FULL: Final = 56  # and for requests one by one


def nowhere(frame: Frame) -> Rows | None:
    return None


def nothing(frame: Frame) -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Panel:
    """One row of the table. Where `narrow` or `wide` answers None, the panel is not on such a screen."""

    name: str  # of --hide, and of the numbers in the glossary
    title: str
    draw: Draw
    column: Literal["left", "right"]
    narrow: Callable[[Frame], Rows | None]  # rows on a screen of one column, where panels have no heading
    wide: Callable[[Frame], Rows | None]  # rows on a screen of two columns, with the heading
    charted: tuple[Screen, ...] = ()  # where it has charts over time, and stands above the time axis
    role: str = "dim"  # the colour of its heading, one of theme.EDGES
    limits: tuple[str, ...] = ()  # of the verdict, that show on it: when one binds it is marked and has most rows
    notes: Callable[[Frame], list[str]] = window  # at the right end of its heading, the most important first
    of_servers: bool = True  # False: it goes on when a server has fallen silent
    from_rows: int = 0  # of a screen of two columns: on smaller ones it has what rows are over
    left_out: Callable[[Frame, int, int, Look], int] | None = None  # how many rows of it did not fit
    alone: Draw | None = None  # how it is drawn with the whole body, where that is otherwise


def _load_alone(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The load, and below it its requests one by one."""
    lines = load_lines(frame)
    if lines is None or height < lines + 6:
        return load(frame, width, height, look)
    below = height - lines - 1
    return [*load(frame, width, lines, look), blank(look, width), *waterfall.waterfall(frame, width, below, look)]


def _load_narrow(frame: Frame) -> Rows | None:
    return None if (lines := load_lines(frame)) is None else Rows(6, lines)


def _load_wide(frame: Frame) -> Rows | None:
    return None if (lines := load_lines(frame)) is None else Rows(lines + 1, lines + 1)


def _gpus_wide(frame: Frame) -> Rows:
    devices = len(frame.gpus.devices)
    return Rows(2 + min(devices, 8), 8 + devices, 2) if devices else Rows(2, 2)  # why there are none


def _engines_narrow(frame: Frame) -> Rows | None:
    many = len(frame.engines)
    return Rows(min(many, 4) + 1, many + 1) if many > 1 else None


def _engines_wide(frame: Frame) -> Rows | None:
    many = len(frame.engines)
    return Rows(min(many, 4) + 2, many + 2) if many > 1 else None


def _latencies_narrow(frame: Frame) -> Rows | None:
    return Rows(3, 8) if len(frame.engines) <= 1 else None


def _servers_alone(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    return (servers if frame.fleet is None else fleet)(frame, width, height, look)


def _sought(frame: Frame) -> list[str]:
    """Which rows of the table of servers are looked at, and in which order."""
    found = frame.fleet
    if found is None:
        return []
    here = f"{found.first + 1}–{found.first + len(found.rows)} of {len(found.order)}" if found.rows else "none"
    said = [here, f"by {found.view.order}"]
    if found.view.group is not None:
        said.append(f"grouped by {found.view.group}")
    return [*said, f"with {found.view.find!r}"] if found.view.find else said


def _servers_wide(frame: Frame) -> Rows | None:
    several = len(frame.servers)
    return Rows(min(several, 4) + 2, several + 2) if several > 1 else None


# In the order in which they stand in a column.
_ROWS: Final = (
    Panel("requests", "requests", requests, "left", lambda _: Rows(3, 4), rows_wide,
          charted=("narrow", "wide", "alone"), role="running",
          limits=("max-num-seqs", "deferred", "no-admission", "stuck")),
    Panel("kv", "KV cache", kv, "left", lambda _: Rows(1, 2), lambda _: Rows(5, 40, 2),
          charted=("narrow", "wide", "alone"), role="kv", limits=("kv",), alone=kv_alone),
    Panel("gpus", "GPU", gpus, "left", lambda frame: Rows(1, 1 + bool(frame.gpus.devices)), _gpus_wide,
          charted=("narrow", "wide", "alone"), role="power", limits=("power", "gpu"), notes=watched, of_servers=False,
          alone=gpus_alone),
    Panel("ttft", "time to first token", ttft, "right", lambda _: Rows(2, 5), lambda _: Rows(6, 40, 2),
          charted=("wide", "alone"), role="queue", limits=("frontend",), notes=whose),
    Panel("tokens", "tokens", tokens, "right", lambda _: Rows(2, 3), lambda _: Rows(6, 60, 2),
          charted=("narrow", "wide", "alone"), role="generation", limits=("token-budget", "prefilling"),
          alone=tokens_alone),
    Panel("load", "load", load, "right", _load_narrow, _load_wide,
          role="mark", limits=("client",), notes=phase, of_servers=False, alone=_load_alone),
    Panel("capacity", "capacity", capacity.capacity, "right", capacity.rows_narrow, capacity.rows_wide,
          role="mark", notes=capacity.at_stake, of_servers=False),
    Panel("latencies", "latencies", latencies, "left", _latencies_narrow, lambda _: Rows(9, 9, 0),
          charted=("alone",), role="queue", alone=heat_map),
    Panel("by_load", "TTFT by load", by_load.by_load, "right", nowhere, by_load.rows,
          role="queue", notes=nothing, from_rows=TALL),
    Panel("servers", "servers", servers, "left", nowhere, _servers_wide,
          role="network", notes=_sought, of_servers=False, alone=_servers_alone),
    Panel("engines", "engines", engines, "right", _engines_narrow, _engines_wide, role="network"),
    Panel("waterfall", "slowest requests", waterfall.waterfall, "right", nowhere, waterfall.rows_wide, role="queue",
          notes=waterfall.counted, of_servers=False, from_rows=FULL),
    Panel("speculation", "speculative decoding", speculation.speculation, "right",
          speculation.rows_narrow, speculation.rows_wide, role="generation"),
    Panel("lora", "LoRA adapters", lora.lora, "right", lora.rows_narrow, lora.rows_wide, role="mark", notes=nothing),
    Panel("events", "events", events, "right", lambda _: Rows(1, 40), lambda _: Rows(3, 99),
          notes=nothing, of_servers=False),
    Panel("why", "why", why, "left", nowhere, lambda _: Rows(4, 18), role="mark", from_rows=TALL, left_out=left_out),
)  # fmt: skip
PANELS: Final[dict[str, Panel]] = {panel.name: panel for panel in _ROWS}


def heading_notes(panel: Panel, frame: Frame) -> list[str]:
    """What stands at the right end of a panel's heading: first of all that it stands still, where it does."""
    still = stands(frame) if panel.of_servers else ""
    return [still, *panel.notes(frame)] if still else panel.notes(frame)
