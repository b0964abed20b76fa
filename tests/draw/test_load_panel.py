"""vtop's own load says in one word each what ended, what was done and what failed, and in whose words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.draw import frames, loads
from vtop.draw import theme as looks
from vtop.draw.panels.load import load
from vtop.session.frame.load import LoadHostPart, LoadPart

LOOK = looks.load("dark")


def drawn(part: LoadPart, width: int = 78, height: int = 12, look: looks.Look = LOOK) -> list[str]:
    lines = load(replace(frames.overload(), load=part), width, height, look)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def test_a_load_that_ended_says_how_it_went_and_counts_what_ended() -> None:
    first, bar, *_ = drawn(loads.load())
    assert first == "ended · 44 of 91 failed · c=64 in=6144 out=2048 for=45s"
    assert bar.endswith("▒ 91 ended")
    assert drawn(loads.load(planned=91))[1].endswith("▒ 91 of 91 ended")
    well = drawn(loads.load(failed=0, failed_by_class=(), failed_detail=None))
    assert well[0].startswith("ended · c=64")
    assert drawn(loads.load(reason="aborted"))[0].startswith("ended: aborted · 44 of 91 failed")
    assert drawn(loads.load(), 52)[0] == "ended · 44 failed · c=64 in=6144 out=2048 for=45s"


def test_failures_stand_in_their_own_words() -> None:
    said = "44 × inband_error: EngineCore encountered an issue. See stack trace (above)…"
    lines = drawn(loads.load())
    assert said in lines
    assert said in drawn(loads.load(), 78, 6), "on a small screen too"
    assert sum("inband_error" in line for line in lines) == 1
    several = drawn(loads.load(failed=46, failed_by_class=(("inband_error", 44), ("timeout", 2))))
    assert any("failed 46 · inband_error 44 · timeout 2" in line for line in several)
    equal = drawn(loads.load(failed=4, failed_by_class=(("reset", 2), ("timeout", 2)), failed_detail="cut"))
    assert "failed: cut" in equal, "whose words they are is not known"


def test_a_load_past_its_time_is_draining_and_its_bar_is_not_full() -> None:
    first, bar, *_ = drawn(loads.draining())
    assert first.startswith("56 of 64 in flight")
    assert bar.endswith(" 35 of 91 ended · draining")
    room = 78 - len(" 35 of 91 ended · draining")
    assert bar.count("▒") == round(35 / 91 * room)
    assert "draining" not in " ".join(drawn(loads.load()))
    running = loads.load(state="running", left_s=6.0, progress_ratio=0.85, in_flight=64)
    assert drawn(running)[1].endswith(" 91 ended · 0:06 left")


def test_the_last_requests_of_a_count_are_drained_too() -> None:
    last = loads.load(state="running", planned=128, sent=128, done=96, failed=0, in_flight=32, left_s=4.0)
    assert drawn(last)[1].endswith(" 96 of 128 ended · draining · 0:04 left")
    before = replace(last, sent=127)
    assert drawn(before)[1].endswith(" 96 of 128 ended · 0:04 left")


def test_a_failed_request_is_longer_than_everything_and_the_panel_says_so() -> None:
    lines = drawn(loads.load())
    assert any(line.startswith("TTFT ") and line.split()[5] == "∞" for line in lines)
    assert any("∞ is a failed one" in line for line in lines)
    assert not any("∞" in line for line in drawn(loads.load(), 58)), "its column has no room there"
    assert not any("∞" in line for line in drawn(loads.draining()))
    plain = looks.load("dark", ascii=True, colour=False)
    assert any("inf is a failed one" in line for line in drawn(loads.load(), look=plain))


@pytest.mark.parametrize(("rate_per_s", "said"), [(24.0, "of 24 requests/s"), (2.5, "of 2.50 requests/s")])
def test_a_rate_asked_for_has_no_digits_that_say_nothing(rate_per_s: float, said: str) -> None:
    part = loads.load(shape="open", state="running", rate_per_s=rate_per_s, sent_per_s=23.7, left_s=9.0)
    assert said in drawn(part)[0]


def test_the_hosts_of_a_load_are_named_beside_how_its_client_does() -> None:
    left = LoadHostPart(
        host=0, name="gpu7", workers=2, offset_s=0.5, offset_error_s=0.001, drift_s=None, drift_error_s=None, sent=9,
        late_p50_s=0.001, late_p99_s=0.002, lost=0,
    )  # fmt: skip
    well = {"limited": None, "late_p99_s": 0.002}
    assert any("2 workers on gpu7" in line for line in drawn(loads.load(hosts=(left,), **well)))
    right = replace(left, host=1, name="gpu8", workers=1)
    assert any("3 workers on 2 hosts" in line for line in drawn(loads.load(hosts=(left, right), **well)))
    assert not any("workers on" in line for line in drawn(loads.load(**well)))


def test_infinity_is_of_broken_off_requests_where_none_failed() -> None:
    broken = loads.load(failed=0, failed_by_class=(), unfinished=64)
    assert any("∞ is a broken-off one" in line for line in drawn(broken))
