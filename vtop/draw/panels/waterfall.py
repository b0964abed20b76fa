"""The panel slowest requests: a line a request on one time axis, the oldest unanswered on top, then the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import LEFT, chart_cells, fixed, left, parted, right, seen, stacked
from vtop.draw.panels.sizes import Rows
from vtop.draw.text import Line, Phrase, Piece, line, padded, phrases
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame
from vtop.session.frame.latencies import Latency
from vtop.session.frame.waterfall import RequestTimes

_PARTS: Final = ("queue", "prefill", "decode")  # of what is known of others' requests


def waterfall(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """vtop's own requests, each from when it was due; of others' requests what the histograms tell: the mean one."""
    of = frame.waterfall
    if not of.rows:
        none = [line(look, width, ("no request", "dim"))] if frame.load is not None else None
        return stacked(look, width, height, [fixed(0, none or _of_others(frame, width, look))])
    room = max(1, height - 2) if height > 2 else height
    shown = _shown(of.rows, room)
    begin_s = min(one.sent_s if one.due_s is None else min(one.due_s, one.sent_s) for one in shown)
    lines = [_row(one, width, look, begin_s, frame.now_s) for one in shown]
    if height > 2:
        lines = [_legend(shown, width, look), *lines, _axis(width, look, frame.now_s - begin_s)]
    return stacked(look, width, height, [fixed(0, lines)])


def rows_wide(frame: Frame) -> Rows | None:
    """With heading, legend and axis; only with a load of vtop's own."""
    shown = len(frame.waterfall.rows)
    return Rows(min(shown, 4) + 3, shown + 3) if shown else None


def counted(frame: Frame) -> list[str]:
    """Of how many it shows the oldest and the slowest."""
    of = frame.waterfall
    if not of.rows:
        return []
    said = [f"{units.count(of.open)} open, {units.count(of.unanswered)} unanswered"] if of.open else []
    return [*said, f"{units.count(of.ended)} ended"]


def _shown(rows: Sequence[RequestTimes], room: int) -> list[RequestTimes]:
    """As many as there is room for: half of them open and half ended, where there are as many."""
    begun, over = [one for one in rows if one.end_s is None], [one for one in rows if one.end_s is not None]
    first = max(room - len(over), (room + 1) // 2)
    return [*begun[:first], *over][:room]


def _row(of: RequestTimes, width: int, look: Look, begin_s: float, now_s: float) -> Line:
    """Its number and how long it has taken; its parts in their places; at the right its TTFT."""
    cells = chart_cells(width)
    per_s = cells / (now_s - begin_s) if now_s > begin_s else 0.0

    def cell(instant_s: float) -> int:
        return max(0, min(cells, round((instant_s - begin_s) * per_s)))

    due_s = of.sent_s if of.due_s is None else min(of.due_s, of.sent_s)
    until_s = of.sent_s + of.took_s
    parts = [(due_s, of.sent_s, "network")]
    first_s = until_s if of.first_s is None else of.first_s
    if of.queue_s is not None and of.prefill_s is not None and first_s - of.sent_s >= of.queue_s + of.prefill_s:
        # the server says how long, not when: what lies before and after it is taken as before
        scheduled_s = first_s - of.prefill_s
        parts += [(of.sent_s, scheduled_s, "queue"), (scheduled_s, first_s, "prefill")]
    else:
        parts.append((of.sent_s, first_s, "queue"))
    if of.first_s is not None:
        parts.append((of.first_s, until_s, "decode"))
    runs: list[Piece] = [(" " * cell(due_s), "dim")]
    for start_s, stop_s, role in parts:
        runs.append((look.glyphs.parts[role] * (cell(stop_s) - cell(start_s)), role))
    used = sum(len(text) for text, _ in runs)
    if used == cell(due_s):  # shorter than a cell
        runs.append((look.glyphs.parts["decode"], "decode") if used < cells else ("", "dim"))
        used += used < cells
    ended, role = units.UNKNOWN if of.first_s is None else units.seconds(of.first_s - of.sent_s), "dim"
    if of.error is not None:
        failed = f"{look.glyphs.signs['outage']} {of.error}"
        if used + len(failed) > cells:  # the error has the last cells of the row
            ended, role, failed = of.error, "bad", failed[: min(1, cells - used)]
        runs.append((failed, "bad"))
        used += len(failed)
    runs.append((" " * (cells - used), "dim"))
    open_role = "warn" if of.end_s is None and of.first_s is None else "number"
    number, unit = parted(units.seconds(of.took_s))
    return line(look, width, *left(f"#{of.id}", number, open_role, unit=unit), *runs, right(width, ended, role))


def _legend(rows: Sequence[RequestTimes], width: int, look: Look) -> Line:
    parted_too = any(one.prefill_s is not None for one in rows)
    said = [("network", "due"), ("queue", "queue"), ("prefill", "prefill"), ("decode", "tokens")]
    if not parted_too:
        said[1:3] = [("queue", "to first token")]
    signs, room = look.glyphs.parts, chart_cells(width)
    shown = [Phrase(at, ((signs[role] + " ", role), (word, "dim"))) for at, (role, word) in enumerate(said)]
    head = line(look, LEFT, (f"{'took':>14}", "dim"))
    return (*head, *phrases(look, room, shown, between="  "), *line(look, width - LEFT - room, right(width, "TTFT")))


def _axis(width: int, look: Look, span_s: float) -> Line:
    cells = chart_cells(width)
    begin = f"{units.clock(-span_s)} "
    rule = look.glyphs.rule * max(0, cells - len(begin) - 4)
    return line(look, width, (" " * LEFT, "dim"), (begin, "dim"), (rule, "border"), (" now", "dim"), right(width, ""))


def _of_others(frame: Frame, width: int, look: Look) -> list[Line]:
    """Without a load of vtop's own nothing is known of one request: the mean of those that finished, part by part."""
    look = seen(frame, look)
    known = {one.name: one for one in frame.latencies if one.n and one.mean_s is not None}
    lines = [line(look, width, ("of single requests only vtop's own are known: vtop --load c=64", "dim"))]
    parts = [known[name] for name in _PARTS if name in known]
    if not parts:
        return lines
    whole = known.get("e2e")
    n = units.count(parts[0].n)
    lines.append(line(look, width, (f"the mean of {n} that finished, and how long 99 of 100 took at most", "dim")))
    cells, before = chart_cells(width), 0
    given = chart.shares([one.mean_s or 0.0 for one in parts], cells)
    for one, size in zip(parts, given, strict=True):
        lines.append(_part(one, before, size, width, look))
        before += size
    if whole is not None:
        number, unit = parted(units.seconds(whole.mean_s))
        lines.append(
            line(look, width, *left("e2e", number, unit=unit), (" " * cells, "dim"), right(width, _p99(whole)))
        )
    return lines


def _part(of: Latency, before: int, size: int, width: int, look: Look) -> Line:
    number, unit = parted(units.seconds(of.mean_s))
    cells = chart_cells(width)
    bar: list[Piece] = [(" " * before, "dim"), (look.glyphs.parts[of.name] * size, of.name)]
    return line(
        look,
        width,
        *left(of.name, number, label_role=of.name, unit=unit),
        *bar,
        (padded("", cells - before - size), "dim"),
        right(width, _p99(of)),
    )


def _p99(of: Latency) -> str:
    return units.UNKNOWN if of.p99 is None or of.p99.high is None else f"≤{units.seconds(of.p99.high)}"
