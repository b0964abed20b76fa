"""Why it is as it is: the verdict and what it rests on, an analysis a line, each with its numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from vtop import units
from vtop.draw.grid import LEFT, Block, fixed, seen, shared, stacked
from vtop.draw.panels import wall_clock
from vtop.draw.panels.kv import filling, soon
from vtop.draw.panels.requests import apart_s
from vtop.draw.panels.verdict_line import verdict_role
from vtop.draw.text import Line, Phrase, Piece, line, wrapped
from vtop.draw.theme import Look
from vtop.session.bottleneck.verdict import TITLES
from vtop.session.frame.frame import Frame
from vtop.session.frame.prices import FLAGS, LABELS, worth
from vtop.session.frame.requests import Little


def why(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """What binds and what to try; then queueing, the KV account, preemptions, recompute, time, tail, energy."""
    look = seen(frame, look)
    return stacked(look, width, height, _blocks(frame, width, height, look))


def left_out(frame: Frame, width: int, height: int, look: Look) -> int:
    """How many rows there are beyond those that so many lines show."""
    left = 0 if height >= _ROOM else sum(make(frame) is not None for make in _ON_TOP)
    return left + shared(height, _blocks(frame, width, height, look)).count(0)


@lru_cache(maxsize=1)  # asked for twice: what is left out stands in the heading
def _blocks(frame: Frame, width: int, height: int, look: Look) -> list[Block]:
    on_top = _ON_TOP if height >= _ROOM else ()
    top, rest = ([row for make in of if (row := make(frame)) is not None] for of in (on_top, _ROWS))
    blocks = [_row(look, width, label, items) for label, items in (*top, *rest)]
    if wall_clock.known(frame):
        blocks.insert(len(top), fixed(0, [wall_clock.bar(frame, width, look)]))
    return blocks


def _row(look: Look, width: int, label: str, items: list[Phrase]) -> Block:
    """A label and its phrases; on further lines what one has no room for, first of all the flag to try, and what would
    be cut in the middle of a sentence."""
    room = width - LEFT
    most = min(_LINES, len(wrapped(look, room, _LINES, items)))
    least = min(_LINES, len(wrapped(look, room, _LINES, [min(items, key=lambda item: item.rank)])))

    def draw(lines: int) -> list[Line]:
        laid = wrapped(look, room, lines, items)
        heads = (label, *[""] * len(laid))
        return [
            line(look, width, (f"{head:<{LEFT}}", "dim"), *pieces) for head, pieces in zip(heads, laid, strict=False)
        ]

    return Block(0, draw, most if label in (_TRY, "prices") else least, most)


STEADY: Final = 0.25  # beyond this Little's law says that the window is no steady state
APART: Final = 0.2  # between the energy counters and power, beyond which one of them is wrong
_TRY: Final = "try"
_LINES: Final = 3  # of one row, at most
_ROOM: Final = 6  # lines from which the verdict is repeated, and the flag to try may take several

Row = tuple[str, list[Phrase]] | None


def _said(rank: int, *pieces: Piece) -> Phrase:
    return Phrase(rank, pieces)


def _verdict(frame: Frame) -> Row:
    found = frame.verdict
    return "verdict", [
        _said(0, (TITLES[found.limit].lower(), verdict_role(found.limit))),
        *(_said(at + 1, (text, "text")) for at, text in enumerate(found.evidence)),
    ]


def _try(frame: Frame) -> Row:
    found = frame.verdict
    if found.flag is None:
        return None
    return _TRY, [_said(0, (found.flag, "mark")), _said(1, (found.why or "", "dim"))]


def _prices(frame: Frame) -> Row:
    """What a tenth more of each limit is worth: output tokens/s, and mean TTFT where that is something."""
    if frame.prices is None:
        return None
    binding = frame.prices.binding
    items = [_said(0, ("10 % more of each, simulated", "dim"))]
    for rank, price in enumerate(frame.prices.prices, 1):
        role = "mark" if price is binding and price.limit in FLAGS else "number"
        said = worth(price.output)
        if worth(price.ttft) != "0":
            said = f"{said} tok/s, {worth(price.ttft)} TTFT"
        items.append(_said(rank, (f"{LABELS[price.limit]} ", "dim"), (said, role)))
    return "prices", items


def _queue(frame: Frame) -> Row:
    found = frame.queueing
    items = []
    if found.trend is not None and frame.status.fresh:
        speed = f" {units.number(abs(found.slope_per_s or 0.0) * 60)} a minute" if found.trend != "steady" else ""
        items.append(
            _said(0, ("queue is ", "dim"), (found.trend + speed, "warn" if found.trend == "growing" else "text"))
        )
    if found.waiting_share is not None:
        items.append(
            _said(1, (units.percent(found.waiting_share), "number"), (" of a request's life is waiting", "dim"))
        )
    of = frame.growth.queue_of_prefill_ratio
    if of is not None and of >= 0.01:
        items.append(_said(2, ("queue is ", "dim"), (f"{units.number(of)} × prefill", "text")))
    return ("queue", items) if items else None


def _little(frame: Frame) -> Row:
    found = frame.queueing
    items = [
        _little_said(rank, name, little)
        for rank, (name, little) in enumerate((("running", found.running), ("waiting", found.waiting)))
        if little is not None and little.present  # of nobody it says nothing
    ]
    return ("Little's law", items) if items else None


def _little_said(rank: int, name: str, of: Little) -> Phrase:
    off = of.residual_ratio or 0.0
    residual = "" if of.residual_ratio is None else f" ({off * 100:+.0f} %)"
    unsteady: tuple[Piece, ...] = ((" no steady state", "warn"),) if abs(off) > STEADY else ()
    return _said(
        rank,
        (f"{name} ", "dim"),
        (units.number(of.present), "number"),
        (f" = {units.number(of.per_s)} /s × {units.seconds(of.stay_s)} = {units.number(of.expected)}{residual}", "dim"),
        *unsteady,
    )


def _expected(frame: Frame) -> Row:
    account = frame.account
    found = account.effective if account.effective is not None else account.nominal
    if found is None:
        return None
    run = "that run" if found is account.effective else "in demand"
    items = [
        _said(
            0, ("peak ", "dim"), (units.percent(found.peak_ratio), "number"), (_points(found.peak_error_ratio), "dim")
        ),
        _said(
            1, ("mean ", "dim"), (units.percent(found.mean_ratio), "number"), (_points(found.mean_error_ratio), "dim")
        ),
        _said(2, (f"for the {units.short_count(found.concurrency)} {run}", "dim")),
    ]
    asked = account.nominal
    if asked is not None and asked.concurrency != found.concurrency:
        said = f"{units.percent(asked.peak_ratio)} for the {units.short_count(asked.concurrency)} in demand"
        items.append(_said(3, (said, "dim")))
    return "KV expected", items


def _points(ratio: float | None) -> str:
    """By how much what was measured lies above it."""
    return "" if ratio is None else f" (measured {ratio * 100:+.1f} points)"


def _account(frame: Frame) -> Row:
    account = frame.account
    items = []
    if account.oversubscription is not None:
        times = f"{account.oversubscription:.1f} × the pool"
        items.append(_said(0, ("demand ", "dim"), (times, "warn" if account.oversubscription > 1 else "number")))
    if account.predicted_residents is not None:
        items.append(
            _said(
                1,
                ("fit ", "dim"),
                (units.number(account.predicted_residents), "number"),
                (f", resident {units.short_count(account.measured_residents)}", "dim"),
            )
        )
    if account.input_tokens is not None:
        items.append(
            _said(3, (f"{units.count(account.input_tokens)} in {units.count(account.output_tokens)} out", "dim"))
        )
    if (full_in_s := filling(frame)) is not None:
        items.append(_said(2, ("full in ", "dim"), (soon(full_in_s), "text")))
    if account.waste_tokens is not None:
        items.append(_said(4, ("lost in blocks ", "dim"), (f"{units.count(account.waste_tokens)} tok", "text")))
    return ("KV account", items) if items else None


def _stair(frame: Frame) -> Row:
    staircase = frame.staircase
    if not staircase.events:
        return None
    every = units.seconds(apart_s(frame))
    items = [
        _said(0, (f"{units.count(frame.preemption.count.in_window)}, one every ", "dim"), (every, "number")),
    ]
    if staircase.trigger_mean_ratio is not None:
        items.append(_said(1, ("at KV ", "dim"), (units.percent(staircase.trigger_mean_ratio), "number")))
    if staircase.freed_mean_tokens is not None:
        items.append(_said(2, (f"{units.count(staircase.freed_mean_tokens)} tok freed each", "dim")))
    if staircase.steady:
        spread = units.seconds(staircase.cycle_spread_s)
        items.append(_said(5, (f"a cycle of {units.seconds(staircase.cycle_s)} ± {spread}", "text")))
    if staircase.per_minute is not None:
        items.append(_said(3, (f"{units.number(staircase.per_minute)} a minute", "dim")))
    if staircase.straightness is not None:
        items.append(_said(6, (f"R² {staircase.straightness:.3f}", "dim")))
    if staircase.thrashing:
        items.append(_said(0, (f"thrashing: put back more than 5 times: {units.count(staircase.thrashing)}", "bad")))
    if staircase.unconfirmed:
        items.append(_said(4, (f"{staircase.unconfirmed} more by the gauges", "dim")))
    return "preemptions", items


def _recompute(frame: Frame) -> Row:
    found = frame.recompute
    if found.method is None or not frame.preemption.count.since_start:
        return None
    about = "≈ " if found.estimate else ""
    items = [_said(0, (f"{about}{units.count(found.tokens)} tok", "number"))]
    if found.ratio is not None:
        items.append(_said(1, (f"{units.percent(found.ratio)} more than the answers needed", "text")))
    if found.per_preemption is not None:
        items.append(_said(2, (f"{about}{units.count(found.per_preemption)} per preemption", "text")))
    checks = [
        f"{name} ≈ {units.count(value)}"
        for name, value in (("by FLOPs", found.by_flops_tokens), ("by KV", found.by_kv_tokens))
        if value is not None and not found.estimate
    ]
    if checks:
        items.append(_said(4, (", ".join(checks), "dim")))
    items.append(_said(5, (found.method, "dim")))
    if found.missing_flag is not None:
        items.append(_said(3, (f"exact with {found.missing_flag}", "warn")))
    return "recomputed", items


def _decode(frame: Frame) -> Row:
    clock = frame.wallclock
    if clock.request_decode_s is None or clock.undisturbed_decode_s is None:
        return None
    return "decode", [
        _said(0, (units.seconds(clock.request_decode_s), "number"), (" per request", "dim")),
        _said(
            1,
            (units.seconds(clock.undisturbed_decode_s), "number"),
            (f" undisturbed, {units.seconds(clock.step_s)} per step", "dim"),
        ),
        _said(2, (units.percent(clock.stolen_ratio), "number"), (" stolen", "dim")),
    ]


def _tail(frame: Frame) -> Row:
    tail = frame.tail
    if tail.sentence is None:
        return None
    shown = f"from p{tail.percentile:g} on" if tail.percentile is not None else "in no percentile"
    return "ITL tail", [
        _said(0, ("preempted gaps show ", "dim"), (shown, "text")),
        _said(1, (f"they are {units.count(tail.touched)} of {units.count(tail.samples)}", "dim")),
    ]


def _energy(frame: Frame) -> Row:
    energy = frame.energy
    if energy.joules is None or not frame.gpus.local:
        return None
    items = [_said(0, (units.joules(energy.joules), "number"))]
    if energy.per_output_token_j is not None:
        items.append(_said(1, (f"{units.number(energy.per_output_token_j)} J", "number"), (" per output token", "dim")))
    if energy.per_token_j is not None:
        items.append(_said(2, (f"{units.number(energy.per_token_j)} J per token", "dim")))
    if energy.idle_share is not None:
        items.append(_said(3, (f"{units.whole_percent(energy.idle_share)} would go while idle", "dim")))
    if energy.apart_ratio is not None and abs(energy.apart_ratio) > APART:
        said = (
            f"the counters say {units.percent(abs(energy.apart_ratio))} {'more' if energy.apart_ratio > 0 else 'less'}"
        )
        items.append(_said(1, (f"! {said} than power does", "warn")))
    if energy.source is not None:
        items.append(_said(5, (energy.source, "dim")))
    return "energy", items


def _roofline(frame: Frame) -> Row:
    roof = frame.roofline
    if roof.flops_per_s is None:
        return None
    items = [_said(0, (f"{roof.flops_per_s / 1e12:,.1f} TFLOP/s", "number"))]
    if roof.mfu_ratio is not None:
        items.append(_said(1, ("MFU ", "dim"), (units.percent(roof.mfu_ratio), "number")))
    if roof.bytes_per_s is not None:
        items.append(_said(2, (f"{roof.bytes_per_s / 1e12:,.2f} TB/s", "text")))
    if roof.bandwidth_ratio is not None:
        items.append(_said(3, (f"{units.percent(roof.bandwidth_ratio)} of the bandwidth", "dim")))
    if roof.intensity is not None:
        items.append(_said(4, (f"{units.number(roof.intensity)} FLOP per byte", "dim")))
    return "arithmetic", items


def _growth(frame: Frame) -> Row:
    growth = frame.growth
    if len(growth.phases) < 2:
        return None
    items = []
    if growth.prefill_factor is not None:
        items.append(
            _said(
                1,
                ("prefill ", "dim"),
                (f"{units.number(growth.prefill_factor)} ×", "number"),
                (" of the lowest load", "dim"),
            )
        )
    if growth.queue_added_s is not None and growth.queue_added_s >= 0.001:
        items.append(_said(0, ("queue ", "dim"), (f"+{units.seconds(growth.queue_added_s)}", "number")))
    if growth.frontend_factor is not None:
        items.append(_said(3, ("frontend ", "dim"), (f"{units.number(growth.frontend_factor)} ×", "text")))
    if (crossed := growth.crossed) is not None:
        items.append(_said(2, (crossed.removeprefix("the "), "text")))
    elif growth.crossing is not None:
        said = f"queue overtakes prefill at ≈ {units.number(growth.crossing)} {growth.crossing_unit} (extrapolated)"
        items.append(_said(2, (said, "text")))
    return ("growth", items) if items else None


def _network(frame: Frame) -> Row:
    own = frame.own_ttft
    if own is None or own.client_s is None:
        return None
    items = [_said(0, ("client ", "dim"), (units.seconds(own.client_s), "number"), (f" n {own.n:,}", "dim"))]
    if own.network_s is not None:
        items.append(_said(1, ("network + HTTP ", "dim"), (units.seconds(own.network_s), "number")))
    if own.timed:
        timed = (("queue", own.timed_queue_s), ("prefill", own.timed_prefill_s), ("rest", own.timed_rest_s))
        said = " + ".join(f"{units.seconds(value)} {word}" for word, value in timed)
        items.append(_said(2, (said, "text"), (f" by the answers, n {own.timed:,}", "dim")))
    if own.foreign:
        items.append(_said(3, (f"{units.count(own.foreign)} finished that are not vtop's", "warn")))
    return "TTFT, own load", items


_ON_TOP: Final[tuple[Callable[[Frame], Row], ...]] = (_verdict, _try)  # they stand above every screen, too
_ROWS: Final[tuple[Callable[[Frame], Row], ...]] = (
    _prices, _queue, _little, _growth, _network, _account, _expected, _stair, _recompute, _decode, _tail,
    _energy, _roofline,
)  # fmt: skip
