"""What stands in a report, in which order: the findings with the figures that show them first, then the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtop.report import prices as priced_limits
from vtop.report.expectations import Outcome
from vtop.report.figures.figure import Figure
from vtop.report.figures.figures import across, figures
from vtop.report.findings.facts import facts
from vtop.report.findings.findings import findings
from vtop.report.findings.next_steps import steps
from vtop.report.findings.validity import checks
from vtop.report.model import Report
from vtop.report.plan import capacity
from vtop.report.prices import Priced
from vtop.report.render.document import (
    Advice,
    Block,
    Document,
    Drawing,
    Facts,
    FindingBlock,
    Findings,
    Section,
    Table,
    Text,
)
from vtop.report.tables import drafts, fleet, kv, lists, loads, phases, work
from vtop.report.tables.recordings import before_and_after

FIRST = ("session", "ttft")  # figures that stand beside the findings
NOTHING = "Nothing is found: the recording holds no evidence for any rule."
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
        beside = (before_and_after(reports), *(Drawing(figure) for figure in across(reports)))
        there = tuple(block for block in beside if block is not None)
        if there:
            sections.append(Section("across", "Across the recordings", 2, there))
    for number, report in enumerate(reports, start=1):
        for place, search in enumerate(report.searches):
            sections += capacity.sections(search, f"r{number}-s{place + 1}-", 3)
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
    """The finding and the two figures that show it, what the run was, the main numbers; then figures, then the rest."""
    drawn, missing = figures(report)
    first = [one for one in drawn if one.key in FIRST]
    found = findings(report)
    head: list[Block | None] = [
        Findings(tuple(FindingBlock(one.sentence, one.evidence) for one in found)) if found else Text(NOTHING),
        *_drawings(first, number),
        Facts(facts(report)),
        _validity(report),
    ]
    rest = [one for one in drawn if one.key not in FIRST]
    made: list[tuple[str, str, list[Block | None]]] = [
        ("", report.file, head),
        (
            "numbers",
            "The numbers",
            [phases.phases(report), phases.parts(report), loads.levels(report), *loads.service_levels(report)],
        ),
        ("prices", "The price of each limit", [*priced_limits.blocks(priced)]),
        ("figures", "Figures", [*_drawings(rest, number), _not_drawn(missing) if report.phases else None]),
        ("next", "What to try next", _steps(report, priced)),
        (
            "details",
            "All tables",
            [
                fleet.servers(report),
                fleet.groups(report),
                fleet.unlike_peers(report),
                phases.life(report),
                phases.answers(report),
                phases.gaps(report),
                loads.senders(report),
                kv.crowding(report),
                kv.account(report),
                work.work(report),
                work.token_flops(report),
                drafts.drafts(report),
                drafts.prompt_sources(report),
                kv.preemptions(report),
                lists.counters(report),
                phases.windows(report) if report.phases else None,
            ],
        ),
        ("events", "What happened", [lists.incidents(report), lists.events(report)]),
    ]
    sections = []
    for key, title, blocks in made:
        there = tuple(block for block in blocks if block is not None)
        if there:
            name, level = (f"r{number}-{key}", 3) if key else (f"r{number}", 2)
            sections.append(Section(name, title, level, there))
    return sections


def _drawings(drawn: Sequence[Figure], number: int) -> list[Drawing]:
    return [Drawing(replace(one, key=f"r{number}-{one.key}")) for one in drawn]


def _not_drawn(missing: Sequence[str]) -> Text | None:
    return Text("Not drawn. " + " ".join(missing)) if missing else None


def _validity(report: Report) -> Table:
    rows = tuple((one.name, STATES[one.state], one.sentence) for one in checks(report))
    return Table("Validity of the run", ("check", "", "what was seen"), rows, words=(0, 1, 2))


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
