"""How a server answers more load: shares, slopes, efficiency, the tail of ITL, against what they are made of."""

from __future__ import annotations

from math import log

import pytest

from tests.session.made import recorded
from vtop.session.session import Session


@pytest.fixture(scope="module")
def sweep() -> Session:
    return recorded("sweep")


def test_each_load_has_a_row_in_order(sweep: Session) -> None:
    found = sweep.load_levels()
    assert [one.load for one in found.levels] == [1, 2, 4, 8, 16, 32, 64]
    assert found.unit == "in flight"


def test_slopes_lie_between_neighbouring_loads_and_foretell_the_crossing(sweep: Session) -> None:
    levels = sweep.load_levels().levels
    rows = {part.concurrency: part for part in sweep.frame(sweep.end_s).growth.phases}
    low, high, last = rows[32.0], rows[64.0], levels[-1]
    assert low.queue_s
    assert high.queue_s
    assert high.prefill_s
    assert last.queue_slope == pytest.approx(log(high.queue_s / low.queue_s) / log(2))
    assert last.queue_of_prefill_ratio == pytest.approx(high.queue_s / high.prefill_s)
    assert last.queue_slope is not None
    assert last.prefill_slope is not None
    crossing = 64 * (high.prefill_s / high.queue_s) ** (1 / (last.queue_slope - last.prefill_slope))
    assert sweep.frame(sweep.end_s).growth.crossing == pytest.approx(crossing)
    assert levels[0].queue_slope is None


def test_efficiency_is_what_a_request_in_flight_brings_against_one_alone(sweep: Session) -> None:
    first, *_, last = sweep.load_levels().levels
    assert first.efficiency_ratio == 1.0
    assert last.output_per_s is not None
    assert first.output_per_s is not None
    assert last.efficiency_ratio == pytest.approx(last.output_per_s / 64 / first.output_per_s)


def test_the_tail_of_itl_breaks_where_its_ratio_to_the_median_jumps(sweep: Session) -> None:
    found = sweep.load_levels()
    assert (found.tail_from, found.tail_breaks_at) == (32.0, 64.0)
    assert found.tail_before == pytest.approx(0.009052 / 0.005425)
    assert found.tail_after == pytest.approx(0.170571 / 0.005971)


def test_without_a_load_of_its_own_there_is_no_row() -> None:
    assert recorded("overload").load_levels().levels == ()


def test_prompt_tokens_come_with_the_requests_that_end(sweep: Session) -> None:
    part = sweep.load.part_of(6, sweep.end_s)
    assert part is not None
    assert part.output_per_s is not None
    assert part.total_per_s == pytest.approx(part.output_per_s * (1024 + 256) / 256)


def test_the_bound_that_was_broken_is_named() -> None:
    session = recorded("open_loop")
    part = session.load.part_of(max(session.load.phases), session.end_s)
    assert part is not None
    assert part.slo is not None
    assert part.slo.broken == (("ttft", 1),)
    assert part.slo.good == part.slo.judged - 1
