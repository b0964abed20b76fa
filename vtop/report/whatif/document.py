"""An answer of what-if as a document: first how far off the model is, then what it says about other flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vtop import units
from vtop.engine.core.flags import Flags
from vtop.engine.fit.calibration import AS_FITTED, HostFactors
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import NUMBERS
from vtop.engine.runs.replay import ReplayLoad
from vtop.engine.runs.runs import RECORDED, USUAL, Run
from vtop.engine.whatif.flag_search import FlagSearch, Tried
from vtop.engine.whatif.simulation import SimulatedLoad, changes
from vtop.engine.whatif.whatif import Row, WhatIf
from vtop.report.compare import words
from vtop.report.compare.parts import Difference, NumberPart
from vtop.report.prices import Priced, blocks
from vtop.report.render.document import Block, Document, Facts, FindingBlock, Findings, Section, Table, Text
from vtop.session.frame.servers import typed

Answer = WhatIf | FlagSearch

_TYPED: Final = {"policy": "scheduling-policy"}
SPOKEN: Final = ("output_per_s", "good_per_s", "ttft_s", "e2e_s", "preemptions")
COLUMNS: Final = (
    "output_per_s",
    "good_per_s",
    "ttft_s",
    "ttft_p99_s",
    "tpot_s",
    "e2e_s",
    "running",
    "kv_ratio",
    "preemptions",
)
INTERVALS: Final = (
    "In 90 %: where the number may lie, by simulations of plausible servers (host, GPU, drift, chance) and the model's "
    "own error. ± is of the difference, both sides simulated on the same servers; a difference within it is none."
)
PAIRED: Final = (
    "Means over plausible servers (host, GPU, drift, chance), the same for every row; rows that these do not tell from "
    "the best are as good."
)


def simulated_s(answer: Answer) -> float:
    """Seconds of virtual time behind it."""
    if isinstance(answer, WhatIf):
        sides: list[SimulatedLoad] = [answer.alone, answer.before, answer.after, *(answer.drawn or ())]
    else:
        sides = [answer.recorded, *(one.simulated for one in answer.tried if one.simulated is not None)]
    return sum(side.span_s for side in {id(side): side for side in sides}.values())


def document(file: str, profile: Profile, answers: Sequence[Answer], taken: Sequence[str]) -> Document:
    """`taken`: flags that are not on record and were taken for granted."""
    asked = _title(answers[0])
    sections = [Section("what", "What was simulated", 2, (Facts(_facts(profile, answers, taken)),))]
    for at, answer in enumerate(answers, 1):
        said = " ".join(filter(None, (_load(answer.run.load), _host_factors(answer.factors))))
        sections.append(Section(f"run{at}", answer.run.name, 2, (Text(said),)))
        made = _answer(at, answer) if isinstance(answer, WhatIf) else _search(at, answer)
        sections += [section for section in made if section.blocks]
    return Document(f"vtop whatif {file}{f': {asked}' if asked else ''}", tuple(sections))


def prices_document(file: str, profile: Profile, priced: Priced, taken: Sequence[str]) -> Document:
    """The price of each limit. `taken`: flags that are not on record and were taken for granted."""
    pairs = [("timing", f"{profile.name}: {profile.origin}")]
    if taken:
        pairs.append(("not on record", f"taken: {', '.join(taken)}"))
    what = Section("what", "What was simulated", 2, (Facts(tuple(pairs)),))
    return Document(
        f"vtop whatif {file}: the price of each limit", (what, Section("prices", "Prices", 2, blocks(priced)))
    )


def _title(answer: Answer) -> str:
    if isinstance(answer, WhatIf):
        return changes(answer.run.flags, answer.flags)
    return f"--{answer.name} {answer.tried[0].value:,} to {answer.tried[-1].value:,}"


def _facts(profile: Profile, answers: Sequence[Answer], taken: Sequence[str]) -> tuple[tuple[str, str], ...]:
    said = list(dict.fromkeys(_flags(answer.run.flags) for answer in answers))
    pairs = [("timing", f"{profile.name}: {profile.origin}"), ("recorded with", "; ".join(said))]
    for whence in (RECORDED, USUAL):
        known = dict.fromkeys(words for answer in answers if (words := _from(answer.run, whence)))
        if known:
            pairs.append((whence, "; ".join(known)))
    if taken:
        pairs.append(("not on record", f"taken: {', '.join(taken)}"))
    return tuple(pairs)


def _from(run: Run, whence: str) -> str:
    """The flags of a run that come from there, as they are typed."""
    names = [name for name, where in run.whence.items() if where == whence]
    return " ".join(typed(_TYPED.get(name, name).replace("_", "-"), getattr(run.flags, name)) for name in names)


def _flags(flags: Flags) -> str:
    return (
        f"--max-num-seqs {flags.max_num_seqs} --kv-tokens {flags.kv_tokens} "
        f"--max-num-batched-tokens {flags.max_num_batched_tokens}"
    )


def _load(load: ReplayLoad) -> str:
    prompts, outputs = [ask.prompt_tokens for ask in load.asks], [ask.output_tokens for ask in load.asks]
    said = f"{len(load.asks):,} requests of {_span(prompts)} + {_span(outputs)} tokens"
    if load.concurrency is not None:
        return f"{said}, {load.concurrency} in flight."
    over_s = max(ask.due_s or 0.0 for ask in load.asks)
    return f"{said} within {units.seconds(over_s)}, as they came."


def _host_factors(factors: HostFactors) -> str:
    if factors == AS_FITTED:
        return ""
    return (
        f"Its host took {factors.launch:.2f} × as long to launch a step without a graph as the profile's, its GPU "
        f"{factors.gpu:.3f} × as long for its work: found in this recording, and kept for other flags."
    )


def _span(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return f"{least:,}" if least == most else f"{least:,}–{most:,}"


# --- one answer -------------------------------------------------------------------------------------------------------


def _answer(at: int, answer: WhatIf) -> list[Section]:
    rows = answer.rows
    has_factors = answer.factors != AS_FITTED
    error = Table(
        "How far off the model is",
        (
            "",
            "recorded",
            *(("profile alone", "error", "with host factors") if has_factors else ("simulated",)),
            "error",
        ),
        tuple(
            (
                row.number.label,
                _value(row, row.recorded),
                *((_value(row, row.alone), _error(row, row.alone_error, row.alone_ratio)) if has_factors else ()),
                _value(row, row.before),
                _error(row, row.error, row.error_ratio),
            )
            for row in rows
        ),
    )
    sections = [Section(f"error{at}", error.title, 3, (error,))]
    asked = changes(answer.run.flags, answer.flags)
    blocks: list[Block] = []
    if asked:
        blocks.append(Findings(tuple(_finding(row) for row in rows if row.number.name in SPOKEN and _telling(row))))
        blocks.append(
            Table(
                asked,
                ("", "as it was", "with the flags", "in 90 %", "difference", "± in %", ""),
                tuple(_difference(row) for row in rows if row.before is not None),
                (INTERVALS,),
                words=(0, 6),
            )
        )
    sections.append(Section(f"flags{at}", f"With {asked}", 3, tuple(blocks)))
    sections.append(_doubts(at, answer.remarks))
    return sections


def _telling(row: Row) -> bool:
    return row.before is not None and bool(row.before or row.after)


def _finding(row: Row) -> FindingBlock:
    part, of = _parts(row)
    before, after = _value(row, row.before), _value(row, row.after)
    return FindingBlock(f"{row.number.label}: {before} to {after}, {row.verdict}", (words.relative(part, of),))


def _difference(row: Row) -> tuple[str, ...]:
    part, of = _parts(row)
    before, after = _value(row, row.before), _value(row, row.after)
    return (
        row.number.label,
        before,
        after,
        _between(row),
        words.change(part, of),
        words.relative(part, of),
        row.verdict,
    )


def _between(row: Row) -> str:
    if row.interval is None:
        return units.UNKNOWN
    low, high = _value(row, row.interval.low), _value(row, row.interval.high)
    return low if low == high else f"{low} – {high}"


def _parts(row: Row) -> tuple[NumberPart, Difference]:
    """The row as a comparison has it, whose words it shares."""
    low = high = None
    if row.difference is not None and row.doubt is not None:
        low, high = row.difference - row.doubt, row.difference + row.doubt
    by = abs(row.before) if row.before and row.number.unit != "ratio" else None
    difference = Difference(
        side="B",
        absolute=row.difference,
        low=low,
        high=high,
        ratio=_by(row.difference, by),
        low_ratio=_by(low, by),
        high_ratio=_by(high, by),
        verdict=row.verdict,
    )
    part = NumberPart(
        name=row.number.name,
        label=row.number.label,
        unit=row.number.unit,
        better=row.number.better,
        whose=None,
        per_gpu=False,
        values=(row.before, row.after),
        counts=(None, None),
        differences=(difference,),
    )
    return part, difference


def _by(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by is not None else None


def _value(row: Row, value: float | None) -> str:
    return words.value(row.number.unit, value)


def _error(row: Row, error: float | None, ratio: float | None) -> str:
    if error is None:
        return units.UNKNOWN
    if row.number.unit == "ratio":
        return f"{words.percent(error)} points"
    return f"{words.percent(ratio)} %" if ratio is not None else _value(row, error)


def _doubts(at: int, remarks: Sequence[str]) -> Section:
    return Section(f"doubts{at}", "What it does not know", 3, tuple(Text(f"– {remark}") for remark in remarks))


# --- a search ---------------------------------------------------------------------------------------------------------


def _search(at: int, answer: FlagSearch) -> list[Section]:
    number = answer.number
    best = [one for one in answer.tried if one.verdict]
    error = f", ± {abs(answer.error) * 100:.1f} % on this recording" if answer.error is not None else ""
    criterion = f"best: {'most' if number.better == 'higher' else 'least'} {number.label}{error}"
    columns = [name for name in COLUMNS if any(_of(one, name) is not None for one in answer.tried)]
    if number.name not in columns:
        columns.append(number.name)
    labels = {row.name: row.label for row in NUMBERS}
    table = Table(
        f"--{answer.name}",
        (f"--{answer.name}", *(labels[name] for name in columns), ""),
        (
            ("as recorded", *(_cell(name, getattr(answer.recorded.measured, name)) for name in columns), "simulated"),
            *(
                (f"{one.value:,}", *(_cell(name, _of(one, name)) for name in columns), one.why or one.verdict)
                for one in answer.tried
            ),
        ),
        (criterion, PAIRED),
        words=(len(columns) + 1,),
    )
    said = Findings((FindingBlock(_best(answer, best), (criterion,)),))
    return [Section(f"search{at}", f"--{answer.name}", 3, (said, table)), _doubts(at, answer.remarks)]


def _best(answer: FlagSearch, best: Sequence[Tried]) -> str:
    first = next(one for one in best if one.verdict == "best")
    others = [f"{one.value:,}" for one in best if one is not first]
    found = _cell(answer.number.name, first.criterion)
    said = f"--{answer.name} {first.value:,}: {found} {answer.number.label}"
    return f"{said}; {', '.join(others)} {'is' if len(others) == 1 else 'are'} as good" if others else said


def _of(one: Tried, name: str) -> float | None:
    found: float | None = getattr(one.simulated.measured, name) if one.simulated is not None else None
    return found


def _cell(name: str, value: float | None) -> str:
    unit = next(row.unit for row in NUMBERS if row.name == name)
    return words.value(unit, value)
