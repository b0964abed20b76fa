"""Holds what vtop says of four loads that it only watched against what their clients measured (docs/findings.md).

usage: python bench/attached.py; takes about half a minute. The recordings and their truths are in tests/recordings/.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from vtop.session.bottleneck.verdict import TITLES

FOLDER = Path(__file__).parent.parent / "tests" / "recordings"
FLAGS = {  # asked of what-if, and what is told of the server
    "attached_open_r16": ("--max-num-seqs", "64"),
    "attached_seqs10": ("--max-num-seqs", "12"),
    "attached_pool7168_c128": ("--kv-tokens", "172032"),
    "attached_mbt512_c32": ("--max-num-batched-tokens", "2048", "--was-max-num-batched-tokens", "512"),
}
STEP_TOKENS = 8192  # that a step of this server holds at most
BEFORE = {  # what vtop 0.1 said before these runs were looked at: throughput error, what binds
    "attached_open_r16": ("−7.7 %", "power, at 669 of 700 W"),
    "attached_seqs10": ("−0.7 %", "max-num-seqs, no flag"),
    "attached_pool7168_c128": ("−5.8 %", "token budget in ten frames"),
    "attached_mbt512_c32": ("−8.6 %", "nothing"),
}


def asked(*words: str) -> Any:
    """The JSON of a verb."""
    done = subprocess.run(
        [sys.executable, "-m", "vtop", *words, "--format", "json"], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def apart(found: float, truth: float) -> str:
    return f"{100 * (found / truth - 1):+.1f} %".replace("-", "−")


def row(*cells: object) -> None:
    print(f"| {' | '.join(str(cell) for cell in cells)} |")


def head(*cells: str) -> None:
    row(*cells)
    print("|---" * len(cells) + "|")


def main() -> None:
    truths = json.loads((FOLDER / "attached.json").read_text(encoding="utf-8"))
    reports = {name: asked("report", str(FOLDER / f"{name}.jsonl.gz"))["recordings"][0] for name in truths}
    head("run", "client tok/s", "vtop tok/s", "error", "before", "what binds, now", "to try", "before")
    for name, truth in truths.items():
        whole = reports[name]["phases"][0]["whole"]
        error_before, bound_before = BEFORE[name]
        verdict = whole["verdict"]
        row(
            f"`{name}`",
            f"{truth['output_per_s']:,.0f}",
            f"{whole['output_per_s']:,.0f}",
            apart(whole["output_per_s"], truth["output_per_s"]),
            error_before,
            f"{TITLES[verdict['limit']]}: {verdict['sentence']}",
            f"`{verdict['flag']}`" if verdict["flag"] else "–",
            bound_before,
        )
    print()
    head("number", "run", "truth", "vtop", "error")
    for name, truth in truths.items():
        of, whole = reports[name], reports[name]["phases"][0]["whole"]
        span_s = truth["last_token_s"] - truth["first_sent_s"]
        number("preemptions", name, truth["preemptions"], whole["preemptions"])
        number("TTFT, mean, s: the client's, the server's", name, truth["ttft_mean_s"], whole["ttft"]["mean_s"], 3)
        number("prompt tokens", name, truth["prompt_tokens"], whole["prompt_tokens"])
        number("output tokens", name, truth["output_tokens"], whole["output_tokens"])
        if truth["preemptions"]:
            number("one every, s", name, span_s / truth["preemptions"], of["staircase"]["interval_mean_s"], 3)
            number("preemptions a minute", name, 60 / span_s * truth["preemptions"], of["staircase"]["per_minute"], 1)
        if truth["in_flight"] is not None:
            number("in flight", name, truth["in_flight"], whole["account"]["nominal"]["concurrency"], 1)
        if "step_median_s" in truth:
            number(
                "a step that only decodes, ms",
                name,
                1e3 * truth["step_median_s"],
                1e3 * whole["wallclock"]["step_s"],
                2,
            )
            decoded_s = truth["step_median_s"] * truth["prompt_tokens"] / STEP_TOKENS  # in the steps with prompts
            number("prefill, s", name, truth["prefill_steps_s"] - decoded_s, whole["wallclock"]["prefill_s"], 1)
    print()
    head("what-if", "taken for", "tok/s as it was, against the client's", "TTFT", "e2e", "answer: tok/s")
    for name, truth in truths.items():
        found = asked("whatif", str(FOLDER / f"{name}.jsonl.gz"), *FLAGS[name])
        if isinstance(found, str):
            row(f"`{name}`", found, "–", "–", "–", "–")
            continue
        run = found["runs"][0]
        of = {one["name"]: one for one in run["numbers"]}
        tokens, load = of["output_per_s"], f"{run['concurrency']} in flight" if run["concurrency"] else "an open loop"
        row(
            f"`{name}` {' '.join(FLAGS[name][:2])}",
            f"{run['requests']} requests, {load}",
            apart(tokens["simulated"], truth["output_per_s"]),
            apart(1 + of["ttft_s"]["error_ratio"], 1),
            apart(1 + of["e2e_s"]["error_ratio"], 1),
            f"{tokens['predicted']:,.0f}, {tokens['low']:,.0f} to {tokens['high']:,.0f} in 90 %",
        )


def number(what: str, name: str, truth: float, found: float | None, digits: int = 0) -> None:
    error = "–" if found is None else ("0" if found == truth else apart(found, truth) if truth else "**not 0**")
    row(what, f"`{name}`", f"{truth:,.{digits}f}", "–" if found is None else f"{found:,.{digits}f}", error)


if __name__ == "__main__":
    main()
