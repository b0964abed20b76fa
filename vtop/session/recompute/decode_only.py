"""Scrapes between which every engine step only decoded: there the counters are exact, step by step.

Between two scrapes no prompt was prefilled and nobody was preempted, resumed or finished when the same number of
requests ran on both, no first token, end or preemption was counted, and

    generated tokens = steps x running        (engines that run at all: each the same number)

for a request in prefill runs and generates nothing. With several API servers, or several tokens a step (speculative
decoding), the equation does not hold and no such scrapes are found.

Source: vLLM v1/metrics/stats.py, loggers.py (one observation of iteration_tokens per step that gave output).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from vtop.metrics.quantity import Quantity
from vtop.session.history.server import ServerHistory


def only_decoded(server: ServerHistory, scrape: int) -> tuple[float, float] | None:
    """(steps, tokens) between the scrape before and a scrape, where there was nothing but decoding."""
    generated = server.total(Quantity.GENERATION_TOKENS)
    running = server.total(Quantity.RUNNING)
    if scrape < 1 or generated is None or running is None:
        return None
    tokens = generated.grown(scrape - 1, scrape)
    many = running.at(scrape)
    if not tokens or not many or many != running.at(scrape - 1):
        return None
    iterations, first_tokens = server.histogram(Quantity.ITERATION_TOKENS), server.histogram(Quantity.TTFT)
    if iterations is None or first_tokens is None:
        return None
    observed = iterations.sums(scrape - 1, scrape)
    steps = observed[1] if observed is not None else 0.0
    if not steps or tokens != steps * (_each(server, scrape, many) or 0.0):
        return None
    if (first_tokens.sums(scrape - 1, scrape) or (0.0, 0.0))[1]:
        return None
    if ended(server, scrape - 1, scrape) or preempted(server, scrape - 1, scrape):
        return None
    place = bisect_right(server.restarts, scrape) - 1
    return None if place >= 0 and server.restarts[place] == scrape else (steps, tokens)


def _each(server: ServerHistory, scrape: int, many: float) -> float | None:
    """How many requests each engine that runs any runs; None where they differ."""
    engines = server.engine_tracks(Quantity.RUNNING)
    if len(engines) < 2:
        return many
    busy = {value for track in engines.values() if (value := track.at(scrape))}
    still = {value for track in engines.values() if (value := track.at(scrape - 1))}
    return busy.pop() if len(busy) == 1 and busy == still else None


def quiet(server: ServerHistory, scrape: int) -> bool:
    """Whether no request was there on a scrape."""
    for quantity in (Quantity.RUNNING, Quantity.WAITING):
        track = server.total(quantity)
        if track is None or track.at(scrape) != 0:
            return False
    return True


def settled(server: ServerHistory, scrape: int, last: int) -> bool:
    """Whether surely nobody was in mid-prefill on a scrape; looks at no scrape after last."""
    if quiet(server, scrape) or only_decoded(server, scrape) is not None:
        return True
    return scrape < last and only_decoded(server, scrape + 1) is not None


class DecodeSteps:
    """The scrapes of one server on which only decoding went on, looked for once, as far as anybody asked."""

    def __init__(self, server: ServerHistory) -> None:
        self._server = server
        self._next = 1
        self._scrape = array("I")
        self._step_s = array("d")
        self._steps = array("d")

    def over(self, first: int, last: int) -> list[tuple[int, float, float]]:
        """(scrape, mean seconds of a step, steps) of those after first and up to last."""
        self._look(last)
        low, high = bisect_right(self._scrape, first), bisect_right(self._scrape, last)
        return list(zip(self._scrape[low:high], self._step_s[low:high], self._steps[low:high], strict=True))

    def _look(self, last: int) -> None:
        server = self._server
        for scrape in range(self._next, last + 1):
            found = only_decoded(server, scrape)
            if found is not None:
                seconds = server.at_s[scrape] - server.at_s[scrape - 1]
                self._scrape.append(scrape)
                self._step_s.append(seconds / found[0] * _side_by_side(server, scrape))
                self._steps.append(found[0])
        self._next = max(self._next, last + 1)


def _side_by_side(server: ServerHistory, scrape: int) -> int:
    """How many engines step at the same time."""
    return sum(bool(track.at(scrape)) for track in server.engine_tracks(Quantity.RUNNING).values()) or 1


def ended(server: ServerHistory, first: int, last: int) -> float:
    """How many requests finished, for whatever reason."""
    return sum(track.grown(first, last) or 0.0 for track in server.finished)


def preempted(server: ServerHistory, first: int, last: int) -> float:
    track = server.total(Quantity.PREEMPTIONS)
    return (track.grown(first, last) or 0.0) if track is not None else 0.0
