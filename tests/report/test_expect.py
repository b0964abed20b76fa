"""Expectations: met, partly, not met, not observable; and what is reported of a file that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.reports import report_of
from vtop.errors import VtopError
from vtop.report.expectations import Outcome, exit_code, judge, known, read

OVERLOAD = report_of("overload_loaded")


def judged(tmp_path: Path, table: str, name: str = "overload_loaded") -> tuple[Outcome, ...]:
    path = tmp_path / "rules.toml"
    path.write_text(f"[x]\n{table}\n", encoding="utf-8")
    return judge(report_of(name), read(path))


def result(tmp_path: Path, table: str, name: str = "overload_loaded") -> tuple[str, str]:
    (one,) = judged(tmp_path, table, name)
    return one.result, one.found


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("preemptions == 37", "met"),
        ("preemptions == 0", "not met"),
        ("preemptions != 0", "met"),
        ("kv.peak_ratio <= 0.95", "not met"),
        ("kv.peak_ratio <= 1", "met"),
        ("kv.peak_percent > 99", "met"),
        ("ttft.mean_ms < 800", "not met"),
        ("ttft.mean_s > 49", "met"),
        ("parts.queue_s >= 40", "met"),
        ("account.oversubscription > 6", "met"),
        ("energy.per_output_token_j < 1", "met"),
        ("recompute.ratio < 0.5", "met"),
        ("failed == 0", "met"),
        ("itl.p99_ms < 10", "met"),
        ("ttft.p99_ms < 800", "not observable"),  # 128 requests are too few for it
    ],
)
def test_a_condition_on_the_run(tmp_path: Path, condition: str, expected: str) -> None:
    assert result(tmp_path, f'that = "{condition}"')[0] == expected


def test_beyond_the_bound_within_the_tolerance_is_partly(tmp_path: Path) -> None:
    assert result(tmp_path, 'that = "kv.peak_ratio <= 0.95"\ntolerance = "6%"')[0] == "partly"
    assert result(tmp_path, 'that = "kv.peak_ratio <= 0.95"\ntolerance = "5%"')[0] == "not met"
    assert result(tmp_path, 'that = "preemptions == 36"\ntolerance = 1')[0] == "partly"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [  # the server's histogram says: above 1 s, at most 2.5 s
        ("ttft.p99_s < 3", "met"),
        ("ttft.p99_s <= 2.5", "met"),
        ("ttft.p99_s < 2", "not observable"),
        ("ttft.p99_ms < 1000", "not met"),
        ("ttft.p99_s > 1", "met"),
        ("ttft.p99_s > 2", "not observable"),
        ("ttft.p99_s >= 3", "not met"),
        ("ttft.p99_s == 2", "not observable"),
        ("ttft.p99_s == 4", "not met"),
        ("ttft.p99_s != 4", "met"),
    ],
)
def test_a_number_that_lies_in_a_bucket_decides_only_where_all_of_the_bucket_does(
    tmp_path: Path, condition: str, expected: str
) -> None:
    found = "in 1000–2500" if "_ms" in condition else "in 1–2.5"
    assert result(tmp_path, f'that = "{condition}"', "sweep_c64") == (expected, found)


def test_a_failed_request_at_a_percentile_is_longer_than_any_bound(tmp_path: Path) -> None:
    from tests.report.loops import Loop, session
    from vtop.report.model import of_session

    path = tmp_path / "rules.toml"
    path.write_text('[x]\nthat = "ttft.p90_s < 800"\n', encoding="utf-8")
    (found,) = judge(of_session(session((Loop(n=100, failing=0.5),)), "x"), read(path))
    assert (found.result, found.found) == ("not met", "a failed request stands there")


def test_a_phase_by_its_label_each_phase_and_its_steady_part(tmp_path: Path) -> None:
    one = judged(tmp_path, 'that = "waiting.peak == 0"\nphase = "c=8"', "sweep")
    assert [(found.where, found.result) for found in one] == [("c=8", "met")]
    each = judged(tmp_path, 'that = "waiting.peak == 0"\nphase = "*"\npart = "steady"', "sweep")
    assert [found.where for found in each] == [f"c={c}, steady part" for c in (1, 2, 4, 8, 16, 32, 64)]
    assert [found.result for found in each[:4]] == ["met"] * 4
    (none,) = judged(tmp_path, 'that = "preemptions == 0"\nphase = "c=5"', "sweep")
    assert none.result == "not observable"


def test_the_exit_code_is_for_a_pipeline(tmp_path: Path) -> None:
    assert exit_code(judged(tmp_path, 'that = "preemptions == 37"')) == 0
    assert exit_code(judged(tmp_path, 'that = "preemptions == 36"\ntolerance = 1')) == 0
    assert exit_code(judged(tmp_path, 'that = "preemptions == 0"')) == 1
    assert exit_code(judged(tmp_path, 'that = "ttft.p99_s < 1"')) == 1
    assert exit_code(()) == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it holds no expectation"),
        ("[x", "not TOML"),
        ("x = 1", r"\[x\] has no condition"),
        ("[x]\n", r"\[x\] has no condition"),
        ("[x]\nthat = 3", r"\[x\] has no condition"),
        ("[x]\nthat = 'preemptions'", "write FIELD, one of"),
        ("[x]\nthat = 'preemptions ~ 3'", "write FIELD, one of"),
        ("[x]\nthat = 'preemptions == nan'", "write FIELD, one of"),
        ("[x]\nthat = 'preemptions == 0'\ntolerence = 1", "tolerence: no such key"),
        ("[x]\nthat = 'preemptions == 0'\ntolerance = 'x'", "tolerance = 'x'"),
        ("[x]\nthat = 'preemptions == 0'\ntolerance = -1", "tolerance = -1"),
        ("[x]\nthat = 'preemptions == 0'\ntolerance = true", "tolerance = True"),
        ("[x]\nthat = 'preemptions == 0'\npart = 'x'", "whole or steady"),
        ("[x]\nthat = 'preemptions == 0'\npart = 'steady'", "is of a phase"),
        ("[x]\nthat = 'preemptions == 0'\nphase = 3", "expected text in quotes"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(VtopError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_number_that_no_report_has_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(VtopError, match=r"ttft\.p98_ms: no such number"):
        result(tmp_path, 'that = "ttft.p98_ms < 800"')


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(VtopError, match="cannot be read"):
        read(tmp_path / "none.toml")


def test_fields_are_known_by_their_own_unit_and_by_others() -> None:
    assert all(
        map(known, ("preemptions", "kv.peak_ratio", "kv.peak_percent", "ttft.p99_ms", "account.nominal.peak_ratio"))
    )
    assert not any(map(known, ("kv", "kv.peak_ms", "x.y", "ttft.p99", "")))
