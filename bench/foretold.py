"""What `vtop whatif` says of flags that were later measured: each row a recording, the flags asked for, and what came.

usage: python -m bench.foretold. The first of each pair is all that the prediction knows: its load, its host and GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vtop import shipped, units
from vtop.engine.fit import profile
from vtop.engine.fit.calibration import host_factors_of
from vtop.engine.runs.runs import Run, runs
from vtop.engine.whatif.simulation import changes, recorded_of
from vtop.engine.whatif.whatif import Row, WhatIf, what_if


@dataclass(frozen=True, slots=True)
class Pair:
    """A run, and the same load with the flags of another run: (recording, which of its runs)."""

    known: tuple[str, int]
    asked: tuple[str, int]
    same_host: bool = False


PAIRS = (
    Pair(("overload_loaded.jsonl.gz", 0), ("overload_seqs10.jsonl.gz", 0)),
    Pair(("overload_loaded.jsonl.gz", 0), ("overload_seqs12.jsonl.gz", 0)),
    Pair(("killed.jsonl.gz", 0), ("open_loop_seats48.jsonl.gz", 1), same_host=True),
    Pair(("open_loop.jsonl.zst", 3), ("open_loop_seats48.jsonl.gz", 0)),
    Pair(("sweep.jsonl.gz", 6), ("sweep_batch1024.jsonl.gz", 0)),
    Pair(("sweep.jsonl.gz", 6), ("sweep_batch512.jsonl.gz", 4)),
    Pair(("sweep.jsonl.gz", 6), ("sweep_batch512_again.jsonl.gz", 3)),
    Pair(("sweep.jsonl.gz", 6), ("pool7168.jsonl.gz", 0)),
)
TOLD = {  # flags that are not on record
    "overload_seqs10.jsonl.gz": {"max_num_seqs": 10},
    "sweep_batch512.jsonl.gz": {"max_num_batched_tokens": 512},
    "sweep_batch512_again.jsonl.gz": {"max_num_batched_tokens": 512},
}


def run(which: tuple[str, int]) -> Run:
    name, number = which
    return runs(shipped.folder("recordings") / name, TOLD.get(name, {}))[number]


def foretold(pair: Pair) -> tuple[WhatIf, Run]:
    """The answer, and the run that it is of."""
    h200 = profile.load("h200-qwen2.5-7b")
    known, asked = run(pair.known), run(pair.asked)
    flags = replace(
        known.flags,
        max_num_seqs=asked.flags.max_num_seqs,
        num_gpu_blocks=asked.flags.num_gpu_blocks,
        max_num_batched_tokens=asked.flags.max_num_batched_tokens,
    )
    return what_if(known, h200, flags, factors=host_factors_of(known, h200)), asked


def main() -> None:
    print("| from | flags asked for | output tok/s | TTFT mean | TPOT mean | preempted |\n|---|---|---|---|---|---|")
    for pair in PAIRS:
        answer, asked = foretold(pair)
        real = recorded_of(asked, None)
        rows = {row.number.name: row for row in answer.rows}
        load = answer.run.name.partition(", ")[2].partition(" ")[0]
        cells = [f"`{pair.known[0].partition('.')[0]}` {load}".strip()]
        cells.append(f"`{changes(answer.run.flags, answer.flags)}`{', same host' if pair.same_host else ''}")
        cells += [said(rows[name], getattr(real, name)) for name in ("output_per_s", "ttft_s", "tpot_s", "preemptions")]
        print(f"| {' | '.join(cells)} |", flush=True)


def said(row: Row, came: float) -> str:
    """As it was → foretold, measured and how far off; bold outside the interval of the answer."""
    assert row.recorded is not None
    assert row.after is not None
    if not (row.recorded or row.after or came):
        return "0"
    word = units.seconds if row.number.unit == "s" else "{:,.0f}".format
    off = (
        f", {row.after / came - 1:+.1%}".replace("-", "−").replace("%", " %")
        if came and row.number.unit != "count"
        else ""
    )
    found = f"{word(row.recorded)} → {word(row.after)}; {word(came)}{off}"
    return found if row.interval is not None and row.interval.holds(came) else f"**{found}**"


if __name__ == "__main__":
    main()
