"""The trace is strict JSON, its slices nest, no track holds two requests at once, its counters are the session's."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.recorded import OVERLOAD, SWEEP, loaded, opened, reading, strict, watched, written
from tests.session.made import read
from tests.shipped_kinds import EACH
from vtop.export.formats import perfetto
from vtop.export.track_allocator import TrackAllocator
from vtop.recording import Start, encode
from vtop.recording.cut import cut

Entry = dict[str, Any]


def trace(path: Path, folder: Path) -> dict[str, Any]:
    out = folder / "trace.json"
    with reading(path) as recording:
        assert perfetto.write(recording, out, force=True) == [out]
    document = strict(out.read_bytes())
    assert isinstance(document, dict)
    return document


def entries(document: dict[str, Any], ph: str) -> list[Entry]:
    return [entry for entry in document["traceEvents"] if entry["ph"] == ph]


def by_track(found: list[Entry], *names: str) -> dict[tuple[Any, ...], list[Entry]]:
    tracks: dict[tuple[Any, ...], list[Entry]] = defaultdict(list)
    for entry in found:
        tracks[tuple(entry[name] for name in names)].append(entry)
    return tracks


def parts(document: dict[str, Any], request: str) -> list[tuple[str, int, int]]:
    """(name, from, to) in ms of the slices within a request's."""
    (whole,) = [one for one in entries(document, "X") if one["name"].partition(":")[0] == request]
    track = [one for one in entries(document, "X") if (one["pid"], one["tid"]) == (whole["pid"], whole["tid"])]
    end = whole["ts"] + whole["dur"]
    return [
        (one["name"], one["ts"] // 1000, (one["ts"] + one["dur"]) // 1000)
        for one in track
        if one is not whole and whole["ts"] <= one["ts"] and one["ts"] + one["dur"] <= end
    ]


# --- its structure ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EACH)
def test_every_entry_has_what_its_kind_needs(path: Path, tmp_path: Path) -> None:
    document = trace(path, tmp_path)
    needed = {
        "X": {"name", "ts", "dur", "pid", "tid"},
        "C": {"name", "ts", "pid", "args"},
        "M": {"name", "pid", "args"},
    }
    needed["i"] = {"name", "ts", "pid", "tid", "s"}
    named = {entry["pid"] for entry in entries(document, "M") if entry["name"] == "process_name"}
    for entry in document["traceEvents"]:
        assert set(entry) >= needed[entry["ph"]]
        assert entry["pid"] in named
        for stamp in ("ts", "dur"):
            assert isinstance(entry.get(stamp, 0), int)
            assert entry.get(stamp, 0) >= 0


@pytest.mark.parametrize("path", [OVERLOAD, SWEEP], ids=["overload_loaded", "sweep"])
def test_time_never_goes_back_on_a_track(path: Path, tmp_path: Path) -> None:
    document = trace(path, tmp_path)
    for tracks in (
        by_track(entries(document, "X"), "pid", "tid"),
        by_track(entries(document, "i"), "pid", "tid"),
        by_track(entries(document, "C"), "pid", "name"),
    ):
        for found in tracks.values():
            stamps = [entry["ts"] for entry in found]
            assert stamps == sorted(stamps)


@pytest.mark.parametrize("path", [OVERLOAD, SWEEP], ids=["overload_loaded", "sweep"])
def test_slices_nest_and_requests_share_no_track_at_once(path: Path, tmp_path: Path) -> None:
    document = trace(path, tmp_path)
    seen = 0
    for found in by_track(entries(document, "X"), "pid", "tid").values():
        request_end = part_end = 0
        for entry in found:
            end = entry["ts"] + entry["dur"]
            if entry["name"].startswith(("request ", "c=")):
                assert entry["ts"] >= request_end
                request_end, part_end = end, entry["ts"]
                seen += entry["name"].startswith("request ")
            else:
                assert part_end <= entry["ts"] <= end <= request_end
                part_end = end
    assert seen == len(opened(path).requests())


def test_there_are_as_many_tracks_as_requests_were_in_flight(tmp_path: Path) -> None:
    document = trace(OVERLOAD, tmp_path)
    names = [entry["args"]["name"] for entry in entries(document, "M") if entry["name"] == "thread_name"]
    assert [name for name in names if name.startswith("track")] == [f"track {track}" for track in range(1, 65)]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=60))
def test_a_track_is_taken_again_only_once_it_is_free(spans: list[tuple[float, float]]) -> None:
    tracks = TrackAllocator()
    open_until: dict[int, float] = {}
    taken: set[int] = set()
    for begin_s, length_s in sorted(spans):
        for track in [track for track, end_s in open_until.items() if end_s <= begin_s]:
            tracks.free(track, open_until.pop(track))
        track = tracks.take(begin_s)
        assert track not in open_until
        assert all(other in open_until for other in range(track))  # it is the lowest
        open_until[track] = begin_s + length_s
        taken.add(track)
    assert tracks.count == len(taken)


def test_a_track_freed_late_is_not_taken_for_what_began_before() -> None:
    tracks = TrackAllocator()
    tracks.free(tracks.take(0.0), 5.0)
    assert tracks.take(4.0) == 1
    assert tracks.take(5.0) == 0


# --- what it says -------------------------------------------------------------------------------------------------


def test_a_request_timed_by_its_server_has_queue_prefill_and_decode(tmp_path: Path) -> None:
    document = trace(written(loaded(), tmp_path / "a.jsonl"), tmp_path)
    assert parts(document, "request 0") == [
        ("frontend", 1000, 1100),
        ("queue", 1100, 1300),
        ("prefill", 1300, 1600),  # vLLM's time_to_first_token_ms
        ("decode", 1600, 2600),
    ]


def test_one_that_was_not_has_its_first_token_and_its_wait_in_the_client(tmp_path: Path) -> None:
    document = trace(written(loaded(), tmp_path / "a.jsonl"), tmp_path)
    assert parts(document, "request 1") == [
        ("wait in client", 1100, 1250),
        ("first token", 1250, 2000),
        ("decode", 2000, 4000),
    ]


def test_a_failed_request_says_so_and_one_without_an_end_lasts_to_the_end(tmp_path: Path) -> None:
    document = trace(written(loaded(), tmp_path / "a.jsonl"), tmp_path)
    slices = {one["name"]: one for one in entries(document, "X")}
    assert slices["request 2: refused"]["args"]["detail"] == "no, thanks"
    assert parts(document, "request 2") == [("no token", 1300, 1700)]
    unended = slices["request 3"]
    assert unended["args"]["unended"] is True
    assert unended["ts"] + unended["dur"] == 9_601_000


def test_server_timings_longer_than_what_the_client_saw_stay_within_it(tmp_path: Path) -> None:
    log = loaded()
    for number, event in enumerate(log.events):
        if getattr(event, "timings", None):
            said = {"queue_time_ms": 60_000.0, "time_to_first_token_ms": 500.0}
            log.events[number] = msgspec.structs.replace(event, timings=said)  # type: ignore[type-var]
    document = trace(written(log, tmp_path / "a.jsonl"), tmp_path)
    assert parts(document, "request 0") == [
        ("queue", 1000, 1100),
        ("prefill", 1100, 1600),
        ("decode", 1600, 2600),
    ]


def test_counters_are_the_session_s(tmp_path: Path) -> None:
    document, run = trace(OVERLOAD, tmp_path), opened(OVERLOAD)
    counters = by_track(entries(document, "C"), "name")
    preempted = counters["preemptions",]
    assert preempted[-1]["args"]["total"] - preempted[0]["args"]["total"] == 37
    for row in run.samples()[::25]:
        at_s, used = row["at_s"], row["kv_used_ratio"]
        assert isinstance(at_s, float)
        assert isinstance(used, float)
        at_us = round(at_s * 1e6)
        held = [entry for entry in counters["KV used",] if entry["ts"] <= at_us][-1]
        assert held["args"]["%"] == pytest.approx(100 * used, abs=1e-5)
    assert {"running", "waiting", "GPU 0 power", "GPU 0 SM clock"} <= {name for (name,) in counters}


def test_what_happened_is_an_instant(tmp_path: Path) -> None:
    document = trace(OVERLOAD, tmp_path)
    kinds = [entry["cat"] for entry in entries(document, "i")]
    assert kinds.count("preemption") == len([one for one in opened(OVERLOAD).events() if one["kind"] == "preemption"])
    assert {"start", "phase", "end"} <= set(kinds)


def test_servers_have_tracks_of_their_own(tmp_path: Path) -> None:
    document = trace(written(watched(3, servers=2), tmp_path / "a.jsonl"), tmp_path)
    names = [entry["args"]["name"] for entry in entries(document, "M") if entry["name"] == "process_name"]
    assert names == ["session", "http://host0:8000", "http://host1:8000", "GPUs"]


def test_what_a_cut_knows_of_before_begins_at_0(tmp_path: Path) -> None:
    start, events = read(SWEEP)
    path = tmp_path / "cut.jsonl"
    lines = list(cut(start, events, 300.0, 320.0, "cut"))
    assert isinstance(lines[0], Start)
    path.write_bytes(b"\n".join(map(encode, lines)) + b"\n")
    document = trace(path, tmp_path)
    begun_before = [one for one in entries(document, "X") if "sent_s" in one.get("args", {})]
    assert len(begun_before) == 8
    assert {one["ts"] for one in begun_before} == {0}
    assert all(one["args"]["sent_s"] < 0 for one in begun_before)
