"""A request that failed says how: behind its bar where there is room, else at the row's end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.draw import frames
from tests.draw.panels import text
from vtop.draw import theme as looks
from vtop.draw.panels.waterfall import waterfall
from vtop.session.frame.waterfall import RequestTimes, Waterfall

LOOK = looks.load("dark")


def failed(end_s: float) -> RequestTimes:
    return RequestTimes(7, 1.0, 1.0, 3.0, None, end_s, end_s - 1.0, "inband_error", None, None, None)


@pytest.mark.parametrize(("end_s", "said"), [(5.0, "× inband_error"), (150.0, "inband_…")])
def test_a_failed_request_says_how_it_failed(end_s: float, said: str) -> None:
    frame = replace(frames.overload(), now_s=151.0, waterfall=Waterfall(rows=(failed(end_s),), ended=1))
    (row,) = [line for line in text(waterfall(frame, 78, 4, LOOK)).splitlines() if line.startswith("#7")]
    assert said in row
    assert row.rstrip().endswith("2.00 s" if end_s == 5.0 else said)
