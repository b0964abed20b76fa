"""Incidents: spans in which a server could not be read, or its engine did nothing."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.vocabulary import IncidentKind


@dataclass(frozen=True, slots=True, eq=False)
class Incident:
    """One of them, from the last scrape that was in order to the last that was not (bottleneck/incidents.py)."""

    kind: IncidentKind
    server: int
    begin_s: float
    end_s: float
    seconds: float
    over: bool  # False: it lasted to the end of what is known
    running: float | None  # requests when it began
    waiting: float | None
    detail: str | None  # what failed: the words of the first try, or the answer of /health
