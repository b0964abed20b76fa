"""What to try comes from the prices of the load, where it was simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.session.made import Log, Server
from vtop.session.bottleneck.priced import with_prices
from vtop.session.frame.frame import Frame
from vtop.session.frame.prices import Price, Prices, Suggestion, Worth
from vtop.session.frame.verdict import Verdict
from vtop.session.frame.vocabulary import VerdictLimit

MORE, SOONER = Worth(0.37, 0.36, 0.38), Worth(-0.3, -0.31, -0.29)
SEATS = Suggestion("max-num-seqs", "--max-num-seqs 20", MORE, SOONER)


def frame(limit: VerdictLimit, flag: str | None) -> Frame:
    log = Log()
    log.scrape(0.0, Server())
    return replace(log.frame(), verdict=Verdict(limit, "x", ("x",), flag, "why", None))


def prices(suggestion: Suggestion | None) -> Prices:
    return Prices("run", 0, (Price("max-num-seqs", 10, 11, MORE, SOONER, 5),), suggestion, (), 1.0)


def test_without_prices_the_frame_is_what_it_was() -> None:
    one = frame("max-num-seqs", None)
    assert with_prices(one, None) is one
    assert with_prices(one, prices(None)).verdict is one.verdict


@pytest.mark.parametrize("flag", [None, "--max-num-seqs 12"])
def test_the_flag_that_is_worth_most_is_the_one_to_try_with_its_interval(flag: str | None) -> None:
    found = with_prices(frame("max-num-seqs", flag), prices(SEATS)).verdict
    assert found.flag == "--max-num-seqs 20"
    assert found.why == (
        "by simulation --max-num-seqs 20 would bring +37.00 ± 1.00 % output tokens/s, mean TTFT −30.00 ± 1.00 %"
    )


def test_a_pool_is_no_flag_so_what_a_larger_one_would_bring_is_the_reason() -> None:
    larger = Suggestion("kv", "--kv-tokens 173792", MORE, SOONER)
    found = with_prices(frame("kv", "--gpu-memory-utilization"), prices(larger)).verdict
    assert found.flag == "--gpu-memory-utilization"
    assert found.why is not None
    assert "--kv-tokens 173792 would bring +37.00" in found.why


def test_no_flag_is_suggested_to_a_server_that_is_stuck() -> None:
    assert with_prices(frame("stuck", None), prices(SEATS)).verdict.flag is None
