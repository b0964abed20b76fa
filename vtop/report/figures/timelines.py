"""The figures over time: the session, its GPUs, where the requests are, the preemption cycle and the staircase."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil, floor
from statistics import fmean, median

from vtop import units
from vtop.report.figures.figure import Figure, FigurePanel, Point, RuleLine, Series
from vtop.report.model import Report
from vtop.session.frame.charts import Charts, Points
from vtop.session.frame.requests import PreemptionEvent, Staircase


def session(report: Report) -> Figure | None:
    """Running, waiting, KV and preemptions over the whole recording."""
    charts = report.timeline
    if charts is None:
        return None
    requests = FigurePanel(
        "requests",
        (
            Series("running", "running", _over(charts, charts.running)),
            Series("waiting", "waiting", _over(charts, charts.waiting)),
        ),
    )
    kv = FigurePanel("KV use", (Series("KV", "kv", _over(charts, charts.kv_used)),), top=1.0, unit="share")
    fell = FigurePanel(
        "preemptions so far", (Series("preemptions", "preemption", _over(charts, charts.preemptions), "step"),)
    )
    run = report.run
    panels = (requests, kv, fell) if any(charts.preemptions) else (requests, kv)
    return Figure(
        key="session",
        title="The whole session",
        caption=(
            "A point shows the highest scrape of its column; grey stretches are the phases. A blank is a gap in the "
            "recording."
        ),
        alt=(
            f"{_level(report, 'running').capitalize()}, {_level(report, 'waiting')}, KV use at most "
            f"{units.percent(run.kv.peak_ratio if run is not None else None)}, "
            f"{units.count(run.preemptions if run is not None else None)} preemptions in "
            f"{units.seconds(report.seconds)}."
        ),
        x_title="time in the session",
        x_kind="time",
        panels=panels,
        shades=tuple((phase.begin_s, phase.end_s, phase.label) for phase in report.phases),
    )


def devices(report: Report) -> Figure | None:
    """Power, clock and temperature, with the power limit."""
    charts = report.timeline
    if charts is None or not any(value is not None for value in charts.power_w):
        return None
    limit = report.power_limit_w
    rules = (RuleLine(f"limit {units.watts(limit)}", "limit", limit),) if limit is not None else ()
    counted = "GPU" if len(report.devices) == 1 else "GPUs counted"
    return Figure(
        key="gpus",
        title="Power, clock and temperature",
        caption=(
            f"Of the {counted}: power added up, the fastest SM clock, the hottest temperature; "
            "the highest reading of a column."
        ),
        alt=(f"{_power(report)} The hottest temperature is {units.number(_hottest(report))} °C."),
        x_title="time in the session",
        x_kind="time",
        panels=(
            FigurePanel("power, W", (Series("power", "power", _over(charts, charts.power_w)),), rules),
            FigurePanel("SM clock, MHz", (Series("clock", "prefill", _over(charts, charts.sm_mhz)),)),
            FigurePanel("temperature, °C", (Series("temperature", "bad", _over(charts, charts.temp_c)),)),
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
        caption="What runs holds KV blocks; what waits holds a connection and nothing else. Both are of one scrape, "
        "the one of its column with most of them together.",
        alt=f"{_level(report, 'running').capitalize()}, and on top of it {_level(report, 'waiting')}.",
        x_title="time in the session",
        x_kind="time",
        panels=(
            FigurePanel(
                "requests",
                (
                    Series("running", "running", _over(charts, charts.running_then), "area"),
                    Series("waiting", "waiting", _over(charts, charts.waiting_then), "area"),
                ),
                stacked=True,
            ),
        ),
        shades=tuple((phase.begin_s, phase.end_s, phase.label) for phase in report.phases),
    )


def cycle(report: Report) -> Figure | None:
    """A few preemptions, scrape by scrape."""
    charts, staircase = report.zoom, report.staircase
    if charts is None:
        return None
    begin_s = charts.end_s - charts.column_s * len(charts.kv_used)
    shown = tuple(one.at_s for one in staircase.events if begin_s <= one.at_s <= charts.end_s)
    trigger = staircase.trigger_mean_ratio
    rules = (RuleLine(f"trigger {units.percent(trigger)}", "limit", trigger),) if trigger is not None else ()
    kv = _over(charts, charts.kv_used)
    between = [ratio for at_s, ratio in kv if ratio is not None and shown and shown[0] <= float(at_s) <= shown[-1]]
    bottom, top = _cycle_axis([one for one in staircase.events if one.at_s in shown], between)
    return Figure(
        key="cycle",
        title="The preemption cycle, scrape by scrape",
        caption=(
            f"{_first(shown)}; one point a scrape, a vertical line each with preemptions. "
            + (
                f"The axis of KV use goes from {units.whole_percent(bottom)} to {units.whole_percent(top)}: after and "
                "before a preemption. It falls lower where requests finish. "
                if bottom
                else ""
            )
            + (f"The cycle: {staircase.cycle}." if staircase.cycle else "Not regular enough to be called a cycle.")
        ),
        alt=f"{_first(shown)}.{_freed(staircase)}",
        x_title="time in the session",
        x_kind="time",
        panels=(
            FigurePanel(
                "KV use",
                (Series("KV", "kv", kv, "line"),),
                rules,
                top=top,
                unit="share",
                bottom=bottom,
            ),
            FigurePanel("running", (Series("running", "running", _over(charts, charts.running), "step"),)),
        ),
        ticks=shown,
    )


def staircase(report: Report) -> Figure | None:
    """The preemptions so far, with the straight line through them."""
    staircase = report.staircase
    if len(staircase.events) < 2:
        return None
    times = [one.at_s for one in staircase.events]
    known = sum(one.count for one in staircase.events)  # of very many only the latest
    every = report.run.preemptions if report.run is not None else None
    heights = [max(0.0, (every or known) - known) + one for one in accumulate(one.count for one in staircase.events)]
    series = [Series("preemptions so far", "preemption", tuple(zip(times, heights, strict=True)), "step")]
    if staircase.slope_per_s is not None:
        middle, height, slope = fmean(times), fmean(heights), staircase.slope_per_s
        line: tuple[Point, ...] = tuple((at, height + slope * (at - middle)) for at in (times[0], times[-1]))
        series.append(Series("straight line", "dim", line, "dashed"))
    fit = f" R² of the line is {staircase.straightness:.3f}." if staircase.straightness is not None else ""
    often = f"; over the run one every {units.seconds(staircase.interval_mean_s)} on average"
    if len(report.phases) > 1:
        often = ""  # of the load that has them it is another number
    return Figure(
        key="staircase",
        title="The staircase of preemptions",
        caption=f"Each step is a scrape on which requests were put back; the line is the least-squares line.{fit}",
        alt=(
            f"{units.count(heights[-1])} preemptions from {units.clock(times[0])} to {units.clock(times[-1])}"
            f"{often}.{fit}"
        ),
        x_title="time in the session",
        x_kind="time",
        panels=(FigurePanel("preemptions so far", tuple(series), bottom=0.0),),
    )


def _cycle_axis(events: Sequence[PreemptionEvent], between: Sequence[float]) -> tuple[float, float]:
    """Whole per cents around KV use before and after each preemption, and around half of that between them; all of it
    where that is not known."""
    after = [one.kv_after_ratio for one in events if one.kv_after_ratio is not None and one.freed_ratio is not None]
    before = [one.kv_before_ratio for one in events if one.kv_before_ratio is not None]
    if not after or not before:
        return 0.0, 1.0
    low = floor(min(*after, median(between or after)) * 100)
    return low / 100, max(ceil(max(before) * 100), low + 1) / 100


def _over(charts: Charts, points: Points) -> tuple[Point, ...]:
    """A column's value, at the column's end."""
    n = len(points)
    return tuple((charts.end_s - (n - 1 - at) * charts.column_s, value) for at, value in enumerate(points))


def _power(report: Report) -> str:
    """Of the run, as far as it is known."""
    of, limit = report.run.power_w if report.run is not None else None, report.power_limit_w
    against = f" with a limit of {units.watts(limit)}" if limit is not None else ""
    if of is None or of.mean is None:
        return f"Power is not known{against}."
    span = f", {units.watts(of.low)} to {units.watts(of.peak)}" if of.peak is not None else ""
    return f"Power is {units.watts(of.mean)} on average while the loads ran{span}{against}."


def _hottest(report: Report) -> float | None:
    return report.run.temp_high_c if report.run is not None else None


def _first(shown: Sequence[float]) -> str:
    return f"The preemptions from {units.clock(shown[0])} to {units.clock(shown[-1])}" if shown else "No preemption"


def _freed(of: Staircase) -> str:
    """What was full before a preemption and what it freed, as far as that is known."""
    said = ""
    if of.trigger_mean_ratio is not None:
        said += f" KV use before one is {units.percent(of.trigger_mean_ratio)} on average, "
        said += f"{units.percent(of.trigger_low_ratio)} at the least."
    if of.freed_mean_tokens is not None:
        said += f" One frees {units.count(of.freed_mean_tokens)} tokens."
    return said


def _level(report: Report, what: str) -> str:
    """Running 0 to 64, of the scrapes of the run."""
    run = report.run
    of = None if run is None else run.running if what == "running" else run.waiting
    if of is None or of.low is None or of.peak is None:
        return f"{what} not known"
    return f"{what} {units.count(of.low)} to {units.count(of.peak)}"
