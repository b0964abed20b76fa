"""The max_num_seqs that a run was made with, as far as its recording shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vtop.engine.runs.runs import TOLD, Run
from vtop.errors import VtopError

SEQS: Final = 128  # what a server is taken to have been started with, where nothing tells


def at_limit(run: Run) -> tuple[Run, str]:
    """The run with the max_num_seqs it was made with, as far as the recording shows it; and how that is said, where it
    is taken for granted. Raises VtopError where more ran than was told."""
    seen, known, whence = run.observed, run.flags.max_num_seqs, run.whence.get("max_num_seqs")
    if whence is not None and (seen.most_running is None or seen.most_running <= known):
        return run, ""
    if whence == TOLD:
        raise VtopError(f"--was-max-num-seqs {known}: {run.name} has {seen.most_running} running at once")
    if seen.max_num_seqs is not None:
        seqs, why = seen.max_num_seqs, " as so many ran while others waited and the pool had room"
    else:
        seqs, why = max(SEQS, seen.most_running or 0), ""
    budget = max(run.flags.max_num_batched_tokens, seqs)
    changed = replace(run.flags, max_num_seqs=seqs, max_num_batched_tokens=budget)
    others = {name: whence for name, whence in run.whence.items() if name != "max_num_seqs"}
    return replace(run, flags=changed, whence=others), f"--max-num-seqs {seqs}{why}"
