"""Counters against each other: two that one would take for the same, how far they are apart, and why.

A pair stands here when both are known in the run (or in the phase with most requests, where only a phase tells). Who
reads only one of them is misled by exactly the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from vtop.report.findings.findings import heaviest
from vtop.report.model import Report


@dataclass(frozen=True, slots=True)
class CounterPair:
    one: str
    other: str
    unit: str  # tokens, requests, s, preemptions
    one_value: float
    other_value: float
    where: str
    why: str

    @property
    def difference(self) -> float:
        return self.other_value - self.one_value

    @property
    def ratio(self) -> float | None:
        return self.difference / self.one_value if self.one_value else None


def pairs(report: Report) -> tuple[CounterPair, ...]:
    return tuple(pair for rule in RULES for pair in rule(report))


def executed(report: Report) -> Iterator[CounterPair]:
    run = report.run
    if run is None or run.tokens_per_step is None:
        return
    stepped, of = run.tokens_per_step * run.steps, run.recompute
    if run.prompt_tokens is not None and run.output_tokens is not None:
        yield CounterPair(
            "prompt + generated tokens",
            "iteration_tokens_total",
            "tokens",
            run.prompt_tokens + run.output_tokens,
            stepped,
            "run",
            "The scheduler's count is made of the other two: it never holds a recomputed token, and prompt tokens "
            "found in the prefix cache are left out.",
        )
    if of.executed_tokens is not None:
        yield CounterPair(
            "iteration_tokens_total",
            f"executed, by {of.method}",
            "tokens",
            stepped,
            of.executed_tokens,
            "run",
            "Executed tokens hold what was run again after preemptions, and not the last token of an answer, which is "
            "never run through the model.",
        )


def recomputed(report: Report) -> Iterator[CounterPair]:
    run = report.run
    if run is None or not run.preemptions or run.recompute.since_start is None or run.recompute.estimate:
        return
    of, method = run.recompute, f"recomputed, by {run.recompute.method}"
    for name, value, why in (
        ("FLOPs", of.by_flops_tokens, "FLOPs of a token grow with its context, which has to be assumed."),
        (
            "released KV",
            of.by_kv_tokens,
            "KV freed by a preemption counts blocks, less what the others grew meanwhile.",
        ),
    ):
        if value is not None:
            yield CounterPair(
                method, f"recomputed, by {name}", "tokens", of.since_start or 0.0, value, "since attached", why
            )


def first_tokens(report: Report) -> Iterator[CounterPair]:
    phase, of = heaviest(report)
    if phase is None or of is None or of.parts.total_s is None:
        return
    told = next((one for name, one in of.server if name == "TTFT"), None)
    if told is not None and told.mean_s is not None:
        yield CounterPair(
            "TTFT of the requests that finished",
            "TTFT of those that got their first token",
            "s",
            of.parts.total_s,
            told.mean_s,
            phase.label,
            "Two sets of requests: parts are observed when a request finishes, TTFT at its first token.",
        )
    if of.own_ttft is not None and of.own_ttft.client_s is not None:
        yield CounterPair(
            "TTFT of the server, same requests",
            "TTFT as the client saw it",
            "s",
            of.parts.total_s,
            of.own_ttft.client_s,
            phase.label,
            "HTTP, detokenisation, streaming and both sockets lie outside of what the server counts.",
        )


def gaps_between(report: Report) -> Iterator[CounterPair]:
    phase, of = heaviest(report)
    if phase is None or of is None:
        return
    told = next((one for name, one in of.server if name == "ITL"), None)
    if phase.load is not None and told is not None and told.mean_s is not None and of.itl and of.itl.mean_s is not None:
        yield CounterPair(
            "ITL of the server",
            "ITL as the client saw it",
            "s",
            told.mean_s,
            of.itl.mean_s,
            phase.label,
            "Each token once in both; several tokens in one chunk are one gap for the server, which counts others too.",
        )


def finished(report: Report) -> Iterator[CounterPair]:
    for phase in report.phases:
        of, load = phase.whole, phase.load
        if of is not None and load is not None and of.finished is not None and of.finished != load.done:
            yield CounterPair(
                "requests answered, own load",
                "requests finished, the server's counter",
                "requests",
                float(load.done),
                of.finished,
                phase.label,
                "The window lies between two scrapes: what ended after the last of them, or before the first, is in "
                "one only; so are requests of others, and warm-up requests that ended late.",
            )


def preemptions(report: Report) -> Iterator[CounterPair]:
    run, detector = report.run, report.staircase
    if run is None or not run.preemptions:
        return
    dated = sum(one.count for one in detector.events if one.dated_by == "gauges")
    if sum(one.count for one in detector.events) < run.preemptions:  # of so many only the latest are kept
        return
    yield CounterPair(
        "num_preemptions_total",
        "preemptions that the gauges show",
        "preemptions",
        run.preemptions,
        dated + detector.unconfirmed,
        "run",
        "A scrape a second misses a request that was put back and taken in again; the counter can come late and drops "
        "those of aborted requests.",
    )


def little(report: Report) -> Iterator[CounterPair]:
    phase, of = heaviest(report, steady=True)
    if phase is None or of is None:
        return
    for name, one in (("running", of.queueing.running), ("waiting", of.queueing.waiting)):
        if one is not None and one.present:
            yield CounterPair(
                f"{name}, mean of the scrapes",
                f"{name}, by Little's law",
                "requests",
                one.present,
                one.expected,
                f"{phase.label}, steady part",
                "Arrivals per second × mean stay; apart where the queue grows or drains, and where a short window cuts "
                "stays off.",
            )


RULES: Final[tuple[Callable[[Report], Iterator[CounterPair]], ...]] = (
    executed, recomputed, first_tokens, gaps_between, finished, preemptions, little,
)  # fmt: skip
