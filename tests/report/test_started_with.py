"""A report says what the server was started with, where that is on record, and what of it is vLLM's default."""

from __future__ import annotations

from dataclasses import replace

from tests.report.loops import Flags, Loop, run
from vtop.report.findings.facts import facts
from vtop.session.frame.servers import StartedWith

SHORT = Loop(n=12)


def test_the_facts_name_the_command_on_record() -> None:
    flags: Flags = {"max-num-seqs": 10, "enable-prefix-caching": False, "enforce-eager": True}
    said = dict(facts(run(SHORT, flags=flags).report))
    assert said["started with"] == "vllm serve --max-num-seqs 10 --no-enable-prefix-caching --enforce-eager"


def test_a_command_that_was_not_seen_is_no_fact() -> None:
    assert "started with" not in dict(facts(run(SHORT).report))


def test_defaults_stand_beside_the_command_and_not_in_it() -> None:
    report = run(SHORT).report
    started = StartedWith("vllm serve", {"max-num-seqs": 10}, 10, 8192, ("max-num-batched-tokens",))
    (server,) = report.servers
    said = dict(facts(replace(report, servers=(replace(server, started=started),))))
    assert said["started with"] == "vllm serve --max-num-seqs 10 (defaults: --max-num-batched-tokens 8192)"
