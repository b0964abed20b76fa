"""`vtop plan work` as a document: attention's products and their split, FLOPs and bytes, intensity by batch."""

from __future__ import annotations

from vtop import units
from vtop.plan.work import Part, RequestWork, WorkPlan
from vtop.report.render.document import Block, Document, Section, Table, Text


def document(answer: WorkPlan) -> Document:
    blocks: list[Block] = [_products(answer), _arithmetic(answer)]
    sections = [
        Section("work", "A request", 2, tuple(blocks)),
        Section("batch", "A step of decodes", 2, (_batches(answer), *_ridge(answer))),
        Section("notes", "What to know", 2, tuple(Text(note + ".") for note in answer.notes)),
    ]
    return Document(f"vtop plan work {answer.name}", tuple(sections))


def _products(answer: WorkPlan) -> Table:
    rows = []
    for one in answer.requests:
        total = one.prefill.products + one.decode.products
        rows.append(
            (
                _lengths(one),
                f"{one.input_tokens + one.output_tokens - 1:,}",
                f"{total:,}",
                f"{one.prefill.products:,}",
                f"{one.decode.products:,}",
                units.percent(one.prefill.products / total),
            )
        )
    head = ("in + out", "positions", "dot products", "prefill", "decode", "prefill's share")
    notes = (
        f"Of one head of one layer; there are {answer.heads} heads and {answer.layers} layers.",
        "Arithmetic, no latency: the same total says nothing of TTFT and TPOT.",
    )
    return Table("Attention: query-key dot products", head, tuple(rows), notes)


def _arithmetic(answer: WorkPlan) -> Table:
    rows = []
    for one in answer.requests:
        for name, part in (("prefill", one.prefill), ("decode, alone in its steps", one.decode)):
            rows.append((_lengths(one), name, *_part(part)))
    head = ("in + out", "", "attention", "the rest", "KV read", "KV written", "weights read", "FLOPs a byte")
    where = f"On one of {answer.tp} ranks. " if answer.tp > 1 else ""
    notes = (f"{where}The rest: projections, MLP, logits.",)
    return Table("FLOPs and bytes", head, tuple(rows), notes, words=(0, 1))


def _part(part: Part) -> tuple[str, ...]:
    return (
        _flops(part.attention_flops),
        _flops(part.linear_flops),
        units.bytes_(part.kv_read_bytes),
        units.bytes_(part.kv_written_bytes),
        units.bytes_(part.weights_read_bytes),
        units.number(part.intensity),
    )


def _batches(answer: WorkPlan) -> Table:
    rows = tuple(
        (
            f"{one.decodes:,}",
            _flops(one.flops),
            units.bytes_(one.moved_bytes),
            units.number(one.intensity),
            units.percent(one.kv_ratio),
        )
        for one in answer.batches
    )
    return Table("A step of decodes", ("decodes", "FLOPs", "bytes", "FLOPs a byte", "of them KV"), rows, words=())


def _ridge(answer: WorkPlan) -> tuple[Block, ...]:
    if answer.ridge is None:
        return ()
    said = f"The GPU's ridge is at {units.number(answer.ridge)} FLOPs a byte: "
    if answer.fill_decodes is None:
        return (Text(said + "no number of decodes of this context reaches it; their KV is read, not computed with."),)
    return (Text(said + f"{answer.fill_decodes:,} decodes of this context reach it; fewer wait for memory."),)


def _lengths(one: RequestWork) -> str:
    return f"{one.input_tokens:,} + {one.output_tokens:,}"


def _flops(value: float) -> str:
    """FLOPs with the unit that suits them."""
    for unit, scale in (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if value >= scale:
            return f"{units.significant(value / scale)} {unit}"
    return f"{units.significant(value)} FLOP"
