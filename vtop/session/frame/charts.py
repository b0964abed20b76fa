"""The columns of the charts and the list of events in a frame."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.vocabulary import LoggedKind

Points = tuple[float | None, ...]  # one per chart column, oldest first; None is a gap


@dataclass(frozen=True, slots=True, eq=False)
class Charts:
    """Columns of one shared time axis. Column i ends at end_s - (n - 1 - i) * column_s.

    Boundaries stand at whole multiples of column_s of session time, so a spike never moves within its column; the
    last column is the latest complete one. Gauges show the highest value in a column, rates the exact mean.
    """

    end_s: float
    column_s: float
    running: Points
    waiting: Points
    kv_used: Points
    generation_per_s: Points
    prompt_per_s: Points
    preemptions: Points  # since vtop attached
    preempted: Points  # in the column
    decode_per_step: Points
    prefill_per_step: Points
    queue_s: Points
    prefill_s: Points
    frontend_s: Points
    power_w: Points
    sm_mhz: Points
    marks: tuple[tuple[int, LoggedKind], ...]  # column, and which of event_log.MARKED
    temp_c: Points = ()  # of the hottest GPU
    running_then: Points = ()  # on the scrape of the column with most running + waiting: what may be stacked
    waiting_then: Points = ()


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """A latency's observations by bucket in each column of two chart columns, the latest last (heat_maps.py)."""

    name: str
    le: tuple[float, ...]  # seconds: upper bounds
    n: tuple[float, ...]  # in the window, by bucket: one more than there are bounds
    columns: tuple[
        tuple[float, ...] | None, ...
    ]  # likewise; None is a gap. One shorter than a scrape's interval has those
    # of the step that it lies in, so that columns do not add up to n


@dataclass(frozen=True, slots=True, eq=False)
class LoggedEvent:
    """A line of the event list."""

    at_s: float
    kind: LoggedKind
    text: str
