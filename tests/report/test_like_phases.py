"""Only like loads are set beside each other as before and after; what stands beside nothing is named."""

from __future__ import annotations

from tests.report.reports import report_of
from vtop.report.like_phases import beside, like
from vtop.report.tables.recordings import before_and_after


def test_a_sweep_beside_its_repeat_stands_load_by_load_and_an_overload_alone() -> None:
    found = beside([report_of(name) for name in ("sweep", "overload_loaded", "sweep_again")])
    names = [one.name for one in found]
    assert names[4:6] == ["sweep c=16", "sweep_again c=16"]
    assert names[7:9] == ["sweep c=64", "sweep_again c=64"]
    assert {one.name for one in found if not one.alone} == {*names[4:6], *names[7:9]}
    assert "overload_loaded c=64" in {one.name for one in found if one.alone}


def test_the_table_says_what_stands_beside_no_like_load() -> None:
    table = before_and_after([report_of("sweep"), report_of("overload_loaded")])
    assert table is not None
    assert len(table.rows) == 8
    assert table.notes[0].startswith("Beside no like load, so before and after of nothing: sweep c=1, ")
    both = before_and_after([report_of("overload"), report_of("overload_loaded")])
    assert both is not None
    assert not both.notes[0].startswith("Beside no")


def test_a_watched_overload_is_like_the_one_that_vtop_sent() -> None:
    first, other = (report_of(name).phases[0] for name in ("overload", "overload_loaded"))
    assert first.whole is not None
    assert other.whole is not None
    assert like((first, first.whole), (other, other.whole))
    (sweep,) = [one for one in report_of("sweep").phases if one.label == "c=64"]
    assert sweep.whole is not None
    assert not like((sweep, sweep.whole), (other, other.whole))
