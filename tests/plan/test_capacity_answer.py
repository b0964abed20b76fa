"""What stands beside a bracket: headroom, vllm bench's command, two servers seed by seed; and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.cli.vtop import runner
from tests.plan.test_capacity import PLAN, cliff, result, search
from vtop.cli import main
from vtop.cli.capacity_turns import SearchTalk, by_turns
from vtop.errors import VtopError
from vtop.load.workload.spec import phases
from vtop.plan.headroom import headroom, variation_of
from vtop.plan.vllm_bench import command
from vtop.report.plan.capacity_said import ENDS
from vtop.session.capacity.search import Next, RunResult, Search, goodput_of, paired

SLO = ("--slo", "ttft=800ms,tpot=50ms")


def test_headroom_leaves_room_for_a_burst_in_a_hundred_and_for_growth() -> None:
    found = headroom(20.0, 120.0, 0.2, "poisson")
    grown = found.planned_per_s * 1.2
    assert grown + 2.326 * math.sqrt(grown / 120.0) == pytest.approx(20.0)
    assert headroom(20.0, 120.0, 0.0, "constant").ratio == pytest.approx(1.0)
    assert headroom(20.0, 120.0, 0.0, "gamma:0.25").ratio < headroom(20.0, 120.0, 0.0, "poisson").ratio
    assert headroom(20.0, 12.0, 0.0, "poisson").ratio < headroom(20.0, 120.0, 0.0, "poisson").ratio
    assert variation_of("gamma:0.25") == 2.0


def test_the_same_load_is_said_to_vllm_bench() -> None:
    (phase,) = phases(["rate=2.5 n=500 seed=7 in=512~1536 out=256 warmup=8 arrival=gamma:0.5"])
    said = command(phase, {"ttft": 0.8, "e2e": 10.0}, "http://host:8000")
    assert said is not None
    for words in (
        "--base-url http://host:8000",
        "--random-input-len 1024 --random-output-len 256",
        """--random-range-ratio '{"input": 0.5, "output": 0.0}'""",
        "--num-prompts 500 --request-rate 2.5 --seed 7",
        "--burstiness 0.5",
        "--num-warmups 8",
        "--goodput ttft:800 e2el:10000",
    ):
        assert words in said
    (constant,) = phases(["rate=2 n=5 arrival=constant"])
    assert command(constant, {"ttft": 0.8}, None) is None


def test_two_servers_are_compared_where_they_had_the_same_seeds() -> None:
    first, second = Search(PLAN), Search(PLAN)
    for seed, one, other in ((1, 0.98, 0.90), (2, 0.96, 0.90), (3, 0.97, 0.88)):
        first.tell(result(Next(4.0, seed, 100), one))
        second.tell(result(Next(4.0, seed, 100), other))
    first.tell(result(Next(8.0, 1, 100), 0.9))
    (pair,) = paired(first, second)
    assert (pair.rate_per_s, pair.pairs) == (4.0, 3)
    assert pair.difference_ratio == pytest.approx(-0.0766667)
    assert pair.half_ratio is not None


def test_goodput_is_of_the_requests_that_kept_the_service_level() -> None:
    found = search(PLAN, lambda run: 0.96 if run.rate_per_s <= 10 else 0.5)
    passes = found.bracket().passes_per_s
    assert passes is not None
    assert goodput_of(found) == pytest.approx(passes * 0.96)


def test_what_is_left_shrinks_as_the_bracket_does() -> None:
    found, left = Search(PLAN), []
    while (run := found.next()) is not None:
        left.append(found.left().rates)
        found.tell(result(run, cliff(10.0)(run)))
    assert left[-1] <= 1 < left[0]


def test_every_end_has_words() -> None:
    assert set(ENDS) >= {"reached", "no evidence", "server changed", "stopped", None}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--simulate", "h200-qwen2.5-7b", "--record", "x.jsonl"), "--record is of a measured search"),
        (("--simulate", "h200-qwen2.5-7b", "--against", ":8001"), "--against is of a measured search"),
        (("--simulate", "h200-qwen2.5-7b", "--with", "max=8"), "a cap in the client is not simulated"),
        (("--url", ":1", "--url", ":2"), "--against URL"),
        (("--hosts", "2"), "--hosts and --max-num-seqs are of a simulated search"),
        (("--with", "in=8 out=1", "--slo", "tpot=50ms"), "an answer of one token has no TPOT"),
        (("--simulate", "h200-qwen2.5-7b", "--screen"), "--screen is of a measured search"),
        (("--screen",), "the screen needs a terminal"),
        (("--growth", "20%"), "--growth is that within --scale-out"),
        (("--with", "in=8 c=4"), "rate, requests and seed are the search's"),
        (("--resume", "sweep_c64"), "it holds no searches of capacity"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_runs(words: tuple[str, ...], why: str) -> None:
    done = runner().invoke(main, ["capacity", *SLO, *words])
    assert done.exit_code == 2
    assert why in " ".join(done.output.split())


def test_an_answer_is_never_lost_to_a_file_that_is_there(tmp_path: Path) -> None:
    there = tmp_path / "x.json"
    there.write_text("mine")
    done = runner().invoke(main, ["capacity", *SLO, "--url", ":1", "-o", str(there)])
    assert "exists already" in done.output
    assert there.read_text() == "mine"


def test_a_simulated_search_as_json_has_all_that_stands_beside_the_bracket() -> None:
    words = ["--rule", "floor", "--runs", "2", "--n", "20", "--from", "60", "--max", "60", "--with", "in=64 out=4"]
    more = ["--closed-loop", "4", "--scale-out", "2m", "--format", "json", "--simulate", "h200-qwen2.5-7b", "--no-hold"]
    done = runner().invoke(main, ["capacity", *SLO, *words, *more])
    (found,) = json.loads(done.stdout)["searches"]
    assert found["bracket"]["end"] == "nothing failed"
    assert found["closed"][0]["concurrency"] == 4
    assert found["headroom"]["ratio"] < 1
    assert found["goodput_per_gpu_per_s"] == found["goodput_per_s"]
    assert found["bench_command"].startswith("vllm bench serve")


def test_a_simulated_search_says_what_other_hosts_would_make_of_it_and_where_the_profile_ends() -> None:
    words = ["--rule", "floor", "--runs", "2", "--n", "20", "--from", "60", "--max", "60", "--with", "in=64 out=4"]
    done = runner().invoke(
        main, ["capacity", *SLO, *words, "--simulate", "h200-qwen2.5-7b", "--hosts", "2", "--no-hold"]
    )
    said = " ".join(done.stdout.split())
    assert "On 2 other hosts that are as plausible, the bracket lies between 60.0 and beyond the highest rate" in said
    assert "Beyond the profile: prompt tokens 64, and it was fitted on 1,024 to 6,144." in said


def test_a_server_that_is_gone_ends_the_search_and_what_was_found_stays() -> None:
    one = Search(PLAN)
    made: list[int] = []

    def run(_: int, wanted: Next) -> RunResult:
        if len(made) == 3:
            raise VtopError("127.0.0.1:1 is not up")
        made.append(wanted.seed)
        return result(wanted, 1.0)

    by_turns([one], run, SearchTalk(quiet=True), None)
    assert (one.end, one.why, one.bracket().passes_per_s) == ("stopped", "127.0.0.1:1 is not up", 1.0)
    with pytest.raises(VtopError, match="is not up"):
        by_turns([Search(PLAN)], run, SearchTalk(quiet=True), None)  # nothing was found
