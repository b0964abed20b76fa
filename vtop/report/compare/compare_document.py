"""What stands in a comparison, in which order: what differs first, then who was compared, the figure, the phases."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.report.compare import words
from vtop.report.compare.compared_numbers import FIRST
from vtop.report.compare.difference_figure import figure, of_number
from vtop.report.compare.parts import Comparison, Difference, NumberPart, PhasePart, SidePart
from vtop.report.render.document import Block, Document, Drawing, Facts, FindingBlock, Findings, Section, Table

NOT_BY_LOAD: Final = {
    "likeness": "the load of a side is not on record; as many in flight, of the same lengths",
    "order": "the load of a side is not on record, or another",
}
_SPOKEN: Final = ("output_per_s", "ttft.mean_s", "itl.mean_s")


def document(comparison: Comparison, *, drawn: bool = True) -> Document:
    """`drawn`: with its figure; in a terminal the table of the first numbers says the same and better."""
    first = comparison.sides[0]
    sections = [
        Section("differs", "What differs", 2, (Findings(_findings(comparison)), _overview(comparison))),
        Section("compared", "What was compared", 2, tuple(_compared(comparison))),
    ]
    if drawn and (made := figure(comparison)) is not None:
        sections.append(Section("figure", "Figure", 2, (Drawing(made),)))
    sections.append(Section("phases", "Phase by phase", 2, ()))
    for at, phase in enumerate(comparison.phases, 1):
        tables = [_phase(phase, first, side) for side in comparison.sides[1:] if _of(phase, side)]
        sections.append(Section(f"phase{at}", phase.label, 3, tuple(tables)))
    title = " against ".join(_named(side) for side in comparison.sides)
    return Document(f"vtop compare: {title}", tuple(sections))


def _named(side: SidePart) -> str:
    files = [file for run in side.runs for file in run]
    return f"{side.name} {files[0]}" if len(files) == 1 else f"{side.name} ({len(files)} files)"


# --- what differs ----------------------------------------------------------------------------------------------------


def _findings(comparison: Comparison) -> tuple[FindingBlock, ...]:
    return (_counted(comparison), *_ranges(comparison))


def _counted(comparison: Comparison) -> FindingBlock:
    all_ = [one for phase in comparison.phases for number in phase.numbers for one in number.differences]
    judged = [one for one in all_ if one.judged]
    beyond = sum(one.beyond for one in judged)
    open_ = len(all_) - len(judged)
    said = f"{beyond} of {len(judged)} differences lie beyond the noise" if beyond else "No difference beyond the noise"
    said += "" if beyond else f" among {len(judged)}"
    rest = f"; {open_} more have no interval." if open_ else "."
    alarms = 1 / (1 - comparison.confidence)
    evidence = [
        f"all intervals hold together at {words.confidence(comparison)} ({words.each(comparison)}): of "
        f"{alarms:.0f} comparisons of like runs about one would call any difference at all"
    ]
    if any(one.startswith("within a run") for phase in comparison.phases for one in phase.noise):
        evidence.append(
            "the noise is that within one run: what another start, GPU or day changes is not in it, repeats show that "
            "(vtop compare A1,A2 B1,B2)"
        )
    return FindingBlock(said + rest, tuple(evidence))


def _ranges(comparison: Comparison) -> list[FindingBlock]:
    """From how much less to how much more, over the phases: what a claim of reproducibility says."""
    found = []
    for side in comparison.sides[1:]:
        for name in _SPOKEN:
            known = [one for one in of_number(comparison, name, side.name) if one[2].ratio is not None]
            if known:
                found.append(_range(comparison.sides[0], side, known))
    return found


def _range(first: SidePart, side: SidePart, known: list[tuple[PhasePart, NumberPart, Difference]]) -> FindingBlock:
    name, ratios = words.label(known[0][1]), [one.ratio or 0.0 for _, _, one in known]
    low, high = words.percent(min(ratios)), words.percent(max(ratios))
    span = f"{low} % to {high} % over {len(known)} phases" if len(known) > 1 else f"{low} %"
    beyond = [phase.label for phase, _, one in known if one.beyond]
    rest = sum(not one.judged for _, _, one in known)
    said = f"beyond the noise in {', '.join(beyond)}" if beyond else "beyond the noise nowhere"
    evidence = [said] + ([f"noise not known in {rest}"] if rest else [])
    return FindingBlock(f"{name[:1].upper()}{name[1:]}, {side.name} against {first.name}: {span}.", tuple(evidence))


def _overview(comparison: Comparison) -> Table:
    labels, rows = {}, []
    for side in comparison.sides[1:]:
        for phase in comparison.phases:
            known = {number.name: number for number in phase.numbers}
            cells = []
            for name in FIRST:
                number = known.get(name)
                one = _of_side(number, side) if number is not None else None
                if number is None or one is None:
                    cells.append(units.UNKNOWN)
                else:
                    labels[name] = words.label(number)
                    cells.append(words.short(number, one))
            if _of(phase, side):
                rows.append((phase.label, side.name, *cells))
    names = [name for name in FIRST if name in labels]
    keep = [0, *([1] if len(comparison.sides) > 2 else []), *(2 + FIRST.index(name) for name in names)]
    head = ("phase", "side", *(labels.get(name, "") for name in FIRST))
    return Table(
        "The first numbers",
        tuple(head[at] for at in keep),
        tuple(tuple(row[at] for at in keep) for row in rows),
        (f"Each by how much a side differs from {comparison.sides[0].name}, ± half its interval.",),
        words=(0, 1) if len(comparison.sides) > 2 else (0,),
    )


# --- what was compared -----------------------------------------------------------------------------------------------


def _compared(comparison: Comparison) -> list[Block]:
    names = tuple(side.name for side in comparison.sides)
    facts = [(side.name, words.side(side)) for side in comparison.sides]
    for by, why in NOT_BY_LOAD.items():
        labels = [phase.label for phase in comparison.phases if by in phase.paired[1:]]
        if labels:
            facts.append((f"paired by {by}", f"{', '.join(labels)}: {why}"))
    if comparison.left_out:
        facts.append(("left out", ", ".join(f"{phase} of {side}" for side, phase in comparison.left_out)))
    blocks: list[Block] = [Facts(tuple(facts))]
    if comparison.unlike:
        rows = tuple((one.phase, one.what, one.first, one.other, one.file) for one in comparison.unlike)
        head = ("phase", "what", names[0], "there", "where")
        note = "Compared all the same, as was asked: these differences may say nothing about the servers."
        blocks.append(Table("Unlike", head, rows, (note,), words=(0, 1, 2, 3, 4)))
    if comparison.settings:
        settings = tuple((one.name, *one.values) for one in comparison.settings)
        columns = tuple(range(len(names) + 1))
        blocks.append(Table("Settings that differ", ("", *names), settings, words=columns))
    return blocks


# --- a phase ---------------------------------------------------------------------------------------------------------


def _phase(phase: PhasePart, first: SidePart, side: SidePart) -> Table:
    a, b = first.name, side.name
    at = _place(side)
    rows: list[tuple[str, ...]] = []
    for number in phase.numbers:
        one = _of_side(number, side)
        if one is None:
            continue
        rows.append(
            (
                words.label(number),
                words.value(number.unit, number.values[0]),
                words.value(number.unit, number.values[at]),
                words.change(number, one),
                words.relative(number, one),
                one.verdict,
                words.needed(one),
                units.count(number.counts[0]),
                units.count(number.counts[at]),
            )
        )
    head: tuple[str, ...] = ("", a, b, f"{b} − {a}", "± noise", "", "requests to tell", f"n {a}", f"n {b}")
    if not any(row[6] for row in rows):
        head, rows = (*head[:6], *head[7:]), [(*row[:6], *row[7:]) for row in rows]
    title = phase.label if len(phase.phases) == 2 else f"{phase.label}: {b} against {a}"
    return Table(title, head, tuple(rows), (_note(phase, side),), words=(0, 5))


def _note(phase: PhasePart, side: SidePart) -> str:
    at = _place(side)
    whose = {number.whose for number in phase.numbers if number.whose is not None}
    said = f"Latencies: {' and '.join(sorted(whose))}. " if whose else ""
    paired = f"Paired by {phase.paired[at]} with {phase.phases[at]}. " if phase.paired[at] in NOT_BY_LOAD else ""
    return f"{said}{paired}Noise {phase.noise[at - 1]}."


def _of(phase: PhasePart, side: SidePart) -> bool:
    return phase.phases[_place(side)] is not None


def _of_side(number: NumberPart, side: SidePart) -> Difference | None:
    return next((one for one in number.differences if one.side == side.name), None)


def _place(side: SidePart) -> int:
    return ord(side.name) - ord("A")
