"""`vtop plan kv` as a document: a token, a block, the pool, a request, how many fit, what fewer would cost."""

from __future__ import annotations

from vtop import units
from vtop.plan.kv import Fit
from vtop.plan.kv_plan import KvPlan
from vtop.plan.seqs_cost import LimitChange, SeqsCost
from vtop.report.figures.figure import Figure, FigurePanel, Series
from vtop.report.render.document import Block, Document, Drawing, Facts, Section, Table, Text


def document(answer: KvPlan) -> Document:
    sections = [Section("kv", "A token, a block, the pool", 2, (Facts(_pool(answer)),))]
    if answer.memory:
        sections.append(Section("memory", "What is left for the KV cache", 3, (_memory(answer),)))
    if answer.demand is not None:
        sections.append(Section("requests", "Requests", 2, tuple(_requests(answer))))
    if answer.cost is not None:
        sections.append(Section("cost", "What a lower max_num_seqs costs", 2, (_cost(answer.cost),)))
    if answer.by_length:
        sections.append(Section("lengths", "Requests that fit, by length", 2, _by_length(answer)))
    if answer.notes:
        sections.append(Section("notes", "What to know", 2, tuple(Text(note + ".") for note in answer.notes)))
    return Document(f"vtop plan kv {answer.name}", tuple(sections))


def _pool(answer: KvPlan) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    lanes, token, layout, pool = answer.lanes, answer.token, answer.layout, answer.pool
    if token is not None:
        pairs.append(("a token", f"{_exact(token.growth_bytes)} on each rank, {answer.cache_dtype}"))
        if token.all_ranks_bytes != token.growth_bytes:
            pairs.append(("over all heads", _exact(token.all_ranks_bytes)))
        if token.fixed_bytes:
            pairs.append(("and a request, its states and full windows", _exact(token.fixed_bytes)))
        elif token.fixed_bytes is None:
            pairs.append(("and a request", "the states of its state layers: not computed"))
    if layout is not None and layout.block_bytes is not None:
        pairs.append(("a block", f"{lanes.block_size} tokens, {_exact(layout.block_bytes)}"))
        if len(layout.groups) > 1:
            said = ", ".join(
                f"{group.tables} × {group.layers} {group.kind}" + (f" of {group.window:,}" if group.window else "")
                for group in layout.groups
            )
            pairs.append(("block tables of a request", said))
    if lanes.tp * lanes.pp * lanes.dp > 1:
        pairs.append(("GPUs", f"TP {lanes.tp} × PP {lanes.pp} × DP {lanes.dp}"))
    if pool is not None:
        tokens = f"{pool.tokens:,} tokens in " if pool.tokens is not None else ""
        pairs.append(("the pool", f"{tokens}{pool.blocks:,} blocks, {pool.origin}"))
        if pool.bytes is not None:
            pairs.append(("", f"{_exact(pool.bytes)} on each rank"))
        if lanes.dp > 1:
            pairs.append(("", f"of one replica; there are {lanes.dp}"))
        if pool.full_length_requests is not None and answer.max_model_len is not None:
            pairs.append(("at full length", f"{pool.full_length_requests:.2f}x for {answer.max_model_len:,} tokens"))
    return tuple(pairs)


def _memory(answer: KvPlan) -> Table:
    rows = [(term.name, units.bytes_(term.bytes), term.origin) for term in answer.memory]
    return Table("What is left for the KV cache", ("", "", "origin"), tuple(rows), words=(0, 2))


def _requests(answer: KvPlan) -> list[Block]:
    of, mix, fit = answer.demand, answer.mix, answer.fit
    assert of is not None
    assert mix is not None
    pairs = [("lengths", f"{_span([a for a, _ in mix.lengths])} + {_span([b for _, b in mix.lengths])}, {mix.origin}")]
    alike = of.mean_blocks_at_end == of.blocks_at_end
    pairs.append(
        ("a request at its end" if alike else "the largest at its end", _blocks(of.blocks_at_end, of.bytes_at_end))
    )
    if not alike:
        pairs.append(("the usual one at its end", f"{units.number(of.mean_blocks_at_end)} blocks"))
    pairs.append(("in the mean of its life", _blocks(of.blocks_in_the_mean, of.bytes_in_the_mean)))
    pairs.append(("empty in its last block", f"{units.number(of.waste_tokens)} tokens"))
    if answer.requests is not None and answer.needed_bytes is not None:
        pairs.append(
            (
                f"{answer.requests:,} requests need",
                f"--kv-cache-memory {answer.needed_bytes} ({units.bytes_(answer.needed_bytes)})",
            )
        )
    if fit is not None:
        pairs.append(("fit at peak", f"{fit.at_peak:,} requests, all at the end of the largest at once"))
        pairs.append(("fit in the mean", f"{units.number(fit.in_the_mean)} requests"))
        pairs += _load(fit)
    blocks: list[Block] = [Facts(tuple(pairs))]
    if fit is not None and answer.max_num_seqs is not None:
        blocks.append(Text(_max_num_seqs(answer)))
    return blocks


def _load(fit: Fit) -> list[tuple[str, str]]:
    if fit.concurrency is None:
        return []
    said = (
        f"{units.percent(fit.peak_ratio)} of the pool at their end, {units.percent(fit.mean_ratio)} in the mean; "
        f"{units.number(fit.waste_tokens)} tokens empty"
    )
    return [(f"{fit.concurrency:,} in flight", said)]


def _max_num_seqs(answer: KvPlan) -> str:
    max_num_seqs = answer.max_num_seqs or 0
    if max_num_seqs < 1:
        return "Not even one request of this length fits."
    said = f"--max-num-seqs {max_num_seqs} avoids preemption: as many requests fit, however far each has come."
    if answer.recorded_max_num_seqs is not None:
        at = answer.recorded_max_num_seqs
        said += f" The server has {at:,}" + (": it may preempt." if at > max_num_seqs else ", which is no more.")
    return said + ("" if answer.cost is not None else " What that costs in throughput is not in this sum.")


def _cost(cost: SeqsCost) -> Table:
    return Table(
        f"{cost.run}: --max-num-seqs {cost.recorded_max_num_seqs} → {cost.max_num_seqs}, simulated by {cost.profile}",
        ("", f"{cost.recorded_max_num_seqs}", f"{cost.max_num_seqs}", "change", "verdict"),
        tuple(
            (one.label, _value(one, one.before), _value(one, one.after), _change(one), one.verdict)
            for one in cost.changes
        ),
        notes=(
            "± is the model's own error, as in vtop whatif; a change within it is none.",
            *(remark + "." for remark in cost.remarks),
        ),
        words=(0, 4),
    )


def _value(change: LimitChange, value: float | None) -> str:
    return units.seconds(value) if change.unit == "s" else units.number(value)


def _change(change: LimitChange) -> str:
    if change.ratio is None or change.before is None:
        return units.UNKNOWN
    doubt = f" ± {change.doubt / abs(change.before):.1%}" if change.doubt is not None and change.before else ""
    return f"{change.ratio:+.1%}{doubt}"


def _by_length(answer: KvPlan) -> tuple[Block, ...]:
    rows = tuple((f"{one.tokens:,}", f"{one.blocks:,}", f"{one.requests:,}") for one in answer.by_length)
    table = Table("Requests that fit, by length", ("tokens, prompt and answer", "blocks", "requests"), rows, words=())
    points = tuple((float(one.tokens), float(one.requests) or None) for one in answer.by_length)
    figure = Figure(
        key="fit",
        title="Requests that fit, by length",
        caption="All at their end at once. Both axes are logarithmic.",
        alt="The number of requests that fit falls as their length grows.",
        x_title="tokens of a request, prompt and answer",
        x_kind="log",
        panels=(FigurePanel("requests", (Series("requests that fit", "kv", points),), log=True),),
    )
    return (table, Drawing(figure))


def _exact(size: float) -> str:
    """1,234 B, and what that is in larger units."""
    large = units.bytes_(size)
    return large if size < 1024 else f"{size:,.0f} B = {large}"


def _blocks(blocks: float, size: float | None) -> str:
    return f"{units.plain(blocks)} blocks" + (f", {units.bytes_(size)} on each rank" if size is not None else "")


def _span(values: list[int]) -> str:
    least, most = min(values), max(values)
    return f"{least:,}" if least == most else f"{least:,}–{most:,}"
