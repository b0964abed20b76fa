"""What a flight recorder waits for: conditions on a frame, written as people say them.

`preemptions or queue growth or stuck`, `kv > 95% and waiting > 20`: words and comparisons, joined by "and" (which binds
closer) and "or". A number that is not known fulfils nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from vtop import units
from vtop.errors import VtopError
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.vocabulary import VerdictLimit

WINDOW_S: Final = 30.0  # that a condition is about
VIEW: Final = View(window_s=WINDOW_S, columns=1)


def _limit(*limits: VerdictLimit) -> Callable[[Frame], bool]:
    return lambda frame: frame.verdict.limit in limits


def _logged(kind: str) -> Callable[[Frame], bool]:
    return lambda frame: any(one.kind == kind and one.at_s > frame.now_s - WINDOW_S for one in frame.event_log)


def _failed_requests(frame: Frame) -> str | None:
    """Requests of the window that the server gave up or refused, and KV transfers that failed. Those that their clients
    broke off (finished_reason abort) are none."""
    transfers = frame.failed_transfers.in_window if frame.failed_transfers is not None else None
    counts = (
        (dict(frame.requests.finished_by_reason).get("error"), "request{} failed"),
        (frame.requests.rejected.in_window, "request{} rejected"),
        (transfers, "KV transfer{} failed"),
    )
    told = [f"{units.count(n)} {what.format('' if n == 1 else 's')}" for n, what in counts if n]
    return f"{', '.join(told)} in {units.seconds(frame.window_s)}" if told else None


def _failed_scrapes(frame: Frame) -> str | None:
    gone = [server for server in frame.servers if server.watched and server.tries]
    if gone:
        return f"{gone[0].tries} scrape{'' if gone[0].tries == 1 else 's'} of {gone[0].url} failed"
    return "a scrape failed" if _logged("outage")(frame) else None


def _errors(frame: Frame) -> str | None:
    return ", ".join(one for one in (_failed_requests(frame), _failed_scrapes(frame)) if one is not None) or None


# words whose reason is told in numbers; None: they do not hold
TOLD: Final[Mapping[str, Callable[[Frame], str | None]]] = {
    "errors": _errors,
    "failed requests": _failed_requests,
    "failed scrapes": _failed_scrapes,
}
WORDS: Final[Mapping[str, Callable[[Frame], bool]]] = {
    "preemptions": lambda frame: (frame.preemption.count.in_window or 0.0) > 0,
    "queue growth": lambda frame: frame.queueing.trend == "growing",
    "stuck": _limit("stuck", "no-admission"),
    "down": lambda frame: frame.status.kind == "down",
    "unhealthy": lambda frame: frame.status.kind == "unhealthy",
    "restart": _logged("restart"),
    "kv binds": _limit("kv"),
    "max-num-seqs binds": _limit("max-num-seqs"),
    "token budget binds": _limit("token-budget"),
    "power binds": _limit("power"),
    "frontend binds": _limit("frontend"),
}
# name -> the number, and what writes it; seconds, ratios and counts
NUMBERS: Final[Mapping[str, tuple[Callable[[Frame], float | None], Callable[[float | None], str]]]] = {
    "waiting": (lambda frame: frame.requests.waiting.now, units.count),
    "running": (lambda frame: frame.requests.running.now, units.count),
    "kv": (lambda frame: frame.kv.used.now, units.percent),
    "preemptions": (lambda frame: frame.preemption.count.in_window, units.count),
    "ttft": (lambda frame: frame.ttft.first_token_s, units.seconds),
    "queue": (lambda frame: frame.ttft.queue_s, units.seconds),
    "itl": (lambda frame: _mean(frame, "ITL"), units.seconds),
    "e2e": (lambda frame: _mean(frame, "e2e"), units.seconds),
    "output": (lambda frame: frame.generation_tokens.per_s, units.number),
}
_COMPARE: Final = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_COMPARISON: Final = re.compile(r"(\w+)\s*(>=|<=|>|<)\s*([\d.]+)\s*(%|ms|s|min)?")
_SCALE: Final = {None: 1.0, "%": 0.01, "ms": 1e-3, "s": 1.0, "min": 60.0}
_UNITS: Final = {"kv": ("%",), "ttft": ("ms", "s", "min"), "queue": ("ms", "s", "min"), "itl": ("ms", "s"),
                 "e2e": ("ms", "s", "min")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    text: str
    holds: Callable[[Frame], bool]
    said: Callable[[Frame], str]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Any of `cases` holds when all of its conditions do."""

    cases: tuple[tuple[Condition, ...], ...]

    def why(self, frame: Frame) -> str | None:
        """The conditions of the first case that holds, in words; None: none does."""
        for case in self.cases:
            if all(one.holds(frame) for one in case):
                return ", ".join(one.said(frame) for one in case)
        return None


def parse(text: str) -> Trigger:
    """Raises VtopError with the words there are."""
    cases = (re.split(r"\band\b", case) for case in re.split(r"\bor\b", text.lower()))
    return Trigger(tuple(tuple(_condition(one.strip()) for one in case) for case in cases))


def _condition(text: str) -> Condition:
    if (holds := WORDS.get(text)) is not None:
        if text == "preemptions":
            return Condition(text, holds, _preempted)
        return Condition(text, holds, lambda _: text)
    if (tell := TOLD.get(text)) is not None:
        return Condition(text, lambda frame: tell(frame) is not None, lambda frame: tell(frame) or text)
    found = _COMPARISON.fullmatch(text)
    if found is None or found[1] not in NUMBERS:
        raise VtopError(f"--on: {text!r} is nothing to wait for; {_known()}")
    name, sign, number, unit = found.groups()
    if (unit or None) not in _UNITS.get(name, (None,)):
        raise VtopError(f"--on: {text!r}: {name} is given in {' or '.join(_UNITS.get(name, ('no unit',)))}")
    try:
        bound = float(number) * _SCALE[unit]
    except ValueError:
        raise VtopError(f"--on: {text!r}: {number!r} is no number") from None
    read, write = NUMBERS[name]
    compare = _COMPARE[sign]

    def reached(frame: Frame) -> bool:
        value = read(frame)
        return value is not None and bool(compare(value, bound))

    return Condition(text, reached, lambda frame: f"{name} {write(read(frame))}")


def _preempted(frame: Frame) -> str:
    many = frame.preemption.count.in_window
    return f"{units.count(many)} preemption{'s' if many != 1 else ''} in {units.seconds(frame.window_s)}"


def _known() -> str:
    return (
        f"words: {', '.join((*WORDS, *TOLD))}; numbers: {', '.join(NUMBERS)}, as in waiting > 20, kv > 95%, ttft > 2s"
    )


def _mean(frame: Frame, name: str) -> float | None:
    return next((one.mean_s for one in frame.latencies if one.name == name), None)
