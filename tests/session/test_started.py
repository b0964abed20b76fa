"""What a server was started with: as it was known at each instant, with vLLM's defaults where its rule is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.session.made import Log, Server, device, fold, recorded
from vtop.cli.simulate import simulate
from vtop.recording import Gpu, GpuReading, Identity, decode, encode
from vtop.recording.cut import cut
from vtop.server_kinds.vllm.defaults import SIMULATED_LIMITS
from vtop.session.frame.frame import Frame
from vtop.session.frame.servers import StartedWith
from vtop.session.history.server_config import changed, started_with

GIB = 2**30
H200 = GpuReading(index=0, uuid="GPU-0", name="NVIDIA H200", mem_total_bytes=140 * GIB, serving=True)


def identity(version: str = "0.26.0", command: str = "vllm serve", length: int | None = 8192, **flags: Any) -> Identity:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return Identity(server=0, version=version, max_model_len=length, command=command, flags=named)


def known(frame: Frame) -> StartedWith:
    (server,) = frame.servers
    assert server.started is not None
    return server.started


def limits(who: Identity, memory_gib: int | None = 140, device: str = "NVIDIA H200") -> tuple[int | None, int | None]:
    found = started_with(who, device, memory_gib * GIB if memory_gib is not None else None)
    assert found is not None
    return found.max_num_seqs, found.max_num_batched_tokens


# --- what is on record ------------------------------------------------------------------------------------------------


def test_flags_on_record_are_in_the_frame_from_the_instant_they_were_told() -> None:
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(identity(max_num_seqs=7, max_num_batched_tokens=512), 0.1)
    log.scrape(1.0, server)
    assert log.frame(0.05).servers[0].started is None
    found = known(log.frame())
    assert (found.max_num_seqs, found.max_num_batched_tokens, found.defaults) == (7, 512, ())
    assert found.words == "vllm serve --max-num-seqs 7 --max-num-batched-tokens 512"


def test_a_recording_without_flags_says_that_they_are_not_known() -> None:
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(Identity(server=0, version="0.26.0"), 0.1)
    assert log.frame().servers[0].started is None
    line = b'{"type":"identity","t":0.1,"server":0,"version":"0.26.0"}'
    assert decode(line) == log.events[-1]
    assert b"flags" not in encode(log.events[-1])


def test_a_restart_with_other_flags_is_an_event_and_the_max_num_seqs_before_it_stay_what_they_were() -> None:
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(identity(max_num_seqs=128, enable_prefix_caching=False), 0.1)
    log.scrape(1.0, server)
    server.restart()
    log.outage(2.0)
    log.scrape(3.0, server)
    log.add(identity(max_num_seqs=10, enforce_eager=True), 3.1)
    log.scrape(4.0, server)
    session = log.session()
    assert known(session.frame(1.5)).max_num_seqs == 128
    assert known(session.frame(4.5)).max_num_seqs == 10
    said = [one.text for one in session.event_log(session.end_s) if one.kind == "flags"]
    assert said == ["--max-num-seqs 128 → 10", "new --enforce-eager", "without --no-enable-prefix-caching"]


def test_every_flag_that_changed_is_an_event_of_its_own_that_fits_on_a_line() -> None:
    said = [one.text for one in recorded("killed").event_log(1e9) if one.kind == "flags"]
    assert said == ["--max-num-seqs 128 → 48", "new --max-num-batched-tokens 2048"]


def test_a_switch_that_changed_says_on_and_off() -> None:
    before, now = identity(enable_prefix_caching=True), identity(enable_prefix_caching=False)
    assert changed(before, now) == ("--enable-prefix-caching on → off",)
    assert changed(now, identity(command="python -m vllm", enable_prefix_caching=False)) == (
        "vllm serve → python -m vllm",
    )
    assert changed(Identity(server=0), now) == ()


def test_the_same_flags_after_an_outage_are_no_event() -> None:
    log, server = Log(), Server()
    for at_s in (0.0, 5.0):
        log.scrape(at_s, server)
        log.add(identity(max_num_seqs=128), at_s + 0.1)
        log.outage(at_s + 2.0)
    assert not [one for one in log.session().event_log(100.0) if one.kind == "flags"]


def test_seek_equals_fold_with_flags_that_change() -> None:
    log, server = Log(), Server()
    for second in range(12):
        server.engine.running, server.engine.waiting, server.engine.kv = 7, 3, 0.2
        server.engine.count(generation_tokens=10)
        log.scrape(float(second), server)
        if second in (0, 4, 8):
            log.add(identity(max_num_seqs=7 + second), second + 0.1)
    whole = log.session()
    for tenth in range(0, 120, 5):
        then = fold(log.start, log.events, until=tenth / 10).frame(tenth / 10)
        assert msgspec.json.encode(whole.frame(tenth / 10)) == msgspec.json.encode(then), tenth


def test_a_cut_keeps_the_flags_that_were_told_before_it() -> None:
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(identity(max_num_seqs=7), 0.1)
    for second in range(1, 8):
        log.scrape(float(second), server)
    lines = [decode(encode(event)) for event in cut(log.start, log.events, 4.0, 7.5, "cut")]
    assert known(fold(log.start, lines[1:]).frame(3.0)).max_num_seqs == 7


# --- vLLM's defaults --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "memory_gib", "name", "found"),
    [
        (identity(), 140, "NVIDIA H200", (1024, 8192)),
        (identity(version="0.32.0"), 80, "NVIDIA H100 80GB HBM3", (1024, 8192)),
        (identity(), 80, "NVIDIA A100-SXM4-80GB", (256, 2048)),
        (identity(), 24, "NVIDIA GeForce RTX 4090", (256, 2048)),
        (identity(), 180, "NVIDIA B200", (1024, 8192)),
        (identity(version="0.32.0"), 180, "NVIDIA B200", (1024, 16384)),
        (identity(version="0.29.0"), 180, "NVIDIA B200", (None, None)),
        (identity(max_num_seqs=10), 140, "NVIDIA H200", (10, 8192)),
        (identity(max_num_seqs=10, length=512), 140, "NVIDIA H200", (10, 5120)),
        (identity(max_num_batched_tokens=512), 140, "NVIDIA H200", (512, 512)),
        (identity(enable_chunked_prefill=False, length=32768), 140, "NVIDIA H200", (1024, 32768)),
        (identity(performance_mode="throughput"), 140, "NVIDIA H200", (2048, 16384)),
    ],
)
def test_a_flag_that_the_command_lacks_has_vllms_default(
    who: Identity, memory_gib: int, name: str, found: tuple[int | None, int | None]
) -> None:
    assert limits(who, memory_gib, name) == found


@pytest.mark.parametrize(
    "who",
    [identity(version="0.25.1"), identity(version="0.33.0"), identity(version="dev"), identity(config=True)],
    ids=["older", "newer", "not known", "a file of more flags"],
)
def test_where_the_rule_is_not_known_neither_is_the_default(who: Identity) -> None:
    assert limits(who) == (None, None)


def test_without_a_device_of_the_server_there_is_no_default() -> None:
    assert limits(identity(), None) == (None, None)
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(identity(), 0.1)
    log.gpu(0.2, msgspec.structs.replace(H200, serving=None))
    assert known(log.frame()).max_num_seqs is None
    log.add(Gpu(at_s=0.3, took_s=0.0, gpus=(H200, device(1))), 0.3)
    found = known(log.frame())
    assert (found.max_num_seqs, found.max_num_batched_tokens) == (1024, 8192)
    assert found.defaults == ("max-num-seqs", "max-num-batched-tokens")


def test_a_process_once_seen_on_a_device_stays_on_it_for_as_long_as_it_lives() -> None:
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(identity(), 0.1)
    log.gpu(0.2, H200)
    log.gpu(1.0, msgspec.structs.replace(H200, serving=None))
    log.scrape(1.0, server)
    assert known(log.frame()).max_num_batched_tokens == 8192
    log.outage(2.0)
    assert known(log.frame()).max_num_batched_tokens == 8192
    server.restart()
    log.scrape(3.0, server)
    log.add(identity(), 3.1)
    assert known(log.frame()).max_num_batched_tokens is None  # another process: nobody has seen it on a GPU
    log.gpu(4.0, H200)
    assert known(log.frame()).max_num_batched_tokens == 8192


def test_the_budget_of_a_server_that_was_killed_stays_known_through_the_outage() -> None:
    session = recorded("killed")
    for at_s in (1.0, 63.0, 97.0, 100.0, 180.0):
        assert known(session.frame(at_s)).max_num_batched_tokens == 8192, at_s
    assert known(session.frame(193.0)).max_num_batched_tokens == 2048


def test_the_simulated_servers_defaults_are_its_options() -> None:
    options = {option.name: option.default for option in simulate.params}
    assert (options["max_num_seqs"], options["max_num_batched_tokens"]) == SIMULATED_LIMITS
    assert limits(identity(command="vtop simulate"), None) == SIMULATED_LIMITS


# --- what the verdict makes of the seats ------------------------------------------------------------------------------


def queued(seats: int | None, running: float, *, engines: tuple[str, ...] = ("0",)) -> Frame:
    log, server = Log(), Server(engines)
    server.pool_tokens = 10_000
    for second in range(20):
        for engine in server.engines.values():
            engine.running, engine.waiting, engine.kv = running, 5, 0.2
            engine.count(generation_tokens=10, prompt_tokens=10)
            engine.observe(iteration=8)
        log.scrape(float(second), server)
        if not second and seats is not None:
            log.add(identity(max_num_seqs=seats), 0.1)
    return log.frame()


def test_max_num_seqs_on_record_that_are_all_taken_bind() -> None:
    frame = queued(4, 4)
    assert frame.verdict.limit == "max-num-seqs"
    assert frame.verdict.evidence[0] == "running stands at 4, the limit of max-num-seqs"
    assert queued(None, 4).verdict.evidence[0] == "running stands at 4"
    assert queued(4, 4, engines=("0", "1")).verdict.evidence[0] == "running stands at 8, the limit of max-num-seqs"


def test_a_plateau_below_the_max_num_seqs_on_record_is_none_of_the_max_num_seqs() -> None:
    assert queued(None, 4).verdict.limit == "max-num-seqs"
    frame = queued(64, 4)
    assert frame.pressure is not None
    assert (frame.pressure.max_num_seqs, frame.pressure.at_max_num_seqs_share) == (64, 0.0)
    assert frame.verdict.limit != "max-num-seqs"


def test_max_num_seqs_that_changed_within_the_scrapes_are_not_taken_for_all_of_them() -> None:
    log, server = Log(), Server()
    server.engine.running, server.engine.waiting = 4, 5
    for second in range(20):
        server.engine.count(generation_tokens=10)
        log.scrape(float(second), server)
        if second in (0, 10):
            log.add(identity(max_num_seqs=4 if second else 128), second + 0.1)
    pressure = log.frame().pressure
    assert pressure is not None
    assert pressure.max_num_seqs is None
