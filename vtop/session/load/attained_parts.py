"""What an AttainmentCount came to, as the frozen parts of a frame and of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vtop.session.frame.load import BoundAttainment, LengthAttainment, Quantiles
from vtop.session.load.attainment import AttainmentCount
from vtop.session.load.exact_histogram import ExactHistogram

ASKED: Final = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.95)


def quantiles_of(spread: ExactHistogram) -> Quantiles:
    """Exact times, each percentile where there are enough for it."""
    return Quantiles(spread.n, spread.failed, spread.mean_s, *spread.quantiles(ASKED))


def bound_of(slo: AttainmentCount, name: str) -> BoundAttainment:
    """One bound alone."""
    spread = slo.times[name]
    judged = spread.n + spread.failed
    return BoundAttainment(
        name=name,
        bound_s=slo.bounds[name],
        judged=judged,
        kept=slo.kept[name],
        ratio=slo.kept[name] / judged if judged else None,
        times=quantiles_of(spread),
    )


def lengths_of(found: Mapping[tuple[int, int], AttainmentCount]) -> tuple[LengthAttainment, ...]:
    """Requests of like lengths; none where all are alike."""
    return tuple(_length(place, found[place]) for place in sorted(found)) if len(found) > 1 else ()


def _length(place: tuple[int, int], found: AttainmentCount) -> LengthAttainment:
    p95 = {name: spread.quantiles((0.95,))[0] for name, spread in found.times.items()}
    return LengthAttainment(
        input_tokens=(4 ** place[0], 4 ** (place[0] + 1) - 1),
        output_tokens=(4 ** place[1], 4 ** (place[1] + 1) - 1),
        judged=found.judged,
        good=found.passed,
        ratio=found.passed / found.judged if found.judged else None,
        ttft_p95_s=p95.get("ttft"),
        tpot_p95_s=p95.get("tpot"),
        e2e_p95_s=p95.get("e2e"),
    )
