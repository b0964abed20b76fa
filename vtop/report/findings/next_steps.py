"""What to try next: the flags that the verdicts of the phases name, each a hypothesis with the test that would show it.

The test is the same load once more, on a server started with the flag, and a comparison of the two recordings.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from vtop.report.model import Phase, Report
from vtop.server_kinds import registry


@dataclass(frozen=True, slots=True)
class NextStep:
    flag: str
    why: str
    where: tuple[str, ...]  # phases whose verdict says so
    evidence: tuple[str, ...]  # of the last of them
    commands: tuple[str, ...]  # that would test it


def steps(report: Report) -> tuple[NextStep, ...]:
    found: dict[str, list[Phase]] = {}
    for phase in report.phases:
        if phase.whole is not None and phase.whole.verdict.flag is not None:
            found.setdefault(phase.whole.verdict.flag, []).append(phase)
    tried = [_step(report, flag, phases) for flag, phases in found.items()]
    run = report.run
    if run is not None and run.recompute.missing_flag is not None and run.preemptions:
        flag = run.recompute.missing_flag
        why = "it counts the bytes that the engine writes, which tells recomputed tokens exactly"
        found_by = [registry.of(one.kind).suggest.count_work() for one in report.servers]
        commands = tuple(dict.fromkeys(one.command for one in found_by if one is not None and one.command is not None))
        tried.append(NextStep(flag, why, ("run",), ("requests were preempted",), (*commands, *_again(report))))
    return tuple(tried)


def _step(report: Report, flag: str, phases: list[Phase]) -> NextStep:
    last = phases[-1].whole
    assert last is not None
    found = last.verdict
    commands = ((found.command,) if found.command is not None else ()) + _again(report, phases)
    return NextStep(flag, found.why or "", tuple(phase.label for phase in phases), found.evidence, commands)


def _again(report: Report, phases: list[Phase] | None = None) -> tuple[str, ...]:
    """The same load against the changed server, and what sets the two recordings side by side."""
    loads = [phase.load for phase in phases or report.phases if phase.load is not None]
    before = shlex.quote(report.file)
    asked = " ".join(f"--load {shlex.quote(load.spec)}" for load in loads)
    again = f"vtop --record after.jsonl {asked}" if asked else "vtop record -o after.jsonl, under the same load"
    return (again, f"vtop compare {before} after.jsonl")
