"""The table of true values of one afternoon on an H200, made again by vtop from scrapes, readings and stamps.

The client's stamps of those runs were not vtop's; here they become the requests of a load, as vtop would have
recorded them. The table's tokens per second are over the client's whole run, its start included; its TTFT is the
client's.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.session.made import RECORDINGS, SMALL, fold, read
from vtop.recording import AnyEvent, Load, Request, Start
from vtop.session.frame.frame import Frame, View

STAMPS: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "recordings" / "requests.json.gz").read_bytes())
)

# run: output tokens/s, TTFT ms, queue ms, prefill ms, running at most, KV at most, preemptions, median W
TABLE: dict[str, tuple[float, float, float, float, int, float, int, float]] = {
    "sweep_c1": (202, 34, 0.0, 30.0, 1, 0.015, 0, 443),
    "sweep_c8": (1372, 164, 0.0, 129.5, 8, 0.116, 0, 456),
    "sweep_c16": (2398, 255, 20.7, 188.7, 16, 0.230, 0, 482),
    "sweep_c32": (3880, 445, 90.8, 287.9, 32, 0.426, 0, 586),
    "sweep_c64": (5415, 772, 323.8, 325.8, 64, 0.886, 0, 643),
    "overload": (1592, 49_179, 48_080, 473.2, 14, 0.999, 37, 527),
}


def with_requests(name: str) -> tuple[Start, list[AnyEvent]]:
    """The recording with the requests of its client as those of vtop's own load."""
    (path,) = [path for path in (*RECORDINGS, *SMALL) if path.name.partition(".")[0] == name]
    start, events = read(path)
    run = STAMPS[name]
    load = Load(
        phase=0,
        state="begin",
        spec=f"c={run['concurrency']}",
        shape="closed",
        concurrency=run["concurrency"],
        input_tokens=(run["input"], run["input"]),
        output_tokens=(run["output"], run["output"]),
        t=run["begin_s"],
    )
    events.append(load)
    events.append(msgspec.structs.replace(load, state="end", reason="done", t=run["end_s"]))
    for number, (sent_s, first_s, last_s, end_s) in enumerate(run["requests"]):
        request = Request(
            id=number,
            phase=0,
            sent_s=sent_s,
            first_s=first_s,
            last_s=last_s,
            end_s=end_s,
            prompt_tokens=run["input"],
            output_tokens=run["output"],
            t=min(end_s + 0.001, run["end_s"]),
        )
        events.append(Request(id=number, phase=0, sent_s=sent_s, t=sent_s))
        events.append(request)
    return start, sorted(events, key=lambda event: event.t)


@pytest.fixture(scope="module")
def frames() -> dict[str, Frame]:
    found = {}
    for name in STAMPS:
        session = fold(*with_requests(name))
        found[name] = session.frame(session.end_s, View(window_s=300.0, columns=44))
    return found


@pytest.mark.parametrize("name", TABLE)
def test_the_table_is_made_again(name: str, frames: dict[str, Frame]) -> None:
    tokens_per_s, ttft_ms, queue_ms, prefill_ms, running, used, preempted, power_w = TABLE[name]
    frame = frames[name]
    assert frame.load is not None
    assert frame.load.output_tokens / frame.load.elapsed_s == pytest.approx(tokens_per_s, rel=0.01)
    assert (frame.load.ttft.mean_s or 0.0) * 1000 == pytest.approx(ttft_ms, rel=0.01, abs=0.5)
    assert (frame.ttft.queue_s or 0.0) * 1000 == pytest.approx(queue_ms, rel=0.01, abs=0.05)
    assert (frame.ttft.prefill_s or 0.0) * 1000 == pytest.approx(prefill_ms, rel=0.01)
    assert frame.requests.running.high == running
    assert frame.kv.used.high == pytest.approx(used, abs=5e-4)  # as it is printed
    assert frame.preemption.count.since_start == preempted
    assert frame.gpus.devices[0].power.median == pytest.approx(power_w, rel=0.01)


@pytest.mark.parametrize("name", STAMPS)
def test_the_parts_add_up_to_the_client_s_ttft(name: str, frames: dict[str, Frame]) -> None:
    """Of the load's own requests: the warm-up before it is not among them."""
    frame = frames[name]
    (row,) = frame.growth.phases
    assert frame.load is not None
    assert row.finished == frame.load.done == len(STAMPS[name]["requests"])
    assert row.network_s is not None
    assert 0.001 < row.network_s < 0.13
    assert row.total_s == pytest.approx(frame.load.ttft.mean_s, rel=1e-6)


def test_the_warm_up_is_foreign_and_hides_the_network_of_a_short_run(frames: dict[str, Frame]) -> None:
    for name, frame in frames.items():
        own = frame.own_ttft
        assert own is not None
        assert (own.n, own.foreign) == (len(STAMPS[name]["requests"]), 1)
        assert (own.network_s is None) == (own.n < 49)  # one of fifty is 2 %


@pytest.mark.parametrize("name", STAMPS)
def test_the_account_goes_by_what_the_load_asked(name: str, frames: dict[str, Frame]) -> None:
    run, account = STAMPS[name], frames[name].account
    assert account.lengths_from == "the load's spec"
    assert account.nominal is not None
    whole = run["concurrency"] * (run["input"] + run["output"]) / 86_896
    assert account.nominal.peak_ratio == account.oversubscription == pytest.approx(whole)
    assert account.waste_tokens_per_request == 0
