"""How often a comparison of two like runs calls a difference one: pairs of made-up runs that differ by chance alone.

    python bench/false_alarms.py [--pairs 40] [--kind NAME …]

Kinds: closed loops whose requests vary (own load on record, or only what the server says), with many and with few
rounds of requests; open loops of Poisson arrivals on the simulated engine, whose arrivals alone differ. Printed are, a
kind: comparisons, those that called any difference one (stated: at most 5 % of them), intervals, and those that leave
out 0; with the figures that did.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.report.loops import Loop, session
from vtop.engine.core.flags import Flags
from vtop.engine.server.request_parsing import ParsedRequest
from vtop.engine.server.simulated import Settings
from vtop.engine.server.virtual_recording import tape
from vtop.report.compare import compare
from vtop.report.compare.phase_blocks import Recorded
from vtop.session.session import read


def _loop(**changes: object) -> Callable[[int], Recorded]:
    loop = Loop(**{"chance": 0.1, **changes})  # type: ignore[arg-type]
    return lambda seed: compare.recorded(session((loop,), seed), f"{seed}.jsonl")


def _engine(rate_per_s: float, for_s: float) -> Callable[[int], Recorded]:
    def run(seed: int) -> Recorded:
        chance = Random(seed)  # arrivals of a Poisson process, given how many there are
        arrivals = sorted(chance.uniform(0.0, for_s) for _ in range(round(rate_per_s * for_s)))
        asked = ParsedRequest(prompts=(range(512),), max_tokens=64, ignore_eos=True)
        flags = Flags(num_gpu_blocks=5431, max_num_seqs=128, max_num_batched_tokens=8192)
        recording = tape(Settings(flags), asked, 0, for_s, arrivals_s=arrivals)
        recording.close("the time is up")
        return compare.recorded(read(recording), f"{seed}.jsonl")

    return run


KINDS: dict[str, Callable[[int], Recorded]] = {
    "closed, 24 rounds": _loop(n=96),
    "closed, 7 rounds": _loop(c=8, n=56),
    "closed, 3 rounds": _loop(c=16, n=48),
    "closed, watched, 24 rounds": _loop(n=96, own=False),
    "closed, failing": _loop(n=96, failing=0.05),
    "open, simulated engine": _engine(4.0, 60.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    print(f"{'kind':<28} {'pairs':>6} {'called':>7} {'intervals':>10} {'beyond':>7}")
    pairs = called = 0
    for kind in asked.kind:
        make, alarms, intervals, which = KINDS[kind], 0, 0, Counter[str]()
        for pair in range(asked.pairs):
            found = compare.of([make(2 * pair), make(2 * pair + 1)])
            beyond = [
                number.name
                for phase in found.phases
                for number in phase.numbers
                for one in number.differences
                if one.beyond
            ]
            alarms += bool(beyond)
            intervals += found.intervals
            which.update(beyond)
        said = ", ".join(f"{name} {count}" for name, count in which.most_common(6))
        print(f"{kind:<28} {asked.pairs:>6} {alarms:>7} {intervals:>10} {which.total():>7}  {said}", flush=True)
        pairs, called = pairs + asked.pairs, called + alarms
    print(f"{called} of {pairs} comparisons called a difference one: {called / pairs:.1%}")


if __name__ == "__main__":
    main()
