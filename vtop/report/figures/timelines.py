"""The figures over time: the session, its cards, where the requests are, the preemption cycle and the staircase."""

from __future__ import annotations

from itertools import accumulate
from statistics import fmean

from vtop import units
from vtop.report.figures.figure import Figure, Panel, Point, Rule, Series
from vtop.report.model import Report
from vtop.session.frame.charts import Charts, Points


def session(report: Report) -> Figure | None:
    """Running, waiting, KV and preemptions over the whole recording."""
    charts = report.timeline
    if charts is None:
        return None
    requests = Panel(
        "requests",
        (
            Series("running", "running", _over(charts, charts.running)),
            Series("waiting", "waiting", _over(charts, charts.waiting)),
        ),
    )
    kv = Panel("KV use", (Series("KV", "kv", _over(charts, charts.kv_used)),), top=1.0, unit="share")
    stair = Panel(
        "preemptions so far", (Series("preemptions", "preemption", _over(charts, charts.preemptions), "step"),)
    )
    run = report.run
    return Figure(
        key="session",
        title="The whole session",
        caption=(
            f"Each column is {units.seconds(charts.column_s)} wide and shows the highest page in it; grey stretches "
            "are the phases. A blank is a gap in the recording."
        ),
        alt=(
            f"Running {_span(charts.running)}, waiting {_span(charts.waiting)}, KV use {_share(charts.kv_used)}, "
            f"{units.count(run.preemptions if run is not None else None)} preemptions in "
            f"{units.clock(report.seconds)}."
        ),
        x_title="time in the session",
        x_kind="time",
        panels=(requests, kv, stair),
        shades=tuple((phase.begin_s, phase.end_s, phase.label) for phase in report.phases),
    )


def cards(report: Report) -> Figure | None:
    """Power, clock and temperature, with the power limit."""
    charts = report.timeline
    if charts is None or not any(value is not None for value in charts.power_w):
        return None
    limit = report.power_limit_w
    rules = (Rule(f"limit {units.watts(limit)}", "limit", limit),) if limit is not None else ()
    counted = "card" if len(report.cards) == 1 else "cards counted"
    return Figure(
        key="cards",
        title="Power, clock and temperature",
        caption=(
            f"Of the {counted}: power added up, the fastest SM clock, the hottest temperature; "
            "the highest reading of a column."
        ),
        alt=(
            f"Power {_span(charts.power_w)} W with a limit of {units.watts(limit)}; SM clock {_span(charts.sm_mhz)} "
            f"MHz; temperature {_span(charts.temp_c)} °C."
        ),
        x_title="time in the session",
        x_kind="time",
        panels=(
            Panel("power, W", (Series("power", "power", _over(charts, charts.power_w)),), rules),
            Panel("SM clock, MHz", (Series("clock", "prefill", _over(charts, charts.sm_mhz)),)),
            Panel("temperature, °C", (Series("temperature", "bad", _over(charts, charts.temp_c)),)),
        ),
        shades=tuple((phase.begin_s, phase.end_s, phase.label) for phase in report.phases),
    )


def residents(report: Report) -> Figure | None:
    """Where the requests are: running upon waiting."""
    charts = report.timeline
    if charts is None or not any(charts.waiting):
        return None
    return Figure(
        key="residents",
        title="Where the requests are: running and waiting, stacked",
        caption="What runs holds KV blocks; what waits holds a connection and nothing else.",
        alt=f"Running {_span(charts.running)} below, waiting {_span(charts.waiting)} on top of it.",
        x_title="time in the session",
        x_kind="time",
        panels=(
            Panel(
                "requests",
                (
                    Series("running", "running", _over(charts, charts.running), "area"),
                    Series("waiting", "waiting", _over(charts, charts.waiting), "area"),
                ),
                stacked=True,
            ),
        ),
        shades=tuple((phase.begin_s, phase.end_s, phase.label) for phase in report.phases),
    )


def cycle(report: Report) -> Figure | None:
    """A few preemptions, page by page."""
    charts, stair = report.zoom, report.staircase
    if charts is None:
        return None
    begin_s = charts.end_s - charts.column_s * len(charts.kv_used)
    shown = tuple(one.at_s for one in stair.events if begin_s <= one.at_s <= charts.end_s)
    trigger = stair.trigger_mean_ratio
    rules = (Rule(f"trigger {units.percent(trigger)}", "limit", trigger),) if trigger is not None else ()
    return Figure(
        key="cycle",
        title="The preemption cycle, page by page",
        caption=(
            f"{units.clock(begin_s)} to {units.clock(charts.end_s)}, a page a point; an upright line is a preemption. "
            + (f"The cycle: {stair.cycle}." if stair.cycle else "Not regular enough to be called a cycle.")
        ),
        alt=(
            f"{len(shown)} preemptions; KV use {_share(charts.kv_used)}, running {_span(charts.running)}. KV use "
            f"before one is {units.percent(trigger)} on average."
        ),
        x_title="time in the session",
        x_kind="time",
        panels=(
            Panel("KV use", (Series("KV", "kv", _over(charts, charts.kv_used), "line"),), rules, top=1.0, unit="share"),
            Panel("running", (Series("running", "running", _over(charts, charts.running), "step"),)),
        ),
        ticks=shown,
    )


def staircase(report: Report) -> Figure | None:
    """The preemptions so far, with the straight line through them."""
    stair = report.staircase
    if len(stair.events) < 2:
        return None
    times = [one.at_s for one in stair.events]
    known = sum(one.count for one in stair.events)  # of very many only the latest
    every = report.run.preemptions if report.run is not None else None
    heights = [max(0.0, (every or known) - known) + one for one in accumulate(one.count for one in stair.events)]
    series = [Series("preemptions so far", "preemption", tuple(zip(times, heights, strict=True)), "step")]
    if stair.per_minute is not None:
        middle, height, slope = fmean(times), fmean(heights), stair.per_minute / 60
        line: tuple[Point, ...] = tuple((at, height + slope * (at - middle)) for at in (times[0], times[-1]))
        series.append(Series(f"{units.number(stair.per_minute)} a minute", "dim", line, "dashed"))
    fit = f" R² of the line is {stair.straightness:.3f}." if stair.straightness is not None else ""
    return Figure(
        key="staircase",
        title="The staircase of preemptions",
        caption=f"Each step is a page on which requests were put back; the line is the least-squares line.{fit}",
        alt=(
            f"{units.count(heights[-1])} preemptions from {units.clock(times[0])} to {units.clock(times[-1])}, one "
            f"every {units.seconds(stair.interval_mean_s)} on average.{fit}"
        ),
        x_title="time in the session",
        x_kind="time",
        panels=(Panel("preemptions so far", tuple(series)),),
    )


def _over(charts: Charts, points: Points) -> tuple[Point, ...]:
    """A column's value, at the column's end."""
    n = len(points)
    return tuple((charts.end_s - (n - 1 - at) * charts.column_s, value) for at, value in enumerate(points))


def _span(points: Points) -> str:
    known = [value for value in points if value is not None]
    return f"{units.number(min(known))} to {units.number(max(known))}" if known else "not known"


def _share(points: Points) -> str:
    known = [value for value in points if value is not None]
    return f"{units.percent(min(known))} to {units.percent(max(known))}" if known else "not known"
