"""What flows through the engines: requests, the KV cache that they hold, and tokens; and the time axis below them."""

from __future__ import annotations

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import (
    LEFT,
    Block,
    chart_columns,
    chart_rows,
    growing,
    left,
    parted,
    right,
    seen,
    sparked,
    stacked,
    top,
)
from vtop.draw.text import Line, Phrase, blank, either, line, padded, phrases, shorten
from vtop.draw.theme import Look
from vtop.session.frame.charts import Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.values import Count, Gauge

FILLING = 0.8  # of the pool: before, when it will be full is too far off to say


def requests(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Requests running and waiting, preemptions as a staircase with its ticks, and what finished."""
    look, charts, asked = seen(frame, look), frame.charts, frame.requests
    total = frame.preemption.count.since_start
    if height == 1:
        shown = [
            Phrase(0, (("running ", "dim"), (units.count(asked.running.now), "number"))),
            Phrase(1, (("waiting ", "dim"), (units.count(asked.waiting.now), "number"))),
            Phrase(2, (("preempted ", "dim"), (units.count(total), "number"))),
        ]
        return [phrases(look, width, shown)]

    def gauge(label: str, now: Gauge, points: Points, rows: int) -> list[Line]:
        maximum = chart.nice_maximum((*points, now.now), 10)  # a column is drawn once it is over
        said = (("median", now.median), ("high", now.high), ("low", now.low))
        beside = [(word, units.short_count(value)) for word, value in said]
        head, drawn = left(label, units.short_count(now.now)), sparked(look, width, rows, points, (maximum, label))
        return chart_rows(look, width, head, drawn, top(units.short_count(maximum), width), beside=beside)

    columns = chart_columns(width)
    risen = chart.in_columns(charts.preempted, columns)
    counted = chart.in_columns(charts.preemptions, columns)

    def preemptions(rows: int) -> list[Line]:
        steps = chart.stairs(counted, risen, rows, look.glyphs, total)
        shown = chart.shaded(steps.rows, "preemption")
        beside = (("total", units.short_count(frame.preemption.count.in_window)),)
        head = left("preempt", units.short_count(total))
        return chart_rows(look, width, head, shown, steps.risen, beside=beside, bottom="")

    def ticks(_: int) -> list[Line]:
        marks = chart.stairs(counted, risen, 1, look.glyphs).ticks
        every = frame.preemption.interval_s
        head = [(" " * LEFT, "dim")] if every is None else left("  every", units.seconds(every), "dim")
        return [line(look, width, *head, (marks, "preemption"), right(width, ""))]

    blocks = [
        growing(0, lambda rows: gauge("running", asked.running, charts.running, rows)),
        growing(1, lambda rows: gauge("waiting", asked.waiting, charts.waiting, rows)),
        growing(2, preemptions),
        Block(3, ticks),
        Block(4, lambda _: [_finished(frame, width, look)]),
    ]
    return stacked(look, width, height, blocks)


def _finished(frame: Frame, width: int, look: Look) -> Line:
    asked = frame.requests
    shown = [
        Phrase(0, (("finished ", "dim"), (units.count(asked.finished.in_window), "number"))),
        Phrase(1, ((f"{units.number(asked.finished.per_s)} /s{_over(asked.finished, frame.window_s)}", "dim"),)),
    ]
    for reason, n in asked.finished_by_reason:
        role = "bad" if reason == "error" and n else "dim"
        shown.append(Phrase(2 if role == "bad" else 4, ((f"{reason} {units.count(n)}", role),)))
    if asked.rejected.in_window:
        shown.append(Phrase(2, ((f"rejected {units.count(asked.rejected.in_window)}", "warn"),)))
    for reason, n in asked.waiting_by_reason:
        if n:
            shown.append(Phrase(3, ((f"waiting for {reason} {units.count(n)}", "dim"),)))
    return phrases(look, width, shown)


def _over(of: Count, window_s: float) -> str:
    """The time that a rate is about, where that is not the window: while a server was down nothing was counted."""
    counted_s = of.in_window / of.per_s if of.in_window and of.per_s else window_s
    return f" over {units.span(counted_s)}" if counted_s < 0.95 * window_s else ""


def kv(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """How full the KV cache is, over time and in tokens. Blocks are counted, so used tokens are an upper bound."""
    look, cache = seen(frame, look), frame.kv
    several = len(frame.engines) > 1

    def used(rows: int) -> list[Line]:
        said = (("median", cache.used.median), ("high", cache.used.high), ("low", cache.used.low))
        beside = [(word, units.percent(value)) for word, value in said]
        head = left("fullest" if several else "KV used", units.percent(cache.used.now))
        drawn = sparked(look, width, rows, frame.charts.kv_used, (1.0, "kv"))
        return chart_rows(look, width, head, drawn, top("100 %", width), beside=beside)

    blocks = [
        growing(0, used),
        Block(1, lambda _: [_account(frame, width, look)]),
        Block(3, lambda _: [_pool(frame, width, look)]),
    ]
    if frame.account.effective is not None:
        blocks.append(Block(2, lambda _: [_expected(frame, width, look)]))
    return stacked(look, width, height, blocks)


def _account(frame: Frame, width: int, look: Look) -> Line:
    cache = frame.kv
    at_most = "≤ " if cache.used_tokens is not None else ""
    at_least = "≥ " if cache.room_tokens is not None else ""
    used = (at_most + units.count(cache.used_tokens), "number")
    shown = [
        Phrase(0, (used, (f" of {units.count(cache.pool_tokens)} tok", "dim"))),
        Phrase(1, (("room ", "dim"), (at_least + units.count(cache.room_tokens), "number"))),
    ]
    if (full_in_s := filling(frame)) is not None:
        shown.append(Phrase(2, (("full in ", "dim"), (f"≈ {units.seconds(full_in_s)}", "text"))))
    if len(frame.engines) > 1:
        shown.append(Phrase(3, (("mean of engines ", "dim"), (units.percent(cache.mean_used_ratio), "text"))))
    return phrases(look, width, shown)


def filling(frame: Frame) -> float | None:
    """Seconds until the pool is full, where that is to be said: of a pool nearly full, by a scrape that is not old."""
    near = frame.status.fresh and (frame.kv.used.now or 0.0) >= FILLING
    return frame.account.full_in_s if near else None


def _expected(frame: Frame, width: int, look: Look) -> Line:
    """What the pool should hold by lengths and concurrency, beside what it does."""
    account, asked = frame.account, []
    if (found := account.effective) is not None:
        error = "" if found.peak_error_ratio is None else f" ({found.peak_error_ratio * 100:+.1f} pt)"
        asked.append(Phrase(0, (("expected peak ", "dim"), (units.percent(found.peak_ratio), "text"), (error, "dim"))))
    if account.oversubscription is not None:
        role = "warn" if account.oversubscription > 1 else "text"
        asked.append(Phrase(1, (("asked for ", "dim"), (f"{account.oversubscription:.1f} ×", role))))
    if account.predicted_residents is not None:
        asked.append(Phrase(2, (("fit ", "dim"), (units.number(account.predicted_residents), "text"))))
    return phrases(look, width, asked)


def _pool(frame: Frame, width: int, look: Look) -> Line:
    cache = frame.kv
    shown = [Phrase(0, (("pool ", "dim"), (units.bytes_(cache.pool_bytes), "text")))]
    if cache.max_concurrency is not None:
        shown.append(Phrase(1, (("fits ", "dim"), (fits(frame), "text"))))
    if cache.bytes_per_token is not None:
        shown.append(Phrase(2, ((f"{units.bytes_(cache.bytes_per_token)} a token", "dim"),)))
    if cache.block_size is not None:
        shown.append(Phrase(3, ((f"blocks of {units.count(cache.block_size)}", "dim"),)))
    return phrases(look, width, shown)


def fits(frame: Frame) -> str:
    """How many of the longest requests the pool holds at once: 10.6 × 8,192."""
    lengths = {server.max_model_len for server in frame.servers if server.max_model_len is not None}
    longest = units.count(lengths.pop()) if len(lengths) == 1 else "max_model_len"
    return f"{units.number(frame.kv.max_concurrency)} × {longest}"


def tokens(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Tokens out and in per second, what a step is made of, and what the prefix cache saved."""
    look, charts, step = seen(frame, look), frame.charts, frame.iteration

    def rate(label: str, role: str, tokens: Count, points: Points, rows: int) -> list[Line]:
        maximum = chart.nice_maximum((*points, tokens.per_s), 100)
        head = left(label, units.short(tokens.per_s), unit="/s")
        drawn = sparked(look, width, rows, points, (maximum, role))
        beside = (("total", units.short_count(tokens.in_window)),)
        return chart_rows(look, width, head, drawn, top(units.short_count(maximum), width), beside=beside)

    def make_up(rows: int) -> list[Line]:
        columns, head = chart_columns(width), left("per step", units.short(step.tokens))
        if rows == 1:
            parts = ((step.decode, "decode"), (step.prefill, "prefill"))
            return chart_rows(look, width, head, [chart.bar(parts, columns, look.glyphs)], "")
        decode = chart.in_columns(charts.decode_per_step, columns)
        prefill = chart.in_columns(charts.prefill_per_step, columns)
        maximum = chart.nice_maximum(chart.summed(decode, prefill), 10)
        grown = chart.stack(((decode, "decode"), (prefill, "prefill")), maximum, rows, look.glyphs, look.solid)
        return chart_rows(look, width, head, grown, top(units.short_count(maximum), width))

    out, asked = frame.generation_tokens, frame.prompt_tokens
    blocks = [
        growing(0, lambda rows: rate("out", "generation", out, charts.generation_per_s, rows)),
        growing(1, lambda rows: rate("in", "prompt", asked, charts.prompt_per_s, rows)),
        growing(2, make_up),
        Block(3, lambda _: [_step(frame, width, look)]),
        Block(5, lambda _: [_prefix(frame, width, look)]),
    ]
    if frame.preemption.count.since_start and frame.recompute.since_start is not None:
        blocks.append(Block(4, lambda _: [_recomputed(frame, width, look)]))
    return stacked(look, width, height, blocks)


def _step(frame: Frame, width: int, look: Look) -> Line:
    step, parts = frame.iteration, look.glyphs.parts
    shown = [
        Phrase(rank, ((parts[role] + " ", role), (f"{role} ", "dim"), (units.number(value), "text")))
        for rank, role, value in ((0, "decode", step.decode), (1, "prefill", step.prefill))
    ]
    number, unit = parted(f"{units.number(step.steps_per_s)} steps/s")
    shown.append(Phrase(2, ((number, "text"), (f" {unit}", "dim"))))
    return phrases(look, width, shown)


def _recomputed(frame: Frame, width: int, look: Look) -> Line:
    found = frame.recompute
    about = "≈ " if found.estimate else ""
    shown = [Phrase(0, (("recomputed ", "dim"), (about + units.count(found.since_start), "number")))]
    if found.since_start_ratio is not None:
        shown.append(Phrase(1, ((f"{units.percent(found.since_start_ratio)} over the least", "text"),)))
    if found.per_preemption is None:
        return phrases(look, width, shown)
    each = units.count(found.per_preemption)
    words = (f"{each} tok a preemption", f"{each} a preemption", f"{each} a time")
    return phrases(look, width, either(look, width, *([*shown, Phrase(2, ((said, "dim"),))] for said in words)))


def _prefix(frame: Frame, width: int, look: Look) -> Line:
    hits = frame.prefix_cache
    if frame.kv.prefix_caching is False:
        return line(look, width, ("prefix caching is off", "dim"))
    shown = [
        Phrase(
            0,
            (
                ("prefix hits ", "dim"),
                (units.percent(hits.hit_ratio), "text"),
                (f" of {units.count(hits.asked_tokens)} tok", "dim"),
            ),
        ),
        Phrase(2, (("since server start ", "dim"), (units.percent(hits.lifetime_ratio), "text"))),
    ]
    if hits.recompute:
        shown.append(Phrase(1, (("recompute counts as hits", "warn"),)))
    return phrases(look, width, shown)


def axis(frame: Frame, width: int, height: int, look: Look, before: str = "") -> list[Line]:
    """The one time axis of the charts above it. It ends now; at an instant of the session where there is no news.

    Before it stands what is to be said of all of them, where they have no headings to say it."""
    end = "now" if frame.status.fresh else units.clock(frame.charts.end_s)
    runs = chart.axis(frame.charts, chart_columns(width), look.glyphs.signs, look.glyphs.rule, end)
    ends = line(
        look, width, (padded(shorten(before, LEFT - 1, look.glyphs.ellipsis), LEFT), "warn"), *runs, right(width, "")
    )
    return [ends] + [blank(look, width)] * (height - 1)
