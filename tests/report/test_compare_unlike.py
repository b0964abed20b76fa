"""Unlike runs are refused and named; what else differs is listed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.report.loops import Flags, Loop, run
from tests.report.test_compare import of_recording
from vtop.errors import VtopError
from vtop.report.compare import compare
from vtop.report.compare.compare_document import document
from vtop.report.compare.phase_blocks import Recorded
from vtop.report.render.terminal import text

SHORT = 12  # requests: what is unlike shows in few

UNLIKE: list[tuple[str, Callable[[], Recorded]]] = [
    ("tokens in is 100 in a.jsonl and 200 in b.jsonl", lambda: run(Loop(n=SHORT, input=200), file="b.jsonl")),
    ("tokens out is 20 in a.jsonl and 30 in b.jsonl", lambda: run(Loop(n=SHORT, output=30), file="b.jsonl")),
    ("load is 4 in flight in a.jsonl and 6 in flight in b.jsonl", lambda: run(Loop(c=6, n=SHORT), file="b.jsonl")),
    ("api is completions in a.jsonl and chat in b.jsonl", lambda: run(Loop(n=SHORT, api="chat"), file="b.jsonl")),
    ("the model is m in a.jsonl and other in b.jsonl", lambda: run(Loop(n=SHORT), file="b.jsonl", model="other")),
    (
        "tokens in, mean is 100 in a.jsonl and 300 in b.jsonl",
        lambda: run(Loop(n=SHORT, own=False, input=300), file="b.jsonl"),
    ),
    (
        "requests in flight is 4.00 in a.jsonl and 8.00 in b.jsonl",
        lambda: run(Loop(c=8, n=3 * SHORT, own=False), file="b.jsonl"),
    ),
]


@pytest.mark.parametrize(("said", "other"), UNLIKE, ids=[said.partition(" is ")[0] for said, _ in UNLIKE])
def test_unlike_runs_are_refused_and_marked_where_they_are_wanted(said: str, other: Callable[[], Recorded]) -> None:
    first, second = run(Loop(n=SHORT), file="a.jsonl"), other()
    with pytest.raises(VtopError) as refused:
        compare.of([first, second])
    assert said in str(refused.value)
    assert "--unlike" in str(refused.value)
    found = compare.of([first, second], unlike=True)
    assert any(one.what in said for one in found.unlike)
    assert "Compared all the same" in text(document(found, drawn=False))


def test_a_repeat_that_is_none_is_refused_too() -> None:
    a = [(run(Loop(n=SHORT), file="a.jsonl"),), (run(Loop(n=SHORT, input=200), file="b.jsonl"),)]
    with pytest.raises(VtopError, match=r"tokens in is 100 in a\.jsonl and 200 in b\.jsonl"):
        compare.of_sides([a, [(run(Loop(n=SHORT)),)]])


def test_models_of_one_shape_are_alike_whatever_their_server_calls_them() -> None:
    found = compare.of([of_recording("overload"), of_recording("overload_loaded")])
    assert found.unlike == ()
    settings = {one.name: one.values for one in found.settings}
    assert settings["model"] == ("m", "qwen2.5-7b-dummy")
    assert settings["load"] == ("not on record", "vtop's own")
    assert "vLLM" not in settings  # both 0.26.0
    assert "KV pool, tokens" not in settings


def test_other_lengths_of_two_recorded_servers_are_seen_in_what_they_finished() -> None:
    with pytest.raises(VtopError, match="tokens in, mean is 6,144 in overload"):
        compare.of([of_recording("overload"), of_recording("sweep_c64")])


def test_flags_of_the_servers_commands_are_listed_where_both_are_on_record() -> None:
    mine: Flags = {"max-num-seqs": 128, "block-size": 16, "dtype": "bfloat16", "enforce-eager": True}
    its: Flags = {"max-num-seqs": 10, "block-size": 32, "dtype": "bfloat16", "enable-chunked-prefill": False}
    found = compare.of([run(Loop(n=SHORT), flags=mine), run(Loop(n=SHORT), flags=its)])
    assert {one.name: one.values for one in found.settings} == {
        "--max-num-seqs": ("128", "10"),
        "--enforce-eager": ("on", "not given"),
        "--enable-chunked-prefill": ("not given", "off"),
    }  # the block size is what its page says
    assert "--max-num-seqs" in text(document(found, drawn=False))
    only_one = compare.of([run(Loop(n=SHORT), flags=mine), run(Loop(n=SHORT))])
    assert only_one.settings == ()


def test_settings_of_the_load_are_listed_where_both_are_on_record() -> None:
    found = compare.of([run(Loop(n=SHORT)), run(Loop(n=2 * SHORT))])
    assert {one.name: one.values for one in found.settings} == {"requests a phase": ("12", "24")}
