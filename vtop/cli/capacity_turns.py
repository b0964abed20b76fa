"""Runs of one search of capacity, or of two by turns, to their end, and what is said meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vtop import units
from vtop.cli import progress
from vtop.cli.common import echo
from vtop.errors import VtopError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtop.session.capacity.search import Bracket, Next, RunResult, Search


class Stopped(Exception):
    """Whoever asked for the search has gone."""


class SearchTalk:
    """What is said while a search runs: a line on stderr for each rate that is judged."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._said: list[dict[float, str]] = []

    def plan(self, searches: Sequence[Search]) -> None:
        for search in searches if not self._quiet else ():
            left = search.left()
            each = search.plan.requests / search.plan.first_per_s
            echo(
                f"plan: {search.plan.name}; about {left.runs} runs, {units.seconds(left.seconds)} of load, if the "
                f"answer is near {units.number(search.plan.first_per_s)} requests/s, where a run takes "
                f"{units.seconds(each)}",
                err=True,
            )
        self._said = [{} for _ in searches]

    def judged(self, number: int, search: Search, result: RunResult) -> None:
        if self._quiet:
            return
        if result.why_not is not None:
            echo(f"rate={result.rate_per_s:g} seed {result.seed}: not counted, {result.why_not}", err=True)
            return
        for rate in search.rates():
            if rate.verdict in ("more", self._said[number].get(rate.rate_per_s)):
                continue
            self._said[number][rate.rate_per_s] = rate.verdict
            now, left = search.bracket(), search.left()
            who = f"server {number + 1}: " if len(self._said) > 1 else ""
            echo(
                f"{who}rate={rate.rate_per_s:g} {rate.verdict}: {units.percent(rate.mean_ratio)} mean, lowest "
                f"{units.percent(rate.lowest_ratio)} of {len(rate.runs)} runs; between "
                f"{units.number(now.passes_per_s)} and {units.number(now.fails_per_s)} requests/s, "
                f"{_beside(search, now)}about {units.seconds(left.seconds)} of load left",
                err=True,
            )


def _beside(search: Search, now: Bracket) -> str:
    """How the measured capacity stands beside the simulated one so far; empty where nothing was simulated."""
    from vtop.session.capacity.foretold import speed, speed_words

    found = search.plan.simulated
    said = speed_words(*speed(found, now.passes_per_s, now.fails_per_s)) if found is not None else None
    return f"{said} of what was simulated, " if said is not None else ""


def by_turns(
    searches: Sequence[Search], run: Callable[[int, Next], RunResult], told: SearchTalk, deadline_s: float | None
) -> None:
    """A run of each search after the other, until all are at their end, so that what drifts meets both alike."""
    began_s, longest_s = time.monotonic(), 0.0
    told.plan(searches)
    try:
        while going := [number for number, search in enumerate(searches) if search.next() is not None]:
            for number in going:
                wanted, since_s = searches[number].next(), time.monotonic() - began_s
                if wanted is None:
                    continue
                if deadline_s is not None and since_s + longest_s > deadline_s:
                    _stop(searches, "deadline")
                    return
                if (line := progress.current()) is not None:
                    line.say(f"rate={wanted.rate_per_s:g}, seed {wanted.seed}")
                result = run(number, wanted)
                longest_s = max(longest_s, time.monotonic() - began_s - since_s)
                searches[number].tell(result)
                told.judged(number, searches[number], result)
    except (KeyboardInterrupt, Stopped):
        _stop(searches, "stopped")
    except VtopError as error:  # the server is gone, say: what was found so far is an answer
        if not any(search.made for search in searches):
            raise
        _stop(searches, "stopped", str(error))


def _stop(searches: Sequence[Search], end: str, why: str | None = None) -> None:
    for search in searches:
        if search.end is None:
            search.stop(end, why)
