"""`vtop plan tp` as a document: the speed-up by tokens and GPUs, what each p costs and saves, and what to do."""

from __future__ import annotations

from vtop import units
from vtop.plan.identity import SplitIdentity
from vtop.plan.tensor_parallel import Step
from vtop.plan.tp_plan import CHECKLIST, Candidate, TpPlan
from vtop.plan.trace_check import TraceCheck
from vtop.report.figures.figure import Figure, FigurePanel, RuleLine, Series
from vtop.report.render.document import Advice, Block, Document, Drawing, Facts, Section, Table, Text


def document(answer: TpPlan) -> Document:
    sections: list[Section] = []
    if answer.refused is not None:
        sections.append(Section("refused", "No figures", 2, (Text(f"Refused: {answer.refused}."),)))
    able = [one for one in answer.candidates if one.rows and one.p > 1]
    if able:
        sections.append(Section("speed", "Speed-up over one GPU", 2, tuple(_speed(answer, able))))
        sections.append(Section("work", "What a step computes", 2, (_work(answer),)))
        sections.append(Section("steps", "What each step saves and adds", 2, tuple(map(_steps, able))))
    if answer.candidates:
        sections.append(Section("choice", "Which to take", 2, (_verdicts(answer), Text(answer.choice))))
    if answer.trace is not None:
        sections.append(Section("trace", "The trace", 2, (Facts(_trace(answer.trace)),)))
    if answer.groups or answer.backends:
        sections.append(Section("machine", "The machine", 2, (Facts(_machine(answer)),)))
    if answer.commands:
        why = "All-reduces at the very sizes of these steps, on the GPUs and in the order in which they will serve."
        advice = Advice("Measure tau", why, answer.commands)
        sections.append(Section("measure", "What to measure", 2, (advice,)))
    sections.append(Section("causes", "When it is slower than this says, in this order", 2, (_checklist(),)))
    if answer.notes:
        sections.append(Section("notes", "What to know", 2, tuple(Text(note + ".") for note in answer.notes)))
    return Document(f"vtop plan tp {answer.name}", tuple(sections))


def identity(of: SplitIdentity) -> Document:
    said = "OK" if of.holds else "BROKEN"
    pairs = (("one rank", str(of.dense)), *((f"rank {at} of {of.p}", str(part)) for at, part in enumerate(of.parts)))
    blocks = (Text(f"algebra: {said} {of.reduced}"), Facts((*pairs, ("their sum", str(of.reduced)))))
    return Document("vtop plan tp --identity", (Section("identity", "One all-reduce an MLP is enough", 2, blocks),))


def _speed(answer: TpPlan, able: list[Candidate]) -> list[Block]:
    head = ("T", *(f"TP={one.p}" for one in able))
    rows = []
    for at, first in enumerate(able[0].rows):
        rows.append((str(first.tokens), *(_times(one.rows[at]) for one in able)))
    notes = [f"Time on one GPU: {answer.timing}. Matmuls are taken to split into 1/p: optimistic for narrow ones."]
    if any(step.beyond for one in able for step in one.rows):
        notes.append("* a call is larger than any that was measured.")
    blocks: list[Block] = [Table("Speed-up over one GPU", head, tuple(rows), tuple(notes), words=())]
    for one in able:
        if one.decode_rows:
            rows = [(str(step.tokens), _times(step)) for step in one.decode_rows]
            title = f"TP={one.p} in steps of decodes alone, with their own all-reduce"
            blocks.append(Table(title, ("T", f"TP={one.p}"), tuple(rows), words=()))
    series = tuple(_line(one, at) for at, one in enumerate(able))
    figure = Figure(
        key="speed-up",
        title="Speed-up by tokens of a step",
        caption="Below the line, splitting is slower than one GPU.",
        alt="The speed-up of tensor parallelism rises with the tokens of a step and stays below the number of GPUs.",
        x_title="tokens of a step",
        x_kind="log",
        panels=(FigurePanel("times as fast as one GPU", series, (RuleLine("one GPU", "limit", 1.0),)),),
    )
    return [*blocks, Drawing(figure)]


def _work(answer: TpPlan) -> Table:
    rows = tuple(
        (
            str(one.tokens),
            f"{one.attention_flops / 1e9:.3g}",
            f"{one.mlp_flops / 1e9:.3g}",
            f"{one.projection_flops / 1e9:.4g}",
            units.seconds(one.projection_s),
            units.seconds(one.other_s),
        )
        for one in answer.work
    )
    notes = [
        f"GFLOP. F_attn = 4 T (H² + H H_KV) and F_mlp = 6 T H I of a layer, F_proj = their sum over {answer.layers} "
        "layers. Left out: attention over the context, norms, logits, sampling, scheduling; t_other is --other.",
    ]
    share = answer.work[0].attention_ratio if answer.work else None
    if share is not None:
        notes.append(f"Attention over the context would add {units.percent(share)} to F_proj.")
    return Table("What a step computes", ("T", "F_attn", "F_mlp", "F_proj", "t_proj", "t_other"), rows, tuple(notes))


def _line(one: Candidate, at: int) -> Series:
    points = tuple((float(step.tokens), step.speed_up) for step in one.rows)
    return Series(f"TP={one.p}", ("prefill", "kv", "running", "frontend")[at % 4], points)


def _times(step: Step) -> str:
    return f"{step.speed_up:.2f}x" + ("*" if step.beyond else "")


def _steps(one: Candidate) -> Block:
    head = ("T", "a call", "calls", "sent a rank", "tau", "saved", "added", "step", "pays", "over replicas")
    rows = tuple(
        (
            str(step.tokens),
            units.bytes_(step.payload_bytes),
            str(step.calls),
            units.bytes_(step.sent_bytes),
            units.seconds(step.tau_s),
            units.seconds(step.saved_s),
            units.seconds(step.added_s),
            units.seconds(step.step_s),
            "yes" if step.pays else "no",
            f"{step.replicas_ratio:.2f}x",
        )
        for step in one.rows
    )
    notes = [f"tau: {one.cost_origin}" + "".join(f"; {note}" for note in one.cost_notes) + "."]
    if one.fitted is not None and one.fitted.bus_bytes_s is not None:
        notes.append(
            f"A line through the measured sizes: alpha {units.seconds(one.fitted.alpha_s)}, "
            f"B {units.significant(one.fitted.bus_bytes_s / 1e9)} GB/s, off by {one.fitted.worst_ratio:.0%} at most."
        )
    if one.threshold_known:
        if one.threshold_tokens is None:
            notes.append("No T pays: the bandwidth alone eats what the matmuls save.")
        else:
            notes.append(f"It pays from T > {one.threshold_tokens:.2f} on, as long as time grows with T alone.")
    notes += [f"Note: {broken.why}." for broken in one.breaks if not broken.refused]
    if one.on_record is not None:
        record = one.on_record
        notes.append(
            f"Over the {record.steps:,.0f} steps on record (T {record.least_tokens:,}–{record.most_tokens:,}, mean "
            f"{record.mean_tokens:,.0f}): ≈ {record.speed_up:.2f}x in all, each bucket at its middle."
        )
    pipeline = one.pipeline
    took = f", {units.seconds(pipeline.seconds)} in all" if pipeline.seconds is not None else ""
    notes.append(
        f"{one.p} stages (PP) instead: {pipeline.hops} hop{'' if pipeline.hops == 1 else 's'} of "
        f"{units.bytes_(pipeline.bytes_per_hop)} a step{took}: "
        "a step is no shorter, as many steps are under way at once."
    )
    return Table(f"TP={one.p}", head, rows, tuple(notes), words=(8,))


def _verdicts(answer: TpPlan) -> Table:
    rows = []
    for one in answer.candidates:
        max_num_seqs = one.max_num_seqs
        said = (
            f"{max_num_seqs.split or 0:,} / {max_num_seqs.replicas or 0:,}"
            if max_num_seqs is not None
            else units.UNKNOWN
        )
        rows.append((f"{one.p}", one.verdict or "–", units.bytes_(one.weights_bytes), said, one.why))
    notes = ("requests: that fit at their peak, of one group of p GPUs / of p replicas of one GPU.",)
    return Table(
        "Which to take", ("GPUs", "", "weights a rank", "requests", "why"), tuple(rows), notes, words=(0, 1, 4)
    )


def _trace(check: TraceCheck) -> tuple[tuple[str, str], ...]:
    pairs = [
        ("file", f"{check.file}, {check.steps} steps"),
        ("all-reduces a step", f"{check.calls_per_step:.1f}, where 2 L = {check.expected_per_step}"),
        ("a call takes", f"{units.seconds(check.seconds_per_call)}, the median, waiting for other ranks included"),
        ("kernels", ", ".join(f"{many} × {name}" for name, many in check.kernels) or "none"),
    ]
    if check.payload_bytes is not None:
        ratio = f" = {check.payload_ratio:.2f} × T × H × e_a" if check.payload_ratio is not None else ""
        pairs.append(("a call carries", f"{units.bytes_(check.payload_bytes)}{ratio}"))
    else:
        pairs.append(("a call carries", "not in the trace: only NCCL's kernels say it"))
    if check.fused_calls:
        pairs.append(("fused", f"{check.fused_calls} calls hold a norm too: their time is not tau alone"))
    pairs.append(("the formula", "holds" if check.holds else "; ".join(check.problems)))
    return tuple(pairs)


def _machine(answer: TpPlan) -> tuple[tuple[str, str], ...]:
    pairs = [("all-reduce, in this order", ", ".join(answer.backends))] if answer.backends else []
    for group in answer.groups:
        numa = f", {group.numa_nodes} NUMA nodes" if group.numa_nodes is not None and group.numa_nodes > 1 else ""
        pairs.append(
            (f"GPUs {', '.join(map(str, group.gpus))}", f"weakest link {group.weakest}: {group.meaning}{numa}")
        )
    return tuple(pairs)


def _checklist() -> Table:
    rows = tuple((str(at), what, how) for at, (what, how) in enumerate(CHECKLIST, 1))
    return Table(
        "When it is slower than this says, in this order", ("", "look at", "what tells"), rows, words=(0, 1, 2)
    )
