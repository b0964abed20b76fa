"""The panel KV cache: how full the pool is, over time and in tokens, and how full it should be."""

from __future__ import annotations

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import (
    Block,
    chart_cells,
    chart_rows,
    growing,
    left,
    right,
    scale,
    seen,
    sparked,
    spread,
    stacked,
    top,
)
from vtop.draw.text import Line, Phrase, Piece, line, phrases
from vtop.draw.theme import Look
from vtop.session.frame.charts import Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.values import Gauge

FILLING = 0.8  # of the pool: before, when it will be full is too far off to say


NEARLY_FULL = 0.9  # from this median on the chart begins at FLOOR, so that what is left can be read
FLOOR = 0.8
_GAUGED = 5  # rows from which there is room for a bar beside all else


def kv(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """How full the KV cache is: a bar now, a chart over time, tokens; and how full it should be.

    Blocks are counted, so used tokens are an upper bound.
    """
    look, cache = seen(frame, look), frame.kv
    name = "fullest" if len(frame.engines) > 1 else "KV used"
    used = left(name, units.percent(cache.used.now))
    gauged = height >= _GAUGED
    floor = FLOOR if (cache.used.median or 0.0) >= NEARLY_FULL else 0.0

    def gauge(_: int) -> list[Line]:
        filled, rest = chart.meter(cache.used.now, chart_cells(width), look.glyphs)
        return [line(look, width, *used, (filled, "kv"), (rest, "border"), right(width, "100 %"))]

    def over_time(rows: int) -> list[Line]:
        drawn = sparked(look, width, rows, frame.charts.kv_used, (1.0, "kv"), floor=floor)
        bottom = f"↓ {floor * 100:.0f} %" if floor else ""
        ceiling = f"{floor * 100:.0f}–100 %" if floor and rows == 1 else top("100 %", width)
        ends = scale(width, rows, ceiling, spread(cache.used, units.whole_percent), bottom)
        head = _until_full(frame) if gauged else used
        return chart_rows(look, width, head, drawn, ends)

    blocks = [growing(0, over_time), Block(1, lambda _: [_tokens(frame, width, look, full_in=not gauged)])]
    if gauged:
        blocks.insert(0, Block(0, gauge))
    blocks.append(Block(3, lambda _: [_pool(frame, width, look)]))
    if frame.account.effective is not None:
        blocks.append(Block(2, lambda _: [_expected(frame, width, look)]))
    return stacked(look, width, height, blocks)


def kv_alone(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """All of the body: the pool as in its panel, with the residents and those that wait for it on the same time axis,
    and beside what is used what should be."""
    faded, cells = seen(frame, look), chart_cells(width)
    asked, account = frame.requests, frame.account

    def requests(label: str, now: Gauge, points: Points, rows: int) -> list[Line]:
        most = chart.nice_maximum((*points, now.now), 4)
        drawn = sparked(faded, width, rows, points, (most, label))
        ends = scale(width, rows, top(units.short_count(most), width), spread(now, units.short_count))
        name = "residents" if label == "running" else label
        return chart_rows(faded, width, left(name, units.short_count(now.now)), drawn, ends)

    def peak(_: int) -> list[Line]:
        assert account.effective is not None
        ratio = account.effective.peak_ratio
        filled, rest = chart.meter(ratio, cells, faded.glyphs)
        head = left("expected", units.percent(ratio))
        return [line(faded, width, *head, (filled, "limit"), (rest, "border"), right(width, "100 %"))]

    used = max(_GAUGED + 3, height // 2)
    blocks = [Block(0, lambda rows: kv(frame, width, rows, look), min(used, height), used)]
    if account.effective is not None:
        blocks.append(Block(1, peak))
    blocks += [
        growing(2, lambda rows: requests("running", asked.running, frame.charts.running, rows)),
        growing(3, lambda rows: requests("waiting", asked.waiting, frame.charts.waiting, rows)),
    ]
    return stacked(look, width, height, blocks)


def _until_full(frame: Frame) -> list[Piece]:
    full_in_s = filling(frame)
    return left("", "", "dim") if full_in_s is None else left("full in", soon(full_in_s), "text")


def _tokens(frame: Frame, width: int, look: Look, *, full_in: bool) -> Line:
    """Tokens in use and free, and when none will be free."""
    cache = frame.kv
    at_most = "≤ " if cache.used_tokens is not None else ""
    at_least = "≥ " if cache.room_tokens is not None else ""
    used = (at_most + units.count(cache.used_tokens), "number")
    free = (f"{at_least}{units.count(cache.room_tokens)} tok", "number")
    shown = [
        Phrase(0, (used, (f" of {units.count(cache.pool_tokens)} tok", "dim"))),
        Phrase(1, (("free ", "dim"), free)),
    ]
    if full_in and (full_in_s := filling(frame)) is not None:
        shown.append(Phrase(2, (("full in ", "dim"), (soon(full_in_s), "text"))))
    if len(frame.engines) > 1:
        shown.append(Phrase(3, (("mean of engines ", "dim"), (units.percent(cache.mean_used_ratio), "text"))))
    return phrases(look, width, shown)


def soon(full_in_s: float) -> str:
    """When the pool is full: between two scrapes nobody can say."""
    return f"≈ {units.seconds(full_in_s)}" if full_in_s >= 1 else "< 1 s"


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
        asked.append(Phrase(1, (("demand ", "dim"), (f"{account.oversubscription:.1f} × pool", role))))
    if account.predicted_residents is not None:
        asked.append(Phrase(2, (("fit ", "dim"), (units.number(account.predicted_residents), "text"))))
    return phrases(look, width, asked)


def _pool(frame: Frame, width: int, look: Look) -> Line:
    cache = frame.kv
    shown = [Phrase(0, (("pool ", "dim"), (units.bytes_(cache.pool_bytes), "text")))]
    if cache.max_concurrency is not None:
        shown.append(Phrase(1, (("fits ", "dim"), (fits(frame), "text"))))
    if cache.bytes_per_token is not None:
        shown.append(Phrase(2, ((f"{units.bytes_(cache.bytes_per_token)} per token", "dim"),)))
    if cache.block_size is not None:
        shown.append(Phrase(3, ((f"blocks of {units.count(cache.block_size)}", "dim"),)))
    return phrases(look, width, shown)


def fits(frame: Frame) -> str:
    """How many of the longest requests the pool holds at once: 10.6 requests of 8,192 tok."""
    lengths = {server.max_model_len for server in frame.servers if server.max_model_len is not None}
    longest = f"{units.count(lengths.pop())} tok" if len(lengths) == 1 else "max_model_len"
    return f"{units.number(frame.kv.max_concurrency)} requests of {longest}"
