"""Where the window's time went: decode, prefill, recompute, idle; and how much decode was stolen from each request.

    idle      = time between scrapes with nothing running and nothing generated
    decode    = steps x step_s, of what is not idle
    the rest  = prefill and recompute, divided by their tokens; decode too where there were neither

A step that also prefills counts as one step of decoding, and what it took longer is in the rest. step_s is the time of
a step that only decodes: the median over scrapes between which there was nothing but decoding (decoding.py), right to
one part in the steps of a scrape, where there are ENOUGH of them; else the median ITL of vtop's own load, in which
steps that also prefill weigh the more the busier the server is. Parts add up to the seconds of the window that the
counters tell of (a server that was down and came back anew lost count); of several engines or servers they are the
mean.

    request's decode = Δ decode sum / n, of the n requests that finished
    undisturbed      = (their mean output - 1) x step_s
    stolen           = 1 - undisturbed / decode       by others' prefill and recompute, and by being preempted

Steps are those that gave output (iteration_tokens' count); several API servers count one step several times.
Source: vLLM v1/metrics/stats.py, loggers.py. Seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from statistics import median

from vtop.metrics.quantity import Quantity
from vtop.session.frame.tokens import WallClock
from vtop.session.frame.vocabulary import StepFrom
from vtop.session.history.window import ScrapeRange, Window
from vtop.session.recompute.decode_only import step_times
from vtop.session.recompute.required_tokens import needed

ENOUGH = 3  # scrapes on which only decoding went on


def wallclock(window: Window, *, recomputed_tokens: float | None, own_step_s: float | None) -> WallClock:
    """recomputed_tokens: of the window; own_step_s: median ITL of vtop's own load, None without."""
    times = [time for one in window.ranges for time in step_times(one.server, one.first, one.last)]
    enough = len(times) >= ENOUGH or own_step_s is None
    step_s = median(times) if times and enough else own_step_s
    step_from: StepFrom | None = None
    if step_s is not None:
        step_from = "steps that only decode" if times and enough else "own load"
    seconds, idle, engines = 0.0, 0.0, 0
    for one in window.ranges:
        many = _engines(one)
        engines += many
        seconds += one.counted_s * many
        idle += _idle_s(one) * many
    decode = prefill = recompute = None
    if engines and step_s is not None and seconds > 0:
        busy = seconds - idle
        steps = window.observed(Quantity.ITERATION_TOKENS)
        decode = min(busy, steps * step_s)
        prompt, again = _prompt_tokens(window), recomputed_tokens or 0.0
        if prompt + again > 0:
            rest = busy - decode
            prefill, recompute = rest * prompt / (prompt + again), rest * again / (prompt + again)
        else:
            decode, prefill, recompute = busy, 0.0, 0.0
        decode, prefill, recompute = decode / engines, prefill / engines, recompute / engines
    request_s, undisturbed_s = window.mean(Quantity.DECODE), _undisturbed_s(window, step_s)
    return WallClock(
        decode_s=decode,
        prefill_s=prefill,
        recompute_s=recompute,
        idle_s=idle / engines if engines and seconds > 0 else None,
        step_s=step_s,
        step_from=step_from,
        request_decode_s=request_s,
        undisturbed_decode_s=undisturbed_s,
        stolen_ratio=max(0.0, 1 - undisturbed_s / request_s) if request_s and undisturbed_s is not None else None,
    )


def _engines(one: ScrapeRange) -> int:
    return max(1, len(one.server.engines(Quantity.RUNNING, one.last)))


def _idle_s(one: ScrapeRange) -> float:
    """Seconds between scrapes with nothing running, nor anything generated in between."""
    server = one.server
    running, generated = server.total(Quantity.RUNNING), server.total(Quantity.GENERATION_TOKENS)
    if running is None:
        return 0.0
    idle = 0.0
    scrapes, values = running.scrape, running.value
    for place in range(max(0, bisect_right(scrapes, one.first) - 1), bisect_right(scrapes, one.last)):
        if values[place] != 0:
            continue
        begin = max(scrapes[place], one.first)
        end = min(scrapes[place + 1] if place + 1 < len(scrapes) else one.last, one.last)
        idle += replace(one, first=begin, last=end).counted_s
        if generated is not None:  # requests that came and went between two scrapes
            for at in range(bisect_right(generated.scrape, begin), bisect_right(generated.scrape, end)):
                scrape = generated.scrape[at]
                idle -= replace(one, first=scrape - 1, last=scrape).counted_s
    return max(0.0, idle)


def _prompt_tokens(window: Window) -> float:
    works = (needed(one.server, one.first, one.last) for one in window.ranges)
    return sum(work.prompt for work in works if work is not None)


def _undisturbed_s(window: Window, step_s: float | None) -> float | None:
    output = window.mean(Quantity.REQUEST_GENERATION_TOKENS)
    return max(0.0, output - 1) * step_s if output is not None and step_s is not None else None
