"""Holds the H200 profile against recordings that it was not fitted on, alone and with host factors; Markdown rows.

usage: python bench/held_out.py [RECORDING [FLAG=N …]]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from fit_profiles import HELD_OUT, recorded  # type: ignore[import-not-found, unused-ignore]

from vtop import units
from vtop.engine.fit import profile
from vtop.engine.fit.calibration import host_factors_of
from vtop.engine.runs.runs import Run, runs
from vtop.engine.whatif.whatif import Row, what_if

HEAD = (
    "| run | output tok/s | alone | with host factors | mean TTFT | alone | with host factors "
    "| preempted | alone | with host factors | launch | GPU |"
)


def main() -> None:
    if sys.argv[1:]:
        flags = dict(word.split("=") for word in sys.argv[2:])
        given = runs(Path(sys.argv[1]), {name: int(value) for name, value in flags.items()})
    else:
        given = recorded(HELD_OUT)
    print(HEAD)
    print("|---" * HEAD.count(" | ") + "|---|")
    for run in given:
        print(f"| {' | '.join(cells(run))} |", flush=True)


def cells(run: Run) -> Iterator[str]:
    h200 = profile.load("h200-qwen2.5-7b")
    factors = host_factors_of(run, h200)
    rows = {row.number.name: row for row in what_if(run, h200, run.flags, factors=factors).rows}
    name, _, load = run.name.partition(", ")
    yield f"`{name}` {load.partition(' ')[0]}"
    for number, bound in (("output_per_s", 0.05), ("ttft_s", 0.15)):
        row = rows[number]
        yield units.seconds(row.recorded) if number == "ttft_s" else f"{row.recorded:,.0f}"
        for ratio in (row.alone_ratio, row.error_ratio):
            yield _bold(f"{ratio:+.1%}".replace("-", "−").replace("%", " %"), abs(ratio or 0.0) > bound)
    yield from _preempted(rows["preemptions"])
    yield f"{factors.launch:.2f}"
    yield f"{factors.gpu:.3f}"


def _preempted(row: Row) -> Iterator[str]:
    real = row.recorded or 0.0
    yield f"{real:.0f}"
    for found in (row.alone or 0.0, row.before or 0.0):
        yield _bold(f"{found:.0f}", abs(found - real) > max(1.0, 0.05 * real))


def _bold(text: str, is_off: bool) -> str:
    return f"**{text}**" if is_off else text


if __name__ == "__main__":
    main()
