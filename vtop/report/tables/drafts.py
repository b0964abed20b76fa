"""The tables of what gave tokens without computing them: drafts that were accepted, prompts found in a cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vtop import units
from vtop.report.model import Report
from vtop.report.numbers import Numbers
from vtop.report.render.document import Table
from vtop.report.tables.cells import Cell, Columns, by_phase, of_phases
from vtop.session.frame.tokens import Speculation


def drafts(report: Report) -> Table | None:
    """Speculative decoding by phase; None where no server drafts."""
    known = [of.speculation for _, of in of_phases(report) if of.speculation is not None]
    if not known:
        return None
    positions = sorted({at.position for one in known for at in one.by_position})
    columns: Columns = (
        ("drafts", _cell(units.count, lambda one: one.drafts)),
        ("drafted tok", _cell(units.count, lambda one: one.draft_tokens)),
        ("accepted", _cell(units.percent, lambda one: one.accepted_ratio)),
        ("tok a draft", _cell(units.number, lambda one: one.accepted_per_draft)),
        ("tok/step", _cell(units.number, lambda one: one.tokens_per_step)),
        *((f"at {position}", _cell(units.percent, partial(_at, position))) for position in positions),
    )
    notes = (
        "A draft is what one step of one request verifies; a step gives one token more than it accepts.",
        "At 1, 2, …: the share of drafts whose token at that position was accepted.",
    )
    return by_phase("Speculative decoding", report, columns, notes)


def _cell(said: Callable[[float | None], str], ask: Callable[[Speculation], float | None]) -> Cell:
    return lambda of, _: said(None if of.speculation is None else ask(of.speculation))


def _at(position: int, of: Speculation) -> float | None:
    return next((one.ratio for one in of.by_position if one.position == position), None)


def prompt_sources(report: Report) -> Table | None:
    """Where prompt tokens had their KV from, and transfers that failed; None where all of it was computed."""
    numbers = [of for _, of in of_phases(report)]
    sources = list(dict.fromkeys(one.source for of in numbers for one in of.prompt_sources if one.tokens))
    failing = any(of.failed_transfers is not None for of in numbers)
    if len(sources) < 2 and not failing:
        return None
    columns: list[tuple[str, Cell]] = [(source, partial(_share, source)) for source in sources]
    columns.append(("prompt tok", lambda of, _: units.count(sum(one.tokens for one in of.prompt_sources))))
    if failing:
        columns.append(("failed transfers", lambda of, _: units.count(_failed(of))))
    return by_phase(
        "Where prompt tokens came from", report, columns, ("Each prompt once, when it was first scheduled.",)
    )


def _share(source: str, of: Numbers, _: Numbers) -> str:
    return units.percent(next((one.ratio for one in of.prompt_sources if one.source == source), None))


def _failed(of: Numbers) -> float | None:
    return of.failed_transfers.in_window if of.failed_transfers is not None else None
