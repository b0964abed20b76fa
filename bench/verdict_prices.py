"""Holds the live verdict's rules against the price of each limit, over every load of the recordings; Markdown rows.

usage: python bench/verdict_prices.py [RECORDING…]. A rule is right where the limit it names is worth most.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from fit_profiles import H200, HELD_OUT  # type: ignore[import-not-found, unused-ignore]

from vtop import shipped
from vtop.engine.fit import profile
from vtop.engine.fit.calibration import host_factors_of
from vtop.engine.runs.runs import runs
from vtop.engine.whatif.prices import prices
from vtop.recording import FileRecording
from vtop.report.model import build
from vtop.report.prices import named
from vtop.session.frame.prices import FLAGS, LABELS, Prices, worth
from vtop.session.frame.verdict import Verdict

HEAD = "| load | verdict | says | priced | " + " | ".join(LABELS.values()) + " | agree |"
WORTHLESS = ("none", "idle", "gpu", "power", "client")  # verdicts that name no flag


def main() -> None:
    given = [Path(word) for word in sys.argv[1:]] or sorted(shipped.folder("recordings").glob("*.jsonl*"))
    print(HEAD)
    print("|---" * HEAD.count(" | ") + "|---|")
    for path in given:
        for row in rows(path):
            print(f"| {' | '.join(row)} |", flush=True)


def rows(path: Path) -> Iterator[list[str]]:
    h200 = profile.load("h200-qwen2.5-7b")
    recording = FileRecording(path)
    phases = [phase for phase in build(recording, path.name).phases if phase.whole is not None]
    recording.close()
    by_label = {phase.load.phase if phase.load is not None else None: phase for phase in phases}
    for run in runs(path, {**H200, **HELD_OUT}.get(path.name, {})):
        phase = by_label.get(run.phase) or (phases[-1] if phases and run.phase is None else None)
        if phase is None or phase.whole is None:
            continue
        found, verdict = prices(run, h200, host_factors_of(run, h200)), phase.whole.verdict
        worths = [f"{worth(price.output)} / {worth(price.ttft)}" for price in found.prices]
        binding = found.binding.limit if found.binding is not None else "none"
        name = f"`{path.name.partition('.')[0]}` {named(found) if run.phase is not None else ''}".strip()
        yield [
            name,
            verdict.limit,
            verdict.sentence,
            binding,
            *worths,
            "yes" if agree(verdict, found) else "**no**",
        ]


def agree(verdict: Verdict, found: Prices) -> bool:
    """A verdict that names a flag is right where that is worth most; one that names none where no flag is, or where it
    says about the steps that larger ones would be worth something."""
    flag = found.binding.limit if found.binding is not None and found.binding.limit in FLAGS else None
    said = {"token-budget": "larger steps would cut TTFT", "max-num-seqs": "may have waited between scrapes"}
    both = flag is not None and said.get(flag, "-") in verdict.sentence
    return verdict.limit == flag or both or (flag is None and verdict.limit in WORTHLESS)


if __name__ == "__main__":
    main()
