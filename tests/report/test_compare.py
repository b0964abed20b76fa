"""Comparisons: a change is found, noise is not, and nothing is called a difference without an interval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.report.loops import Loop, run, session
from tests.session.made import RECORDINGS, SMALL, fold, read, recorded
from vtop.errors import VtopError
from vtop.metrics.histogram import Range
from vtop.recording import AnyEvent, Request
from vtop.recording.cut import cut
from vtop.report.compare import compare
from vtop.report.compare.parts import Comparison, Difference, NumberPart
from vtop.report.compare.phase_blocks import Recorded
from vtop.report.phases import asked_phases
from vtop.samples import samples_needed


def all_of(comparison: Comparison) -> Iterator[tuple[NumberPart, Difference]]:
    for phase in comparison.phases:
        for number in phase.numbers:
            for one in number.differences:
                yield number, one


def one_of(comparison: Comparison, name: str, phase: int = 0) -> tuple[NumberPart, Difference]:
    (number,) = [number for number in comparison.phases[phase].numbers if number.name == name]
    (difference,) = number.differences
    return number, difference


ATTACHED = ("attached_open_r16", "attached_mbt512_c32", "attached_pool7168_c128", "attached_seqs10")
ATTACHED_TRUTH = Path(__file__).parents[1] / "recordings" / "attached.json"


def of_recording(name: str) -> Recorded:
    (path,) = [path for path in (*RECORDINGS, *SMALL) if path.name.partition(".")[0] == name]
    return compare.recorded(recorded(name), path.name)


@pytest.fixture(scope="module")
def eight_and_sixteen() -> list[AnyEvent]:
    """The phases of 8 and 16 in flight of the recorded sweep."""
    (path,) = [path for path in RECORDINGS if path.name.startswith("sweep.")]
    start, events = read(path)
    return list(cut(start, events, 296.5, 342.0, "cut for a test"))


def folded(events: list[AnyEvent]) -> Recorded:
    start = events[0]
    return compare.recorded(fold(start, events[1:]), "cut.jsonl")  # type: ignore[arg-type]


def test_a_recording_against_itself_is_the_same_everywhere(eight_and_sixteen: list[AnyEvent]) -> None:
    found = compare.of([folded(eight_and_sixteen), folded(eight_and_sixteen)])
    assert [phase.label for phase in found.phases] == ["c=8", "c=16"]
    for number, one in all_of(found):
        assert one.verdict in ("same", "same bucket"), number
        assert one.absolute in (0, None)
        assert not one.beyond
    assert not found.settings
    assert not found.unlike
    assert not found.left_out


def test_requests_that_took_5_percent_longer_are_found(eight_and_sixteen: list[AnyEvent]) -> None:
    slower = [_slower(event, 1.05) for event in eight_and_sixteen]
    found = compare.of([folded(eight_and_sixteen), folded(slower)])
    for phase in range(2):
        number, one = one_of(found, "itl.mean_s", phase)
        assert number.whose == "own requests"
        assert one.verdict == "worse"
        assert one.ratio == pytest.approx(0.05, abs=1e-4)
        assert one.low_ratio is not None
        assert one.high_ratio is not None
        assert 0 < one.low_ratio <= 0.05 <= one.high_ratio < 0.1
        assert one_of(found, "ttft.mean_s", phase)[1].verdict == "same"
    faster = compare.of([folded(slower), folded(eight_and_sixteen)])
    assert one_of(faster, "itl.mean_s")[1].verdict == "better"


def _slower(event: AnyEvent, by: float) -> AnyEvent:
    if not isinstance(event, Request) or not event.gaps_us:
        return event
    return msgspec.structs.replace(event, gaps_us=tuple(round(us * by) for us in event.gaps_us))


def test_noise_alone_is_hardly_ever_beyond_the_noise() -> None:
    beyond = judged = 0
    for seed in range(0, 20, 2):
        found = compare.of([run(Loop(n=48), seed=seed), run(Loop(n=48), seed=seed + 1)])
        known = [one for _, one in all_of(found) if one.low is not None and one.absolute]
        beyond, judged = beyond + sum(one.beyond for one in known), judged + len(known)
    assert judged > 80
    assert beyond <= 0.02 * judged


def test_a_slower_server_is_found_through_that_noise() -> None:
    found = compare.of([run(seed=1), run(Loop(itl_s=0.0525), seed=2)])
    for name in ("output_per_s", "itl.mean_s", "itl.p50_s", "tpot.mean_s", "e2e.mean_s"):
        assert one_of(found, name)[1].verdict == "worse", name
    assert one_of(found, "ttft.mean_s")[1].verdict == "within noise"


def test_without_an_interval_nothing_is_called_a_difference() -> None:
    short = compare.of([run(Loop(n=4), seed=1), run(Loop(n=4, itl_s=0.2), seed=2)])
    assert short.phases[0].noise[0] == (
        "not known: fewer than 2 rounds of requests; about 32 requests make 8 blocks, or repeat it"
    )
    assert one_of(short, "itl.mean_s")[1].verdict == "noise not known"
    for found in (short, compare.of([run(seed=1), run(Loop(itl_s=0.06), seed=2)])):
        assert all(one.low is not None for _, one in all_of(found) if one.beyond)


def test_a_percentile_is_given_only_where_there_is_enough_for_it() -> None:
    few, more = samples_needed(0.9) - 4, samples_needed(0.9)
    for n, there in ((few, False), (more, True)):
        found = compare.of([run(Loop(n=n), seed=1), run(Loop(n=n), seed=2)])
        known = {number.name for number, one in all_of(found) if one.absolute is not None}
        assert ("ttft.p90_s" in known) is there
        assert "ttft.p99_s" not in known


def test_of_a_load_that_one_side_did_not_record_the_servers_times_are_compared() -> None:
    found = compare.of([run(seed=1), run(Loop(own=False), seed=2)])
    assert found.phases[0].paired == (None, "likeness")
    whose = {number.whose for number, _ in all_of(found) if number.name.startswith(("ttft", "itl", "e2e"))}
    assert whose == {"server"}
    number, one = one_of(found, "ttft.p50_s")
    assert number.values[0] == Range(0.1, 1.0)
    assert (one.verdict, one.absolute) == ("same bucket", None)


def test_repeats_are_the_noise_where_there_are_any() -> None:
    a, b = [[(run(seed=seed),) for seed in seeds] for seeds in (range(3), range(3, 6))]
    found = compare.of_sides([a, b])
    number, one = one_of(found, "itl.mean_s")
    singly = [one_of(compare.of([run[0], run[0]]), "itl.mean_s")[0].values[0] for run in a]
    assert number.values[0] == pytest.approx(sum(value for value in singly if isinstance(value, float)) / 3)
    assert one.verdict == "within noise"
    assert found.phases[0].noise == ("between runs: 3 of one, 3 of the other",)
    assert number.counts[0] == 3 * one_of(compare.of([a[0][0], b[0][0]]), "itl.mean_s")[0].counts[0]  # type: ignore[operator]


def test_one_new_run_against_repeats_varies_as_they_do() -> None:
    base = [(run(seed=seed),) for seed in range(4)]
    same, slow = run(seed=9), run(Loop(itl_s=0.055), seed=9)
    assert one_of(compare.of_sides([base, [(same,)]]), "itl.mean_s")[1].verdict == "within noise"
    assert one_of(compare.of_sides([base, [(slow,)]]), "itl.mean_s")[1].verdict == "worse"


def test_a_run_in_several_files_is_one_run() -> None:
    whole = run(Loop(c=2), Loop(c=4), seed=1)
    parts = (run(Loop(c=2), seed=2), run(Loop(c=4), seed=3))
    found = compare.of_sides([[(whole,)], [parts]])
    assert [phase.label for phase in found.phases] == ["c=2", "c=4"]
    assert found.left_out == ()


def test_three_sides_are_each_held_against_the_first() -> None:
    found = compare.of([run(seed=1), run(seed=2), run(Loop(itl_s=0.06), seed=3)])
    (number,) = [number for number in found.phases[0].numbers if number.name == "itl.mean_s"]
    assert [one.side for one in number.differences] == ["B", "C"]
    assert [one.verdict for one in number.differences] == ["within noise", "worse"]


def test_unlike_many_gpus_are_compared_per_gpu() -> None:
    one, two = run(seed=1, devices=1), run(seed=1, devices=2)
    found = compare.of([one, two])
    number, difference = one_of(found, "output_per_s")
    assert number.per_gpu
    assert difference.ratio == pytest.approx(-0.5)
    assert difference.verdict == "worse"
    assert not one_of(found, "itl.mean_s")[0].per_gpu
    assert not one_of(compare.of([one, run(seed=1, devices=1)]), "output_per_s")[0].per_gpu
    assert not one_of(compare.of([one, run(seed=1, devices=0)]), "output_per_s")[0].per_gpu


def test_failed_requests_are_a_number_and_a_percentile_that_they_reach_is_no_time() -> None:
    found = compare.of([run(seed=1), run(Loop(failing=0.3), seed=2)])
    number, one = one_of(found, "failed_ratio")
    assert number.values[0] == 0
    assert one.verdict == "worse"
    assert one.ratio is None  # of nothing there is no share; the difference is in points
    number, one = one_of(found, "ttft.p90_s")
    assert number.values[1] == "failed"
    assert (one.verdict, one.absolute) == ("not comparable", None)


def test_keeping_a_service_level_is_better_the_more_of_it() -> None:
    found = compare.of([run(Loop(slo=0.19), seed=1), run(Loop(slo=0.19, ttft_s=0.18), seed=2)])
    assert one_of(found, "slo.attainment_ratio")[1].verdict == "better"


def test_asked_stretches_are_paired_by_their_name() -> None:
    asked = asked_phases("early=2-12,late=14-24")
    a, b = (compare.recorded(session(seed=seed), "run.jsonl", asked) for seed in (1, 2))
    found = compare.of([a, b])
    assert [phase.paired for phase in found.phases] == [(None, "name")] * 2


def test_a_recording_without_requests_is_refused() -> None:
    idle = compare.recorded(session((Loop(own=False, n=0),)), "idle.jsonl")
    with pytest.raises(VtopError, match=r"idle\.jsonl: no request ran in it"):
        compare.of([run(), idle])
    with pytest.raises(VtopError, match="compare 2 to 26"):
        compare.of([run()])


def test_two_devices_differ_by_more_than_the_noise_within_a_run() -> None:
    """The overload of an H200, twice, on two GPUs: 1.5 % in speed and 8 % in power, with the same preemptions."""
    found = compare.of([of_recording("overload"), of_recording("overload_loaded")])
    assert one_of(found, "output_per_s")[1].ratio == pytest.approx(-0.0158, abs=0.005)  # by the clients' own stamps
    assert one_of(found, "tpot.mean_s")[1].verdict == "worse"
    assert one_of(found, "power_w.mean")[1].verdict == "higher"
    for name in ("preemptions_per_request", "recompute.ratio", "kv.mean_ratio", "running.mean", "waiting.mean"):
        assert one_of(found, name)[1].verdict in ("same", "within noise"), name


def test_the_sums_over_blocks_are_those_of_the_phase(eight_and_sixteen: list[AnyEvent]) -> None:
    from vtop.report.compare.compared_numbers import NUMBERS
    from vtop.report.compare.phase_blocks import RecordedPhase, counts, cut

    of = folded(eight_and_sixteen)
    place = RecordedPhase(of, of.report.phases[0])
    blocks = cut(place, counts((place, place), own=True, sending=True), own=True)
    assert len(blocks.whole) == 16
    assert place.phase.whole is not None
    for number in NUMBERS:
        if number.sums is None or number.scope != "whole":
            continue
        parts = [number.sums(one) for one in blocks.whole]
        whole = number.sums(place.phase.whole)
        assert whole is not None
        for at in range(2):
            assert sum(part[at] for part in parts if part is not None) == pytest.approx(whole[at], abs=1e-9), (
                number.name
            )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["attached_open_r16", "attached_mbt512_c32", "attached_pool7168_c128", "attached_seqs10"]
)
def test_tokens_and_requests_of_a_watched_run_differ_by_the_same_from_a_load_of_the_same_lengths(name: str) -> None:
    """A run that only its server tells of, beside one whose clients do: −3 % of tokens and −17 % of requests it was, of
    requests of one length; and its rates are those of its own clients."""
    truth = json.loads(ATTACHED_TRUTH.read_text())[name]
    loaded = of_recording("overload_seqs10" if name == "attached_seqs10" else "pool7168")
    found = compare.of([loaded, of_recording(name)], unlike=True)
    (tokens, one), (requests, other) = one_of(found, "output_per_s"), one_of(found, "finished_per_s")
    span_s = truth["last_token_s"] - truth["first_sent_s"]
    assert tokens.values[1] == pytest.approx(truth["output_per_s"], rel=0.021)
    assert requests.values[1] == pytest.approx(truth["requests"] / span_s, rel=0.021)
    assert one.ratio == pytest.approx(other.ratio, abs=0.01)
