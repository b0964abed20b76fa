"""Where the window's time went: decode, prefill, recompute, idle; and how much decode was stolen from each request.

    idle      = seconds without a request in the engine (history/busy.py)
    decode    = steps x the time of a step that only decodes, span by span, of what is not idle
    the rest  = prefill and recompute, divided by their tokens; decode too where there were neither

A step that also prefills counts as one step of decoding, and what it took longer is in the rest. The time of a step
that only decodes is taken from all scrapes of the window between which there was nothing but decoding (decode_only.py),
where there are ENOUGH of them: a host drifts and batches change, so between two of these a step takes the mean of both.
step_s is their median, weighted by steps. Of fewer, it is the median ITL of vtop's own load, in which steps that also
prefill weigh the more the busier the server is; without one, or where that is much more (most steps also prefill), what
least squares over steps and prompt tokens make of it (history/busy.py). Where the decoding alone would then fill the
time, and prompts were computed in it, how the time divides is not known. Parts add up to the seconds of the window that
the counters tell of (a server that was down and came back anew lost count); of several engines or servers they are the
mean.

    request's decode = Δ decode sum / n, of the n requests that finished
    undisturbed      = (their mean output - 1) x the mean time of a step
    stolen           = 1 - undisturbed / decode       by others' prefill and recompute, and by being preempted

Scrapes further apart than FINE_S (history/server.py) do not tell: hardly any span between two of them only decoded,
and what came and went between two is neither busy nor idle. Of one overload the parts differed by half.

Steps are those that gave output (iteration_tokens' count); several API servers count one step several times.
Source: vLLM v1/metrics/stats.py, loggers.py. Seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.tokens import WallClock
from vtop.session.frame.vocabulary import StepFrom
from vtop.session.history import busy
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import ScrapeRange, Window
from vtop.session.recompute.decode_only import DecodeSteps
from vtop.session.recompute.required_tokens import needed

ENOUGH: Final = 3  # scrapes on which only decoding went on
MUCH_MORE: Final = 1.5  # times what the fit says: the median gap is one in which prompts were computed, too
_ALL: Final = 1 - 1e-9

Pace = tuple[int, float, float]  # scrape, mean seconds of a step, steps


@dataclass(frozen=True, slots=True)
class _Step:
    """Of a step that only decodes: its usual time, the decoding of a window by it, and where it is from."""

    usual_s: float
    decode_s: float  # of all engines together
    source: StepFrom


def wallclock(
    window: Window,
    decode_steps: Mapping[ServerHistory, DecodeSteps],
    *,
    recomputed_tokens: float | None,
    own_step_s: float | None,
) -> WallClock:
    """recomputed_tokens: of the window; own_step_s: median ITL of vtop's own load, None without."""
    if not all(one.server.fine for one in window.ranges):
        return WallClock(request_decode_s=window.mean(Quantity.DECODE))
    seconds, engines = 0.0, 0
    busy_s: float | None = 0.0
    for one in window.ranges:
        many = _engines(one)
        engines += many
        seconds += one.counted_s * many
        found = busy.busy_s(one)
        busy_s = busy_s + found * many if busy_s is not None and found is not None else None
    steps = window.observed(Quantity.ITERATION_TOKENS)
    step = _step(window, decode_steps, own_step_s, steps)
    decode = prefill = recompute = None
    prompt = _prompt_tokens(window)
    if engines and step is not None and busy_s is not None and seconds > 0:
        again = recomputed_tokens or 0.0
        if prompt + again <= 0:
            decode, prefill, recompute = busy_s, 0.0, 0.0
        elif not busy_s or step.decode_s < _ALL * busy_s:
            rest = busy_s - step.decode_s
            decode, prefill = step.decode_s, rest * prompt / (prompt + again)
            recompute = rest * again / (prompt + again)
    each = [part / engines if part is not None else None for part in (decode, prefill, recompute)]
    mean_s = step.decode_s / steps if step is not None and steps else None
    request_s, undisturbed_s = window.mean(Quantity.DECODE), _undisturbed_s(window, mean_s)
    return WallClock(
        decode_s=each[0],
        prefill_s=each[1],
        prompt_token_s=prefill / prompt if prefill and prompt else None,
        recompute_s=each[2],
        idle_s=max(0.0, seconds - busy_s) / engines if engines and busy_s is not None and seconds > 0 else None,
        step_s=step.usual_s if step is not None else None,
        step_from=step.source if step is not None else None,
        request_decode_s=request_s,
        undisturbed_decode_s=undisturbed_s,
        stolen_ratio=max(0.0, 1 - undisturbed_s / request_s)
        if request_s and undisturbed_s is not None and decode is not None
        else None,
    )


def _step(
    window: Window, decode_steps: Mapping[ServerHistory, DecodeSteps], own_step_s: float | None, steps: float
) -> _Step | None:
    found = [(one, decode_steps[one.server].over(one.first, one.last)) for one in window.ranges]
    paces = [pace for _, row in found for pace in row]
    if len(paces) >= ENOUGH or (paces and own_step_s is None):
        usual_s = _median(paces)
        decode_s = sum(_decoding_s(one, row, usual_s) for one, row in found)
        return _Step(usual_s, decode_s, "steps that only decode")
    costs = [cost for one in window.ranges if (cost := busy.cost(one)) is not None and cost.told]
    fitted = len(costs) == 1
    if own_step_s is not None and not (fitted and own_step_s > MUCH_MORE * costs[0].step_s):
        return _Step(own_step_s, own_step_s * steps, "own load")
    if not fitted:
        return None
    return _Step(costs[0].step_s, costs[0].step_s * steps, "steps and prompt tokens, fitted")


def _decoding_s(one: ScrapeRange, paces: Sequence[Pace], usual_s: float) -> float:
    """Of the steps of a range, each as long as those nearest to it that only decode."""
    counted = one.server.histogram(Quantity.ITERATION_TOKENS)
    if counted is None:
        return 0.0
    total, since, before_s = 0.0, one.first, None
    for scrape, step_s, steps in paces:
        between = (counted.sums(since, scrape - 1) or (0.0, 0.0))[1] if scrape - 1 > since else 0.0
        total += between * (step_s if before_s is None else (before_s + step_s) / 2) + steps * step_s
        since, before_s = scrape, step_s
    rest = (counted.sums(since, one.last) or (0.0, 0.0))[1] if one.last > since else 0.0
    return total + rest * (usual_s if before_s is None else before_s)


def _median(paces: Sequence[Pace]) -> float:
    """Of the time of a step, weighted by steps."""
    half, steps = sum(many for _, _, many in paces) / 2, 0.0
    ordered = sorted((step_s, many) for _, step_s, many in paces)
    for step_s, many in ordered:
        steps += many
        if steps >= half:
            return step_s
    return ordered[-1][0]


def _engines(one: ScrapeRange) -> int:
    return max(1, len(one.server.engines(Quantity.RUNNING, one.last)))


def _prompt_tokens(window: Window) -> float:
    works = (needed(one.server, one.first, one.last) for one in window.ranges)
    return sum(work.prompt for work in works if work is not None)


def _undisturbed_s(window: Window, step_s: float | None) -> float | None:
    output = window.mean(Quantity.REQUEST_GENERATION_TOKENS)
    return max(0.0, output - 1) * step_s if output is not None and step_s is not None else None
