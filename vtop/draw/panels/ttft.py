"""The panel time to first token: its parts as a bar unfolded a part a line, and over time."""

from __future__ import annotations

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import LEFT, Block, chart_cells, chart_rows, flush, right, seen, stacked, top
from vtop.draw.text import Line, Phrase, Piece, line, phrases
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

_Parts = tuple[tuple[float | None, str], ...]  # seconds, role
_FEW = 5  # fewer observations than this are few: their n stands out


def ttft(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The parts of the time to first token over the window, as one stacked bar unfolded a part a line; over time below.

    The parts are of the requests that finished in the window and add up; the first tokens are of other requests.
    """
    look, of = seen(frame, look), frame.ttft
    parts, total_s = _parts(frame)
    if not of.finished:
        blocks = [
            Block(0, lambda _: [_none(frame, width, look)]),
            Block(1, lambda _: [_first_tokens(frame, width, look)]),
            Block(2, lambda rows: _over_time(frame, width, rows, look), 2, 999),
        ]
    elif height <= len(parts):
        blocks = [
            Block(0, lambda _: [_bar(frame, parts, total_s, width, look)]),
            Block(1, lambda _: [_legend(parts, width, look)]),
            Block(2, lambda _: [_first_tokens(frame, width, look)]),
        ]
    else:
        blocks = [
            Block(0, lambda _: _unfolded(parts, width, look), len(parts), len(parts)),
            Block(1, lambda _: [_sum(frame, width, look)]),
            Block(2, lambda _: [_first_tokens(frame, width, look)]),
            Block(3, lambda rows: _over_time(frame, width, rows, look), 2, 999),
        ]
    return stacked(look, width, height, blocks)


def whose(frame: Frame) -> list[str]:
    """Of how many requests the parts tell."""
    return [f"{units.count(frame.ttft.finished)} finished in {units.span(frame.window_s)}"]


def _parts(frame: Frame) -> tuple[_Parts, float | None]:
    """The parts that are known, and their sum: the server's TTFT, or the client's where vtop's own load tells it."""
    of, own = frame.ttft, frame.own_ttft
    parts: _Parts = ((of.queue_s, "queue"), (of.prefill_s, "prefill"), (of.frontend_s, "frontend"))
    if own is None or own.network_s is None:
        return parts, of.total_s
    return (*parts, (own.network_s, "network")), own.client_s


def _bar(frame: Frame, parts: _Parts, total_s: float | None, width: int, look: Look) -> Line:
    """All parts in one bar, and whose they are: those that finished, not those that got their first token."""
    n = f" n {units.short_count(frame.ttft.finished)}"
    whose = f"{n} finished" if width >= 60 else n
    columns = width - LEFT - max(len(whose), width - LEFT - chart_cells(width))
    bar = chart.bar(parts, columns, look.glyphs)
    return line(look, width, *flush("TTFT", units.seconds(total_s)), *bar, (whose, "dim"))


def _share(value: float | None, total: float) -> str:
    return units.percent(value / total if value is not None and total > 0 else None)


def _unfolded(parts: _Parts, width: int, look: Look) -> list[Line]:
    """A part a line, each beginning where the one above it ends, as they follow each other in a request."""
    total = sum(value for value, _ in parts if value is not None)
    columns = chart_cells(width)
    cells = chart.shares([value or 0.0 for value, _ in parts], columns)
    lines, before = [], 0
    for (value, role), n in zip(parts, cells, strict=True):
        bar: list[Piece] = [(" " * before, "dim"), (look.glyphs.parts[role] * n, role)]
        rest = columns - before - n
        head = flush(role, units.seconds(value), label_role=role)
        lines.append(line(look, width, *head, *bar, (" " * rest, "dim"), right(width, f"{_share(value, total):>7}")))
        before += n
    return lines


def _sum(frame: Frame, width: int, look: Look) -> Line:
    of = frame.ttft
    requests = "request" if of.finished == 1 else "requests"
    said: list[Piece] = [
        ("n ", "dim"),
        (units.count(of.finished), "warn" if of.finished < _FEW else "text"),
        (f" {requests} finished", "dim"),
    ]
    if chart_cells(width) < 24:
        said = said[:2]
    return line(look, width, *flush("= mean", units.seconds(_parts(frame)[1])), *said)


def _legend(parts: _Parts, width: int, look: Look) -> Line:
    signs = look.glyphs.parts
    total = sum(value for value, _ in parts if value is not None)
    shown = []
    for rank, (value, role) in enumerate(parts):
        share = ((f" {_share(value, total)}", "dim"),) if width >= 70 else ()
        shown.append(
            Phrase(rank, ((signs[role] + " ", role), (f"{role} ", "dim"), (units.seconds(value), "text"), *share))
        )
    return phrases(look, width, shown)


def _none(frame: Frame, width: int, look: Look) -> Line:
    ever = frame.requests.finished.since_start
    if not ever:
        return line(look, width, ("no request finished yet", "dim"))
    if frame.load is not None and frame.requests.finished.in_window == 1:
        return line(look, width, ("none finished yet but vtop's trial request", "dim"))
    return line(look, width, (f"no request finished in the last {units.span(frame.window_s)}", "dim"))


def _first_tokens(frame: Frame, width: int, look: Look) -> Line:
    of = frame.ttft
    shown = []
    if of.stuck:
        shown.append(Phrase(0, (("requests wait, none got a first token", "bad"),)))
    if of.queue_now_s is not None and frame.status.fresh:
        shown.append(
            Phrase(
                1,
                (
                    ("queue now ", "dim"),
                    (f"≈ {units.seconds(of.queue_now_s)}", "number"),
                    (" (estimate)", "dim"),
                ),
            )
        )
    if of.first_tokens:
        mean = (units.seconds(of.first_token_s), "text")
        shown.append(Phrase(2, (("first tokens ", "dim"), mean, (f" n {units.count(of.first_tokens)}", "dim"))))
        if of.decode_first_token_s is not None:
            shown.append(Phrase(1, (("then decode side ", "dim"), (units.seconds(of.decode_first_token_s), "text"))))
    elif not of.stuck:
        shown.append(Phrase(2, (("no first token in the window", "dim"),)))
    return phrases(look, width, shown)


def _over_time(frame: Frame, width: int, rows: int, look: Look) -> list[Line]:
    charts, cells = frame.charts, chart_cells(width)
    parts = [
        (chart.in_cells(points, cells), role)
        for points, role in ((charts.queue_s, "queue"), (charts.prefill_s, "prefill"), (charts.frontend_s, "frontend"))
    ]
    maximum = chart.nice_maximum(chart.summed(*(points for points, _ in parts)), 0.01)
    grown = chart.stack(parts, maximum, rows, look.glyphs, look.solid)
    head: list[Piece] = [("over time", "dim"), (" " * (LEFT - 9), "dim")]
    return chart_rows(look, width, head, grown, [top(units.seconds(maximum), width)])
