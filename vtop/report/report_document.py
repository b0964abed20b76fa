"""What stands in a report, in which order: the finding first, then facts and validity, tables, figures, next steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtop import units
from vtop.report import prices as priced_limits
from vtop.report import tables
from vtop.report.expectations import Outcome
from vtop.report.figures.figures import across, figures
from vtop.report.findings.facts import facts
from vtop.report.findings.findings import findings
from vtop.report.findings.next_steps import steps
from vtop.report.findings.validity import checks
from vtop.report.model import Report
from vtop.report.prices import Priced
from vtop.report.render.document import Advice, Block, Document, Drawing, Facts, Finding, Findings, Section, Table, Text

STATES = {"fine": "fine", "doubt": "doubt", "unknown": "not known"}


def document(
    reports: Sequence[Report],
    outcomes: Sequence[Outcome] = (),
    priced: Sequence[Priced] = (),
) -> Document:
    """One recording's report, or several with what sets them side by side. priced: of each recording, where it is asked
    for."""
    many = len(reports) > 1
    sections: list[Section] = []
    if outcomes:
        sections.append(Section("expectations", "Expectations", 2, (expectations(outcomes, many=many),)))
    if many:
        drawn = tuple(Drawing(figure) for figure in across(reports))
        if drawn:
            sections.append(Section("across", "Across the recordings", 2, drawn))
    for number, report in enumerate(reports, start=1):
        sections += _sections(report, number, priced[number - 1] if priced else Priced())
    title = reports[0].file if not many else f"{len(reports)} recordings"
    return Document(f"vtop report: {title}", tuple(sections))


def expectations(outcomes: Sequence[Outcome], *, many: bool) -> Table:
    rows = tuple(
        (
            one.name,
            one.condition,
            one.where if not many else f"{one.file}: {one.where}",
            one.result,
            one.found,
            one.note,
        )
        for one in outcomes
    )
    return Table(
        "Expectations",
        ("expectation", "condition", "of", "result", "found", "note"),
        rows,
        ("Partly: not met, but within its tolerance. Not observable: the number is not known here.",),
        words=(0, 1, 2, 3, 4, 5),
    )


def _sections(report: Report, number: int, priced: Priced) -> list[Section]:
    found = findings(report)
    first: tuple[Block, ...]
    if found:
        first = (Findings(tuple(Finding(one.sentence, one.evidence) for one in found)),)
    else:
        first = (Text("Nothing is found: the recording holds no evidence for any rule."),)
    head = (*first, Facts(facts(report)), _validity(report))
    sections = [Section(f"r{number}", report.file, 2, head)]
    if report.run is None:
        return sections
    made: list[tuple[str, str, list[Block | None]]] = [
        ("numbers", "The numbers", [tables.phases(report), tables.windows(report), tables.work(report)]),
        ("kv", "KV cache and preemptions", [tables.account(report), tables.preemptions(report)]),
        ("counters", "Counters against each other", [tables.counters(report)]),
        ("prices", "The price of each limit", [*priced_limits.blocks(priced)]),
        ("figures", "Figures", _figures(report, number)),
        ("next", "What to try next", _steps(report, priced)),
        ("events", "What happened", [_event_log(report)]),
    ]
    for key, title, blocks in made:
        there = tuple(block for block in blocks if block is not None)
        if there:
            sections.append(Section(f"r{number}-{key}", title, 3, there))
    return sections


def _validity(report: Report) -> Table:
    rows = tuple((one.name, STATES[one.state], one.sentence) for one in checks(report))
    return Table("Validity of the run", ("check", "", "what was seen"), rows, words=(0, 1, 2))


def _figures(report: Report, number: int) -> list[Block | None]:
    drawn, missing = figures(report)
    blocks: list[Block | None] = [Drawing(replace(one, key=f"r{number}-{one.key}")) for one in drawn]
    if missing:
        blocks.append(Text("Not drawn. " + " ".join(missing)))
    return blocks


def _steps(report: Report, priced: Priced) -> list[Block | None]:
    found = [*priced_limits.steps(priced, report.file), *steps(report)]
    if not found:
        return []
    said = "Hypotheses from the verdicts, none of them tried here. Each comes with the commands that would test it."
    blocks: list[Block | None] = [Text(said)]
    for one in found:
        why = f"{one.why[:1].upper()}{one.why[1:]}. Evidence ({', '.join(one.where)}): {' · '.join(one.evidence)}."
        blocks.append(Advice(one.flag, why, one.commands))
    return blocks


def _event_log(report: Report) -> Table | None:
    rows = tuple(
        (units.clock(one.at_s), one.kind, one.text) for one in report.event_log if one.kind not in ("preemption", "end")
    )
    return Table("Events", ("at", "kind", "what"), rows, words=(1, 2)) if rows else None
