"""The panel tokens: out and in per second, what a step is made of, recomputed work and prefix hits."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import Block, chart_cells, chart_rows, growing, left, parted, seen, sparked, stacked, top
from vtop.draw.text import Line, Phrase, line, phrases
from vtop.draw.theme import Look
from vtop.session.frame.charts import Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.values import Count

_OF: Final = {"prompt tokens": "prompt tok", "looked up": "tok looked up"}


def tokens(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Tokens out and in per second, what a step is made of, and what the prefix cache saved."""
    return _tokens(frame, width, height, look, least=1)


def tokens_alone(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """All of the body: half of it for what a step is made of, decode and prefill."""
    return _tokens(frame, width, height, look, least=max(1, height // 2))


def _tokens(frame: Frame, width: int, height: int, look: Look, *, least: int) -> list[Line]:
    """`least`: rows of what a step is made of."""
    look, charts, step = seen(frame, look), frame.charts, frame.iteration

    def rate(label: str, role: str, tokens: Count, points: Points, rows: int) -> list[Line]:
        maximum = chart.nice_maximum((*points, tokens.per_s), 100)
        head = left(label, units.short(tokens.per_s), unit="/s")
        drawn = sparked(look, width, rows, points, (maximum, role))
        beside = (("total", units.short_count(tokens.in_window)),)
        return chart_rows(look, width, head, drawn, [top(units.short_count(maximum), width)], beside=beside)

    def make_up(rows: int) -> list[Line]:
        cells, head = chart_cells(width), left("per step", units.short(step.tokens))
        if rows == 1:
            parts = ((step.decode, "decode"), (step.prefill, "prefill"))
            return chart_rows(look, width, head, [chart.bar(parts, cells, look.glyphs)], [])
        decode = chart.in_cells(charts.decode_per_step, cells)
        prefill = chart.in_cells(charts.prefill_per_step, cells)
        maximum = chart.nice_maximum(chart.summed(decode, prefill), 10)
        grown = chart.stack(((decode, "decode"), (prefill, "prefill")), maximum, rows, look.glyphs, look.solid)
        return chart_rows(look, width, head, grown, [top(units.short_count(maximum), width)])

    out, asked = frame.generation_tokens, frame.prompt_tokens
    blocks = [
        growing(0, lambda rows: rate("out", "generation", out, charts.generation_per_s, rows)),
        growing(1, lambda rows: rate("in", "prompt", asked, charts.prompt_per_s, rows)),
        growing(2, make_up, least),
        Block(3, lambda _: [_step(frame, width, look)]),
        Block(5, lambda _: [_prefix(frame, width, look)]),
    ]
    if sum(source.tokens > 0 for source in frame.prompt_sources) > 1:
        blocks.append(Block(6, lambda _: [_sources(frame, width, look)]))
    if frame.failed_transfers is not None:
        blocks.append(Block(3 if frame.failed_transfers.in_window else 7, lambda _: [_failed(frame, width, look)]))
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
    """How much ran again, by how much that was more than the answers needed, and what a preemption cost."""
    found = frame.recompute
    about = "≈ " if found.estimate else ""
    extra = "" if found.ratio is None else f" (+{units.percent(found.ratio)})"
    total = (f"{about}{units.count(found.tokens)} tok", "number")
    shown = [Phrase(0, (("recomputed ", "dim"), total, (extra, "text")))]
    if found.per_preemption is not None:
        shown.append(Phrase(1, ((f"{units.count(found.per_preemption)} per preemption", "dim"),)))
    shown.append(Phrase(2, ((f"since vtop attached {about}{units.count(found.since_start)}", "dim"),)))
    return phrases(look, width, shown)


def _sources(frame: Frame, width: int, look: Look) -> Line:
    """Where the prompt tokens of the window had their KV from."""
    of = [source for source in frame.prompt_sources if source.tokens]
    total = units.short_count(sum(source.tokens for source in of))
    shown = [Phrase(9, ((f"of {total} prompt tok", "dim"),))]
    shown[:0] = [
        Phrase(at, ((f"{source.source} ", "dim"), (units.percent(source.ratio), "text")))
        for at, source in enumerate(of)
    ]
    return phrases(look, width, shown)


def _failed(frame: Frame, width: int, look: Look) -> Line:
    """Transfers of KV that failed, and which."""
    of = frame.failed_transfers
    assert of is not None
    role = "warn" if of.in_window else "text"
    shown = [Phrase(0, (("failed KV transfers ", "dim"), (units.count(of.in_window), role)))]
    shown += [Phrase(at + 1, ((f"{part} {units.count(n)}", role),)) for at, (part, n) in enumerate(of.by_part)]
    shown.append(Phrase(9, ((f"since vtop attached {units.count(of.since_start)}", "dim"),)))
    return phrases(look, width, shown)


def _prefix(frame: Frame, width: int, look: Look) -> Line:
    hits = frame.prefix_cache
    if frame.kv.prefix_caching is False:
        return line(look, width, ("prefix caching is off", "dim"))
    ratio, of = (units.percent(hits.hit_ratio), "text"), f"{units.count(hits.asked_tokens)} {_OF[hits.of]}"
    if hits.external_tokens:  # some of them came through a KV connector
        shown = [
            Phrase(0, (("prefix hits ", "dim"), ratio)),
            Phrase(1, (("connector ", "dim"), (units.percent(hits.external_ratio), "text"))),
            Phrase(2, ((of, "dim"),)),
        ]
    else:
        shown = [Phrase(0, (("prefix hits ", "dim"), ratio, (f" of {of}", "dim")))]
    shown.append(Phrase(3, (("since server start ", "dim"), (units.percent(hits.lifetime_ratio), "text"))))
    if hits.recompute:
        shown.append(Phrase(1, (("recompute counts as hits", "warn"),)))
    return phrases(look, width, shown)
