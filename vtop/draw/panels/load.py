"""vtop's own load: what it aims at and does, how far it is, what its requests see, and whether the client keeps up."""

from __future__ import annotations

import math

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import Block, fixed, stacked
from vtop.draw.text import Column, Line, Phrase, Piece, either, kept_of, line, phrases, table, width_of
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame
from vtop.session.frame.load import LoadPart, Quantiles, SloAttainment

INFINITE = "∞"  # longer than everything: what a request that failed or was broken off counts as
_TABLE = (
    Column("client", 9, right=False),
    Column("mean", 9),
    Column("p50", 9),
    Column("p90", 9, rank=2),
    Column("p99", 9),
    Column("p99.9", 9, rank=1),
    Column("n", 6),
)


def load(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The phase that runs, or the last one that ran."""
    part = frame.load  # vtop's own: never as old as what the server says
    if part is None:
        return stacked(look, width, height, [fixed(0, [line(look, width, ("no load: vtop --load c=64", "dim"))])])
    return stacked(look, width, height, _blocks(part, width, look))


def _blocks(part: LoadPart, width: int, look: Look) -> list[Block]:
    blocks = [
        fixed(0, [_aim(part, width, look)]),
        fixed(1, [_progress(part, width, look)]),
        fixed(3, [_counts(part, width, look)]),
    ]
    if _failure_said(part):
        blocks.append(fixed(2, [_failure(part, width, look)]))
    blocks.append(fixed(6, [_client(part, width, look)]))
    if _judged(part):
        blocks.append(fixed(5, [_slo(part, width, look)]))
    rows = _rows(part)
    blocks.append(Block(4, lambda lines: table(look, width, _TABLE, rows[: lines - 1]), 2, len(rows) + 1))
    return blocks


def _failure_said(part: LoadPart) -> bool:
    return part.failed_detail is not None and bool(part.failed_by_class)


def _judged(part: LoadPart) -> bool:
    return part.slo is not None and part.slo.judged > 0


def load_lines(frame: Frame) -> int | None:
    """Lines of all there is to say; None without a load."""
    part = frame.load
    return None if part is None else 5 + _failure_said(part) + _judged(part) + len(_rows(part))


def phase(frame: Frame) -> list[str]:
    """Which phase it is, and for how long it has run."""
    part = frame.load
    return [] if part is None else [f"phase {part.phase + 1} · {units.clock(part.elapsed_s)}"]


def _aim(part: LoadPart, width: int, look: Look) -> Line:
    if part.shape == "closed":
        now: tuple[Piece, ...] = (
            (units.count(part.in_flight), "number"),
            (f" of {units.count(part.concurrency)} in flight", "dim"),
        )
    else:
        now = (
            (units.number(part.sent_per_s), "number"),
            (f" of {units.plain(part.rate_per_s)} requests/s", "dim"),
        )
    ended = part.state == "ended"
    spec = Phrase(1, ((part.spec, "text"),))
    if ended:
        return phrases(look, width, either(look, width, *([Phrase(0, end), spec] for end in _ends(part))))
    shown = [Phrase(0, now), spec]
    if part.shape == "open":
        shown.append(Phrase(2, ((f"{units.count(part.in_flight)} in flight", "dim"),)))
    shown.append(Phrase(3, ((f"{units.count(part.answering)} answering", "dim"),)))
    return phrases(look, width, shown)


def _ends(part: LoadPart) -> list[tuple[Piece, ...]]:
    """That it is over, why where that was not the plan, and whether it went well: at length, and shorter."""
    over = f"ended: {part.reason}" if part.reason not in (None, "done") else "ended"
    if not part.failed:
        return [((over, "dim"),)]
    failed = units.count(part.failed)
    words = (f"{failed} of {units.count(_ended(part))} failed", f"{failed} failed")
    return [((f"{over} · ", "dim"), (said, "bad")) for said in words]


def _ended(part: LoadPart) -> int:
    """Requests that are over, however they ended."""
    return part.done + part.failed + part.unfinished


def _draining(part: LoadPart) -> bool:
    """Whether nothing is sent any more, and only what is under way is waited for."""
    sent_all = part.planned is not None and part.sent >= part.planned
    return part.state == "running" and part.in_flight > 0 and (sent_all or part.left_s == 0)


def _progress(part: LoadPart, width: int, look: Look) -> Line:
    """How much has ended: of the requests planned, or of the time; while the last are waited for, of those sent."""
    ended, draining = _ended(part), _draining(part)
    of = part.planned or (part.sent if draining else None)
    said = f" {units.count(ended)}" + (f" of {units.count(of)}" if of else "") + " ended"
    ratio = part.progress_ratio or 0.0
    if draining:
        ratio = ended / of if of else 0.0
        said += " · draining"
    if part.left_s and part.state == "running":
        said += f" · {units.clock(part.left_s)} left"
    if part.progress_ratio is None and part.state == "running":
        said += " · until stopped"
    room = max(0, width - width_of(look.say(said)))
    cells = round(min(1.0, ratio) * room)
    bar = chart.bar(((1.0, "decode"),), cells, look.glyphs) if cells else []
    return line(look, width, *bar, (" " * (room - cells), "dim"), (said, "dim"))


def _counts(part: LoadPart, width: int, look: Look) -> Line:
    shown = [
        Phrase(0, (("done ", "dim"), (units.count(part.done), "number"))),
        Phrase(0, (("failed ", "dim"), (units.count(part.failed), "bad" if part.failed else "number"))),
    ]
    known = part.failed_detail is not None and len(part.failed_by_class) == 1  # it has a line of its own
    shown += [Phrase(1, ((f"{name} {units.count(n)}", "bad"),)) for name, n in part.failed_by_class if not known]
    if part.rejected:
        shown.append(Phrase(1, ((f"rejected {units.count(part.rejected)}", "bad"),)))
    if any(row[at][0] == INFINITE for row in _rows(part) for at in kept_of(_TABLE, width)):
        shown.append(Phrase(1, ((f"{INFINITE} is a {'failed' if part.failed else 'broken-off'} one", "dim"),)))
    if part.unfinished:
        shown.append(Phrase(1, ((f"unfinished {units.count(part.unfinished)}", "dim"),)))
    shown.append(Phrase(2, (("sent ", "dim"), (units.count(part.sent), "text"))))
    shown.append(Phrase(3, (("out ", "dim"), (f"{units.short_count(part.output_tokens)} tok", "text"))))
    if part.output_per_s is not None:
        shown.append(Phrase(2, ((f"{units.number(part.output_per_s)} tok/s", "number"),)))
    if part.wrong_length:
        shown.append(Phrase(1, ((f"{units.count(part.wrong_length)} prompts counted otherwise", "warn"),)))
    if part.ended_early:
        shown.append(Phrase(1, ((f"{units.count(part.ended_early)} answers shorter than asked", "warn"),)))
    if hits := part.prefix_hit_tokens or part.cached_tokens:
        shown.append(Phrase(1, ((f"{units.short_count(hits)} tok from the prefix cache", "warn"),)))
    return phrases(look, width, shown)


def _failure(part: LoadPart, width: int, look: Look) -> Line:
    """The most frequent way to fail, in its own words."""
    n = max(times for _, times in part.failed_by_class)
    names = [name for name, times in part.failed_by_class if times == n]
    said = f"{units.count(n)} × {names[0]}: " if len(names) == 1 else "failed: "  # of equals the words may be any one's
    return line(look, width, (said, "bad"), (part.failed_detail or "", "text"))


def _client(part: LoadPart, width: int, look: Look) -> Line:
    if part.limited is not None:
        return phrases(look, width, [Phrase(0, ((f"! client-limited: {part.limited}", "warn"),))])
    slot = part.slot_wait
    waits = (
        [Phrase(0, (("waits for a slot ", "dim"), (units.seconds(slot.mean_s), "text")))] if slot is not None else []
    )
    shown = [
        *waits,
        Phrase(0, (("late p99 ", "dim"), (units.seconds(part.late_p99_s), "text"))),
        Phrase(1, (("client ", "dim"), (units.whole_percent(part.cpu_ratio), "text"), (" of a core", "dim"))),
        Phrase(2, (("event-loop delay ", "dim"), (units.seconds(part.lag_s), "text"))),
    ]
    if part.hosts:
        shown.append(Phrase(1, ((f"{sum(host.workers for host in part.hosts)} workers on {_on(part)}", "dim"),)))
    return phrases(look, width, shown)


def _on(part: LoadPart) -> str:
    return part.hosts[0].name if len(part.hosts) == 1 else f"{len(part.hosts)} hosts"


def _slo(part: LoadPart, width: int, look: Look) -> Line:
    assert part.slo is not None
    bounds = " ".join(f"{name} ≤ {units.seconds(bound)}" for name, bound in part.slo.bounds)
    shown = [
        Phrase(
            0,
            (
                ("within SLO ", "dim"),
                (units.percent(part.slo.attainment_ratio), "number"),
                (f" of {units.count(part.slo.judged)}", "dim"),
            ),
        ),
        Phrase(1, (("goodput ", "dim"), (f"{units.number(part.slo.good_per_s)} /s", "number"))),
        *([Phrase(2, ((_alone(part.slo), "text"), (" alone", "dim")))] if len(part.slo.by_bound) > 1 else []),
        Phrase(3, ((f"{units.number(part.slo.good_tokens_per_s)} tok/s", "dim"),)),
        Phrase(2, ((bounds, "dim"),)),
    ]
    return phrases(look, width, shown)


def _alone(slo: SloAttainment) -> str:
    return " ".join(f"{one.name} {units.percent(one.ratio)}" for one in slo.by_bound)


def _rows(part: LoadPart) -> list[list[Piece]]:
    named = [("TTFT", part.ttft)]
    if part.ttft_from_due is not None:
        named.append(("from due", part.ttft_from_due))
    named += [("gap" if part.itl_is_chunks else "ITL", part.itl), ("TPOT", part.tpot), ("e2e", part.e2e)]
    return [_row(name, found) for name, found in named]


def _row(name: str, found: Quantiles) -> list[Piece]:
    times: list[Piece] = [(_time(value), "text") for value in (found.p50_s, found.p90_s, found.p99_s, found.p999_s)]
    mean = (units.seconds(found.mean_s), "number")
    return [(name, "text"), mean, *times, (units.short_count(found.n), "dim")]


def _time(value: float | None) -> str:
    return INFINITE if value is not None and math.isinf(value) else units.seconds(value)
