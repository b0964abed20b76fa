"""Whether the run can be believed: what makes its numbers weaker than they look, each check with what it saw.

fine: looked at, and nothing is wrong. doubt: something is, and the sentence says how much. unknown: there is nothing to
judge by (no load of vtop's own, no counter). None of it changes a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from vtop import units
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers
from vtop.samples import samples_needed
from vtop.session.load.client_ttft import FOREIGN_SHARE

WARM: Final = 0.01  # of the prompt tokens found in the prefix cache
ENOUGH_SCRAPES: Final = 10  # in a steady part
NO_SCRAPE: Final = "There is no scrape: what the server says of itself is not known."
SLOW: Final = 0.1  # of the interval: an error of the sampling beyond it


@dataclass(frozen=True, slots=True)
class ValidityCheck:
    name: str
    state: str  # fine, doubt, unknown
    sentence: str


def checks(report: Report) -> tuple[ValidityCheck, ...]:
    return tuple(rule(report) for rule in RULES)


def client(report: Report) -> ValidityCheck:
    """Whether the numbers are the client's rather than the server's."""
    loads = [(phase, phase.load) for phase in report.phases if phase.load is not None]
    if not loads:
        return ValidityCheck(
            "client-limited", "unknown", "No load of vtop's own: whether its clients kept up is not known."
        )
    limited = [f"{phase.label}: {load.limited}" for phase, load in loads if load.limited is not None]
    if any(load.limited is not None and load.limited_costs for _, load in loads):
        return ValidityCheck("client-limited", "doubt", "The client may be the bottleneck. " + "; ".join(limited) + ".")
    if limited:
        said = f"The client kept up. {'; '.join(limited)}: less than a tenth of the mean TTFT there."
        return ValidityCheck("client-limited", "fine", said)
    late = [load.late_p99_s for _, load in loads if load.late_p99_s is not None]
    said = f" p99 of the lateness of a request is {units.seconds(max(late))} at worst." if late else ""
    return ValidityCheck("client-limited", "fine", f"The client kept up.{said}")


def steady(report: Report) -> ValidityCheck:
    """Whether the queue was the same at the end of each steady part as at its begin."""
    known = [(phase, phase.steady) for phase in report.phases if phase.steady is not None]
    trends = [(phase, of.queueing) for phase, of in known if of.queueing.trend is not None]
    moving = [
        f"{phase.label}: {one.trend} by {units.number(abs(one.slope_per_s or 0.0) * 60)} a minute (p {one.p_value:.2g})"
        for phase, one in trends
        if one.trend != "steady" and one.p_value is not None
    ]
    if moving:
        said = "The queue moves within the steady part, so a mean depends on how long one looks. "
        return ValidityCheck("unsteady", "doubt", said + "; ".join(moving) + ".")
    if not trends:
        too_short = "The phases are too short for a trend."
        return ValidityCheck("unsteady", "unknown", too_short if report.sampling else NO_SCRAPE)
    return ValidityCheck("unsteady", "fine", f"The queue has no trend in the steady part of {_phases(trends)}.")


def warm(report: Report) -> ValidityCheck:
    """Whether the prefix cache did some of the work."""
    found, judged = [], 0
    for phase, of in _whole(report):
        hit = of.prefix_cache.hit_ratio
        if of.prefix_cache.asked_tokens is not None:
            judged += 1
        if hit is not None and hit >= WARM:
            found.append(f"{phase.label}: {units.percent(hit)} of the prompt tokens")
        elif phase.load is not None and phase.load.cached_tokens:
            found.append(f"{phase.label}: {phase.load.cached_tokens:,} tokens, as the answers say")
    if found:
        return ValidityCheck("cache-warm", "doubt", "Prompts were found in the prefix cache. " + "; ".join(found) + ".")
    if not judged:
        uncounted = "The server does not count prefix cache hits."
        return ValidityCheck("cache-warm", "unknown", uncounted if report.sampling else NO_SCRAPE)
    return ValidityCheck("cache-warm", "fine", "No prompt was found in the prefix cache.")


def enough(report: Report) -> ValidityCheck:
    """Whether there are samples enough for what is shown."""
    requests = [
        f"{phase.label} {units.count(of.ttft.n)}"
        for phase, of in _whole(report)
        if of.ttft is not None and of.ttft.n < samples_needed(0.99)
    ]
    scrapes = [
        f"{phase.label} {phase.steady.scrapes if phase.steady is not None else 0}"
        for phase in report.phases
        if phase.steady is None or phase.steady.scrapes < ENOUGH_SCRAPES
    ]
    few = [f"Requests, of which p99 needs {samples_needed(0.99)}: {', '.join(requests)}."] if requests else []
    few += [f"Scrapes in the steady part, of which {ENOUGH_SCRAPES} are few: {', '.join(scrapes)}."] if scrapes else []
    if not any(of.scrapes for _, of in _whole(report)):
        few = few[:1] if requests else []  # of a load without a watcher nobody asks for scrapes
    if few:
        return ValidityCheck("too few samples", "doubt", " ".join(few))
    if not report.phases:
        return ValidityCheck("too few samples", "doubt", "No request ran.")
    return ValidityCheck(
        "too few samples", "fine", f"Every phase has {samples_needed(0.99)} requests and {ENOUGH_SCRAPES} scrapes."
    )


def foreign(report: Report) -> ValidityCheck:
    """Whether others were served besides vtop's own load."""
    known = [(phase, of, of.own_ttft) for phase, of in _whole(report) if phase.load is not None]
    if known and not report.sampling:
        return ValidityCheck("foreign traffic", "unknown", NO_SCRAPE)
    if not any(own is not None for _, _, own in known):
        return ValidityCheck(
            "foreign traffic", "unknown", "No load of vtop's own: whose requests these are is not known."
        )
    found = [
        f"{phase.label}: {units.count(own.foreign)} of {units.count(of.finished)} finished requests are not vtop's"
        for phase, of, own in known
        if own is not None and own.foreign > 0
    ]
    many = any(own.foreign > FOREIGN_SHARE * (of.finished or 0.0) for _, of, own in known if own is not None)
    if found:
        return ValidityCheck("foreign traffic", "doubt" if many else "fine", "; ".join(found) + ".")
    return ValidityCheck("foreign traffic", "fine", "The server finished no requests but vtop's.")


def clocks(report: Report) -> ValidityCheck:
    """Whether instants and durations can be trusted."""
    found = []
    for one in report.sampling:
        if one.error_p99_s is not None and one.error_p99_s > SLOW * one.interval_s:
            asked, error = units.seconds(one.interval_s), units.seconds(one.error_p99_s)
            found.append(f"scrapes were {error} off the asked-for {asked} (p99)")
    if report.backward:
        found.append(f"{report.backward:,} lines of the recording go back in time")
    if any(server.uptime_s == 0.0 for server in report.servers):
        found.append("the server says that it started later than now: its clock and this one differ")
    for phase, of in _whole(report):
        if of.parts.frontend_s == 0.0 and of.parts.n:
            found.append(f"{phase.label}: e2e is shorter than its parts, so the server's wall clock was set meanwhile")
    if found:
        return ValidityCheck("clock trouble", "doubt", "; ".join(found) + ".")
    if not report.sampling:
        return ValidityCheck("clock trouble", "fine", "No clock went back.")
    return ValidityCheck("clock trouble", "fine", "Scrapes came when they were due, and no clock went back.")


def gaps(report: Report) -> ValidityCheck:
    """Whether something is missing in between."""
    found = [
        f"{_many(len(one.gaps), 'gap')}, {units.seconds(one.gap_s)} in all; tries failed in {one.outages} of them"
        for one in report.sampling
        if one.gaps
    ]
    if found:
        return ValidityCheck("gaps", "doubt", "; ".join(found) + ". Counters bridge them, gauges and charts do not.")
    if not report.sampling:
        alone = any(phase.load is not None for phase in report.phases)
        return ValidityCheck("gaps", "unknown" if alone else "doubt", NO_SCRAPE)
    scrapes = sum(one.scrapes for one in report.sampling)
    return ValidityCheck("gaps", "fine", f"{scrapes:,} scrapes without a gap.")


def restarts(report: Report) -> ValidityCheck:
    count = sum(one.restarts for one in report.sampling)
    if count:
        times = "once" if count == 1 else f"{count} times"
        said = f"The server restarted {times}: what it did in between is not known."
        return ValidityCheck("restarts", "doubt", said)
    if not report.sampling:
        return ValidityCheck("restarts", "unknown", NO_SCRAPE)
    return ValidityCheck("restarts", "fine", "The server did not restart.")


def answers(report: Report) -> ValidityCheck:
    """Whether the requests did what was asked of them."""
    loads = [phase.load for phase in report.phases if phase.load is not None]
    if not loads:
        return ValidityCheck("answers", "unknown", "No load of vtop's own: failed requests are not seen.")
    found = []
    for name, count in (
        ("failed", sum(load.failed for load in loads)),
        ("were broken off at the end of a phase", sum(load.unfinished for load in loads)),
        ("had a prompt of another length than asked", sum(load.wrong_length for load in loads)),
        ("ended before the tokens asked for", sum(load.ended_early for load in loads)),
    ):
        if count:
            found.append(f"{count:,} {name}")
    if any(load.itl_is_chunks for load in loads):
        found.append("some gaps hold more tokens than the server says: ITL is between chunks")
    done = sum(load.done for load in loads)
    if found:
        return ValidityCheck("answers", "doubt", f"{done:,} requests were answered; " + "; ".join(found) + ".")
    return ValidityCheck("answers", "fine", f"All {done:,} requests were answered in full.")


def whole(report: Report) -> ValidityCheck:
    """Whether the recording is all there."""
    if report.faults:
        more = f" and {len(report.faults) - 1} more" if len(report.faults) > 1 else ""
        return ValidityCheck("recording", "doubt", f"{report.faults[0]}{more}.")
    if not report.closed:
        return ValidityCheck(
            "recording", "doubt", "The recording has no end: it was broken off, or is still being written."
        )
    return ValidityCheck("recording", "fine", "The recording was closed in good order.")


RULES: Final[tuple[Callable[[Report], ValidityCheck], ...]] = (
    client, steady, warm, enough, foreign, clocks, gaps, restarts, answers, whole,
)  # fmt: skip


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}" + ("" if n == 1 else "s")


def _whole(report: Report) -> list[tuple[Phase, Numbers]]:
    return [(phase, phase.whole) for phase in report.phases if phase.whole is not None]


def _phases(of: Iterable[tuple[Phase, object]]) -> str:
    return ", ".join(phase.label for phase, _ in of)
