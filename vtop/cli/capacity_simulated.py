"""A search of capacity on the simulated engine: alone, or before a measured one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtop.cli.capacity_turns import SearchTalk, by_turns
from vtop.cli.common import echo

if TYPE_CHECKING:
    from vtop.load.workload.phase import PlannedPhase
    from vtop.plan.capacity_answer import Searched
    from vtop.plan.capacity_runs import SimulatedTarget
    from vtop.recording import CapacitySearch
    from vtop.session.capacity.search import Search

SEQS = 128  # seats of a simulated server, where none are told


def simulate(asked: CapacitySearch, like: PlannedPhase, given: dict[str, Any]) -> list[Searched]:
    from vtop.plan.capacity_answer import Searched
    from vtop.plan.capacity_runs import closed_phase_of, plausible, simulated, simulated_closed
    from vtop.session.capacity.record import RecordedSearch, plan_of
    from vtop.session.capacity.search import Search

    server = _simulated_server(given)
    plan = plan_of(asked)
    one = RecordedSearch(asked, plan, Search(plan), gpus=1)
    if given["closed_loop"] is not None:
        phase = closed_phase_of(like, given["closed_loop"], asked.requests, asked.seed)
        one.closed.append(simulated_closed(phase, server, asked.slo))

    def searched(search: Search, on: SimulatedTarget, told: SearchTalk) -> None:
        by_turns([search], lambda _, wanted: simulated(wanted, like, on, asked.slo), told, given["deadline_s"])

    searched(one.search, server, SearchTalk())
    for number, other in enumerate(plausible(server, given["hosts"]) if given["hosts"] else (), 1):
        if one.search.end == "stopped":
            break
        echo(f"plausible host {number} of {given['hosts']}", err=True)
        search = Search(plan)
        searched(search, other, SearchTalk(quiet=True))
        one.hosts.append(search.bracket())
    runs = [run.running_peak or 0.0 for rate in one.search.rates() if rate.verdict == "pass" for run in rate.runs]
    one.remarks.extend(server.beyond(like, max(runs, default=None)))
    seats = f"--max-num-seqs {server.flags.max_num_seqs}, {server.flags.kv_tokens:,} tokens of KV"
    said = f"the simulated engine, {server.profile.name}, {seats}"
    return [Searched(one, said, like, None, server.profile.name)]


def _simulated_server(given: dict[str, Any]) -> SimulatedTarget:
    """Of a profile, or of a recording: its flags, and its host by the profile of its GPU or one fitted on it."""
    from vtop.cli.whatif import profile_for, runs_of
    from vtop.engine.core.flags import Flags
    from vtop.engine.fit import profile
    from vtop.engine.fit.calibration import host_factors_of
    from vtop.engine.whatif.unknowns import Draw
    from vtop.plan.capacity_runs import SimulatedTarget

    name = given["profile"]
    if name.endswith(".toml") or name in profile.names():
        fitted = profile.load(name)
        known = fitted.flags
        seqs = given["max_num_seqs"] or SEQS
        flags = Flags(known["num_gpu_blocks"], block_size=known["block_size"], max_num_seqs=seqs)
        return SimulatedTarget(flags, fitted, fitted.shape)
    runs, _ = runs_of(Path(name), {"was_seqs": None, "was_budget": None, "model_config": given["model_config"]})
    fitted = profile_for(None, runs, Path(name))
    run = max(runs, key=lambda one: one.observed.running or 0.0)
    flags = replace(run.flags, max_num_seqs=given["max_num_seqs"] or run.flags.max_num_seqs)
    return SimulatedTarget(flags, fitted, run.shape or fitted.shape, Draw(host_factors_of(run, fitted), 0.0, 0))


def foretold(asked: CapacitySearch, found: Searched) -> CapacitySearch:
    """A search that is to be measured, with what the same search on the simulated engine found."""
    import msgspec

    from vtop.recording import SimulatedSearch

    one, now = found.recorded, found.recorded.search.bracket()
    hosts = one.hosts
    passes, fails = [of.passes_per_s for of in hosts], [of.fails_per_s for of in hosts]
    simulated = SimulatedSearch(
        by=found.profile or "",
        passes_per_s=now.passes_per_s,
        fails_per_s=now.fails_per_s,
        hosts=len(hosts),
        least_per_s=min((rate for rate in passes if rate is not None), default=None) if None not in passes else None,
        most_per_s=max((rate for rate in fails if rate is not None), default=None) if None not in fails else None,
        attained=tuple((of.rate_per_s, of.mean_ratio) for of in one.search.rates() if of.mean_ratio is not None),
    )
    first = now.passes_per_s or asked.first_per_s
    return msgspec.structs.replace(asked, simulated=simulated, first_per_s=first)
