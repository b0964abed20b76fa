"""The servers with the whole body: a row each and its KV use over time, headings of groups, who differs from its peers.

Only the rows that have room are in the frame, so the time to draw does not depend on how many servers there are.
"""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import fixed, stacked
from vtop.draw.panels.verdict_line import STATES, verdict_role
from vtop.draw.text import Column, Line, Phrase, Piece, blank, line, padded, phrases, table
from vtop.draw.theme import Look
from vtop.server_kinds import registry
from vtop.session.frame.fleet import Fleet, FleetGroup, FleetRow, StripCell
from vtop.session.frame.frame import Frame
from vtop.session.frame.vocabulary import VerdictLimit

_METER: Final = 4  # cells of the bar of KV use
STRIP: Final = 20  # cells of the heat strip
_WIDE: Final = 100  # cells from which there is one
_BELOW: Final = 4  # lines below the table: of the row that is looked at, and of those that differ
_TALL: Final = 20  # lines from which they are there
_COLUMNS: Final = (
    Column("", 1, right=False),
    Column("server", 21, right=False),
    Column("limit", 12, right=False),
    Column("run", 4),
    Column("wait", 5),
    Column("KV", _METER + 6, right=False, rank=1),
    Column("TTFT", 7, rank=2),
    Column("tok/s", 7, rank=3),
    Column("age", 5, rank=5),
    Column("peers", 6, right=False, rank=4),
    Column("model", 12, right=False, rank=6),
)
_RED: Final = ("down", "unhealthy", "frozen", "stuck")  # states that need a hand now
_BESIDE: Final = {"slower": "slower", "more requests": "more", "fewer requests": "fewer"}


def table_lines(height: int) -> int:
    """Lines for rows and headings in so many lines of the panel."""
    return max(1, height - 1 - (_BELOW if height >= _TALL else 0))


def strip_cells(width: int) -> int:
    return STRIP if width >= _WIDE else 0


def fleet(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The rows that are looked at; the chosen one is marked."""
    found = frame.fleet
    if found is None:
        return [blank(look, width)] * height
    strip = strip_cells(width) if found.view.strip else 0
    room = width - (strip + 2 if strip else 0)
    titles, *rows = table(look, room, _COLUMNS, [_row(row, found, look) for row in found.rows])
    lines = [_beside(titles, [(padded(_over(found), strip), "dim")], strip, look)]
    headed = None
    for row, drawn in zip(found.rows, rows, strict=True):
        if found.view.group is not None and (row.group, row.side) != headed:
            headed = row.group, row.side
            group = next((one for one in found.groups if (one.name, one.side) == headed), None)
            lines.append(_heading(group, row, width, look))
        lines.append(_beside(drawn, _strip(row.strip, look), strip, look))
    if not found.rows:
        lines.append(line(look, width, (f"no server has {found.view.find!r} in its row", "dim")))
    top = table_lines(height) + 1
    if height >= _TALL:
        lines = [*lines[:top], *[blank(look, width)] * (top - len(lines)), *_below(frame, found, width, look)]
    return stacked(look, width, height, [fixed(0, lines[:height])])


def fleet_status(frame: Frame, found: Fleet, width: int, height: int, look: Look) -> list[Line]:
    """How many are in which state, and below it what all of them do."""
    grave = sum(group.troubled for group in found.totals)
    role = "bad" if any(word in ("down", "unhealthy", "frozen", "stuck") for word, _ in found.states) else "warn"
    head = (
        f"{look.glyphs.signs['note' if grave else 'busy']} {grave} OF {found.servers} IN TROUBLE  ",
        role if grave else "good",
    )
    said = [Phrase(at, ((f"{n} {word}", "text"),)) for at, (word, n) in enumerate(found.states)]
    if found.unlike:
        differ = len({server for server, _ in found.unlike})
        said.insert(0, Phrase(0, ((f"{differ} unlike {'their' if differ > 1 else 'its'} peers", "warn"),)))
    lines = [phrases(look, width, [Phrase(0, (head, *(said[0].pieces if said else ()))), *said[1:]])]
    sides = [_totals(group) for group in found.totals] or [[Phrase(0, (("nothing is read yet", "dim"),))]]
    over = Phrase(0, ((f"in {units.span(frame.window_s)}", "dim"),))
    lines.append(phrases(look, width, [*(one for side in sides for one in side), over]))
    return lines[:height] + [blank(look, width)] * (height - len(lines))


def _totals(group: FleetGroup) -> list[Phrase]:
    head = f"{group.side} " if group.side is not None else ""
    said = [
        Phrase(0, ((f"{head}{group.answering} of {group.servers} answer", "text"),)),
        Phrase(0, (("run ", "dim"), (units.count(group.running), "text"))),
        Phrase(0, (("wait ", "dim"), (units.count(group.waiting), "text"))),
        Phrase(1, (("KV to ", "dim"), (units.whole_percent(group.kv_high_ratio), "text"))),
    ]
    if group.side != "prefill":
        said.append(Phrase(0, (("out ", "dim"), (f"{units.short(group.generation_per_s)} tok/s", "text"))))
    if group.side != "decode":
        said.append(Phrase(2, (("in ", "dim"), (f"{units.short(group.prompt_per_s)} tok/s", "text"))))
        said.append(Phrase(1, (("TTFT ", "dim"), (units.seconds(group.ttft_s), "text"))))
    return said


def _heading(group: FleetGroup | None, row: FleetRow, width: int, look: Look) -> Line:
    name = f"{row.group} · {row.side}" if row.side is not None else row.group
    if group is None:
        return line(look, width, (name, "title"))
    said = [Phrase(0, ((name, "title"),)), *_totals(group)]
    if group.troubled:
        said.append(Phrase(1, ((f"{group.troubled} in trouble", "warn"),)))
    return phrases(look, width, said)


def _row(row: FleetRow, found: Fleet, look: Look) -> list[Piece]:
    kind = registry.of(row.kind)
    word, role = STATES.get(row.status.kind, ("note", "dim"))
    fresh = row.status.fresh and kind.reads
    limit: str | VerdictLimit = row.verdict or ("…" if row.status.kind in ("busy", "idle") else row.status.kind)
    if fresh and row.verdict is not None:
        role = verdict_role(row.verdict)
    if not kind.reads:
        limit, role = "not read", "dim"
    text, number = ("text", "number") if fresh else ("dim", "dim")
    filled, _ = chart.meter(row.kv_used_ratio, _METER, look.glyphs)
    kv = f"{padded(filled, _METER)} {padded(units.whole_percent(row.kv_used_ratio), 5, right=True)}"
    chosen = row.server == found.view.chosen
    model = f"{row.side or ''} {row.model or units.UNKNOWN}".strip() if kind.reads else kind.title
    return [
        (look.glyphs.signs[word], role),
        (("› " if chosen else "") + row.url.removeprefix("http://"), "mark" if chosen else text if fresh else role),
        (limit, role),
        (units.short_count(row.running), number),
        (units.short_count(row.waiting), number),
        (kv, "kv" if fresh else "dim"),
        (units.seconds(row.ttft_s), text),
        (units.short(row.generation_per_s), text),
        (units.span(row.age_s), text if fresh else "warn"),
        (_BESIDE[row.unlike[0].kind] if row.unlike else "", "warn"),
        (model, "dim"),
    ]


def _over(found: Fleet) -> str:
    seconds = found.strip_cell_s * found.view.strip
    return f"KV over {units.span(seconds)}" if seconds else ""


def _strip(cells: tuple[StripCell, ...], look: Look) -> list[Piece]:
    """KV use by height, of a column's highest; where requests waited in the colour of the queue."""
    ratios = tuple(cell.kv_used_ratio for cell in cells)
    pieces: list[Piece] = []
    for cell, level in zip(cells, chart.levels(ratios, 1.0, 8), strict=True):
        sign = " " if level is None else look.glyphs.blocks[level] if level else look.glyphs.zero
        role = "waiting" if cell.waited else "kv"
        if pieces and pieces[-1][1] == role:
            pieces[-1] = (pieces[-1][0] + sign, role)
        else:
            pieces.append((sign, role))
    return pieces


def _beside(drawn: Line, strip: list[Piece], cells: int, look: Look) -> Line:
    return (*drawn, *line(look, cells + 2, ("  ", "text"), *strip)) if cells else drawn


def _below(frame: Frame, found: Fleet, width: int, look: Look) -> list[Line]:
    """What there is to say of the chosen row; and, or else, who differs from its peers."""
    lines = [blank(look, width)]
    row = next((one for one in found.rows if one.server == found.view.chosen), None)
    told = list(found.unlike)
    if row is not None:
        labels = " ".join(f"{name}={value}" for name, value in row.labels.items())
        said = [Phrase(0, ((f"{row.url}  ", "mark"), (row.status.sentence, "text"))), Phrase(1, ((labels, "dim"),))]
        lines.append(phrases(look, width, said if labels else said[:1]))
        told = [one for one in told if one[0] == row.server] or told
    urls = {one.server: one.url.removeprefix("http://") for one in found.rows}
    for server, how in told:
        lines.append(
            line(look, width, (f"{urls.get(server, f'server {server + 1}')} ", "text"), (how.sentence, "warn"))
        )
    if len(lines) > _BELOW:
        lines = [*lines[: _BELOW - 1], line(look, width, (f"and {len(lines) - _BELOW + 1} more", "dim"))]
    return lines
