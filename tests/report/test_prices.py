"""How the price of each limit is said: a sentence and a row a limit, and a step for the flag that would bring most."""

from __future__ import annotations

from vtop.report.prices import Priced, binds, blocks, steps
from vtop.report.render.document import Findings, Table, Text
from vtop.session.frame.prices import Price, Prices, Suggestion, Worth, worth

NOTHING = Worth(0.0, 0.0, 0.0)
POOL = Price("kv", 86_896, 95_600, Worth(0.0737, 0.0727, 0.0747), Worth(-0.079, -0.08, -0.078), 5)
SEQS = Price("max-num-seqs", 128, 144, NOTHING, NOTHING, 1)
GPU = Price("gpu", None, None, Worth(0.09, 0.0899, 0.0901), Worth(-0.08, -0.0801, -0.0799), 5)
LARGER = Suggestion("kv", "--kv-tokens 173792", Worth(0.45, 0.44, 0.46), Worth(-0.49, -0.5, -0.48))
OVERLOAD = Prices("overload", None, (POOL, SEQS, GPU), LARGER, ("a remark",), 0.0)
ALONE = Prices("sweep, c=1 in=1024 out=256", 0, (SEQS, GPU), None, (), 0.0)


def test_the_limit_that_binds_is_said_with_what_more_of_it_is_worth() -> None:
    assert binds(OVERLOAD) == (
        "overload: KV pool binds: 95,600 for 86,896 is worth +7.37 ± 0.10 % output tokens/s, mean TTFT −7.90 ± 0.10 %; "
        "--kv-tokens 173792 would bring +45.00 ± 1.00 % output tokens/s, mean TTFT −49.00 ± 1.00 %."
    )
    assert binds(ALONE) == (
        "c=1: no flag binds: 10 % more of each is worth next to nothing; of GPU speed +9.00 ± 0.01 % output tokens/s, "
        "mean TTFT −8.00 ± 0.01 %."
    )


def test_where_nothing_is_worth_anything_no_limit_is_said_to_bind() -> None:
    assert "no limit binds" in binds(Prices("idle", None, (SEQS,), None, (), 0.0))


def test_what_changed_nothing_is_0_without_a_doubt() -> None:
    assert worth(NOTHING) == "0"
    assert worth(Worth(0.09, 0.09, 0.09)) == "+9.00 %"


def test_every_limit_is_a_row_and_every_remark_a_line() -> None:
    findings, table, remark = blocks(Priced((OVERLOAD,)))
    assert isinstance(findings, Findings)
    assert isinstance(table, Table)
    assert table.rows == (
        ("KV pool", "86,896", "95,600", "+7.37 ± 0.10 %", "−7.90 ± 0.10 %"),
        ("max-num-seqs", "128", "144", "0", "0"),
        ("GPU speed", "", "+10 %", "+9.00 ± 0.01 %", "−8.00 ± 0.01 %"),
    )
    assert remark == Text("– a remark")
    of_two = blocks(Priced((OVERLOAD, ALONE)))[1]
    assert isinstance(of_two, Table)
    assert [row[0] for row in of_two.rows][-2:] == ["c=1: max-num-seqs", "c=1: GPU speed"]


def test_loads_that_are_not_priced_are_named_with_the_reason() -> None:
    assert blocks(Priced()) == ()
    assert blocks(Priced(missing=("c=1: it would take about 40 s",))) == (
        Text("Not priced: c=1: it would take about 40 s."),
    )


def test_the_flag_that_would_bring_most_is_a_step_with_what_it_would_bring() -> None:
    (step,) = steps(Priced((OVERLOAD, ALONE)), "over load.jsonl")
    assert step.flag == "--kv-tokens 173792"
    assert step.where == ("overload",)
    assert step.evidence == (
        "overload: --kv-tokens 173792 would bring +45.00 ± 1.00 % output tokens/s, mean TTFT −49.00 ± 1.00 %",
    )
    assert step.commands == ("vtop whatif 'over load.jsonl' --kv-tokens 173792",)
