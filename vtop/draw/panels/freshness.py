"""Whether what a server says is of now, in the words that stand in headings and before a time axis."""

from __future__ import annotations

from vtop import units
from vtop.session.frame.frame import Frame


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


def as_of(frame: Frame) -> str:
    """What `stands` says, in the cells before an axis: the GPUs' numbers, which go on, stand above it too."""
    scrape_s = latest_scrape_s(frame)
    if scrape_s is None:
        return "server stands" if stands(frame) else ""
    said = units.clock(scrape_s)
    return f"server as of {said}" if len(said) < 6 else f"as of {said}"


def window(frame: Frame) -> list[str]:
    """How long a span the servers' numbers are about."""
    return [f"last {units.span(frame.window_s)}"]
