"""How much faster than life the simulated engine is: the recordings that come with vtop, and a 600-second overload.

usage: python -m bench.whatif
"""

from __future__ import annotations

import time
from dataclasses import replace

from vtop import shipped
from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.fit import profile
from vtop.engine.runs.measured import Levels
from vtop.engine.runs.replay import ReplayLoad, replay
from vtop.engine.runs.runs import runs

OVERLOAD_S = 615.0  # the last ones run alone: so that it is 600 and more
TAKES = 3


def took(load: ReplayLoad, flags: Flags) -> tuple[float, float, int]:
    """Seconds simulated, seconds it took at best, and steps."""
    h200 = profile.load("h200-qwen2.5-7b")
    best_s, span_s, steps = float("inf"), 0.0, 0
    for _ in range(TAKES):
        engine = Engine(flags, h200.timing, h200.frontend, h200.shape)
        began_s = time.perf_counter()
        seen = replay(load, engine, Levels(engine))
        best_s = min(best_s, time.perf_counter() - began_s)
        span_s, steps = seen.span_s, seen.steps
    return span_s, best_s, steps


def main() -> None:
    print(f"{'load':<44}{'simulated':>11}{'took':>9}{'times':>8}{'steps':>9}")
    for path in sorted(shipped.folder("recordings").glob("*.jsonl*")):
        for run in runs(path):
            row(run.name, run.load, run.flags)
    (overload,) = runs(shipped.folder("recordings") / "overload_loaded.jsonl.gz")
    span_s = overload.observed.span_s
    assert span_s is not None
    asks = overload.load.asks[:1] * round(len(overload.load.asks) * OVERLOAD_S / span_s)
    row(f"the overload, {len(asks)} requests", replace(overload.load, asks=asks), overload.flags)


def row(name: str, load: ReplayLoad, flags: Flags) -> None:
    span_s, took_s, steps = took(load, flags)
    print(f"{name[:43]:<44}{span_s:>9.1f} s{took_s:>7.3f} s{span_s / took_s:>8,.0f}{steps:>9,}")


if __name__ == "__main__":
    main()
