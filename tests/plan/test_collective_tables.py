"""Times of all-reduces as nccl-tests and vLLM print them, old and new, and what must not be taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vtop.errors import VtopError
from vtop.plan.all_reduce import Link, Measured
from vtop.plan.collective_tables import backends, read

HEAD = """# nThread 1 nGpus 4 minBytes 16384 maxBytes 65536 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: {graph}
#
# Using devices
#  Rank  0 Group  0 Pid  11 on      node device  0 [0x16] NVIDIA H200
#  Rank  1 Group  0 Pid  11 on      node device  1 [0x27] NVIDIA H200
#  Rank  2 Group  0 Pid  11 on      node device  2 [0x38] NVIDIA H200
#  Rank  3 Group  0 Pid  11 on      node device  3 [0x5a] NVIDIA H200
#
"""
NEW = """#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
       16384          8192      half     sum      -1    10.40    2.56    4.48      0     6.27    2.61    4.57    N/A
       32768         16384      half     sum      -1    11.45    4.40    7.70    N/A     7.39    4.43    7.76      0
       65536         32768      half     sum      -1    14.03    8.17   14.29      0     8.32    7.88   13.78      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 8.9
"""
OLD = """#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
       16384          4096     float     sum    10.40    2.56    4.48  0e+00     6.27    2.61    4.57  0e+00
       65536         16384     float     sum    14.03    8.17   14.29  2e-07     8.32    7.88   13.78  2e-07
"""
PER_ITERATION = """#                          out-of-place (+ per-iteration)            in-place (+ per-iteration)
#       size         count      type   redop    root     time   algbw   busbw  #wrong   i_min   i_max   i_p99   i_cv%\
     time   algbw   busbw  #wrong    i_min    i_max    i_p99   i_cv%
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)     (%)
       16384          8192      half     sum      -1    10.40    2.56    4.48       0     9.1    15.2    14.9     3.1\
     6.27    2.61    4.57       0     5.1     9.2     8.9     3.1
       65536         32768      half     sum      -1    14.03    8.17   14.29       0    13.1    19.2    18.9     2.1\
     8.32    7.88   13.78       0     7.1    11.2    10.9     3.1
"""
VLLM = """
==================================================================================
Device Communicator Benchmark Results
World Size: 4, Data Type: torch.bfloat16, Hidden Size: 8192
==================================================================================
Tensor Shape        Tensor Size    ca_1stage           ca_2stage           pynccl              Best (Speedup vs PyNccl)
-------------------------------------------------------------------------------------------------------------------
(16, 8192)          0.25 MB        0.009               0.014               0.021               ca_1stage (2.33x)
(1024, 8192)        16.00 MB       N/A                 0.110               0.130               ca_2stage (1.18x)
==================================================================================
All times are in milliseconds (ms) per allreduce operation
"""
LOG = (
    "INFO 12-01 10:00:00 [cuda_communicator.py:354] Using ['PYNCCL'] all-reduce backends (in dispatch order) for group "
    "'world' out of potential backends: ['FLASHINFER', 'PYNCCL'].\n"
    "INFO 12-01 10:00:01 [cuda_communicator.py:354] Using ['FLASHINFER', 'CUSTOM', 'SYMM_MEM', 'PYNCCL'] all-reduce "
    "backends (in dispatch order) for group 'tp:0' out of potential backends: ['FLASHINFER', 'CUSTOM'].\n"
)


def written(folder: Path, text: str, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def near(found: Measured) -> dict[int, float]:
    """Microseconds by size."""
    return {size: took * 1e6 for size, took in found.points}


@pytest.mark.parametrize("table", [NEW, OLD, PER_ITERATION])
def test_every_form_of_all_reduce_perf_gives_its_out_of_place_times(tmp_path: Path, table: str) -> None:
    found = read(written(tmp_path, HEAD.format(graph=10) + table))
    assert found.p == 4
    points = dict(found.points)
    assert points[16384] == pytest.approx(10.40e-6)
    assert points[65536] == pytest.approx(14.03e-6)
    assert found.notes == ("out-of-place times, as vLLM reduces",)


def test_a_run_without_graphs_is_marked(tmp_path: Path) -> None:
    assert any("-G" in note for note in read(written(tmp_path, HEAD.format(graph=0) + NEW)).notes)


def test_the_number_of_ranks_is_told_or_asked_for(tmp_path: Path) -> None:
    assert read(written(tmp_path, NEW), 8).p == 8
    with pytest.raises(VtopError, match="how many ranks"):
        read(written(tmp_path, NEW))
    with pytest.raises(VtopError, match="4 ranks, not 8"):
        read(written(tmp_path, HEAD.format(graph=0) + NEW), 8)


def nccl_json(**changes: Any) -> dict[str, Any]:
    row = {
        "size": 16384,
        "count": 8192,
        "type": "half",
        "out_of_place": {"time": 10.4, "alg_bw": 2.5, "bus_bw": 4.5, "nwrong": 0.0},
        "in_place": {"time": 6.27, "alg_bw": 2.5, "bus_bw": 4.5, "nwrong": 0.0},
    }
    return {
        "version": 2,
        "config": {"nthreads": 1, "ngpus": 4, "graph": 10, "devices": [{"rank": 0}]},
        "results": [row | changes],
    }


def test_its_json_gives_the_same(tmp_path: Path) -> None:
    found = read(written(tmp_path, json.dumps(nccl_json()), "a.json"))
    assert found.p == 4
    assert near(found) == {16384: pytest.approx(10.4)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no output"),
        ("hello\n", "no output"),
        ("16384 8192 half sum -1 10.4 2 4 0 6 2 4 0\n", "without their header"),
        (NEW.replace("4.48      0", "4.48      3"), "came out wrong"),
        (NEW.replace("     time", "  cputime"), "CPU's"),
        (json.dumps({"results": None}), "neither"),
        ("{", "broken JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "broken JSON"),
        (NEW.replace("10.40", "-10.4"), "16384 bytes took -1.04e-05 s: no time of an all-reduce"),
        (NEW.replace("10.40", "inf"), "took inf s"),
        (NEW.replace("10.40", "nan"), "took nan s"),
        (f"{'7' * 5000} 8192 half sum -1 10.4 2 4 0 6 2 4 0\n", "no output"),
        ("²³ 8192 half sum -1 10.4 2 4 0 6 2 4 0\n", "no output"),
        (json.dumps(nccl_json(out_of_place={"time": 0.0})), "no time of an all-reduce"),
        (json.dumps(nccl_json(out_of_place={"time": 10**400})), "neither"),
        (json.dumps(nccl_json(size="x")), "no size was measured"),
        ('{"results": [3]}', "neither"),
        ('{"results": [], "config": 3}', "neither"),
        ('{"sequence_lengths": [], "results": {"a": 1}}', "neither"),
        (json.dumps(nccl_json(out_of_place={"cpu_time": 3.0})), "CPU's"),
        (json.dumps(nccl_json(out_of_place={"time": 3.0, "nwrong": 5.0})), "came out wrong"),
        (json.dumps(nccl_json(out_of_place={}, in_place={})), "no size was measured"),
    ],
)
def test_what_gives_no_times_is_one_line_that_says_why(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(VtopError, match=says):
        read(written(tmp_path, text), 4)


def test_vllm_s_own_table_is_read_by_its_fastest_or_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, VLLM)
    assert near(read(path)) == {16 * 8192 * 2: pytest.approx(9), 1024 * 8192 * 2: pytest.approx(110)}
    pynccl = read(path, backend="pynccl")
    assert near(pynccl) == {16 * 8192 * 2: pytest.approx(21), 1024 * 8192 * 2: pytest.approx(130)}
    assert len(read(path, backend="ca_1stage").points) == 1
    with pytest.raises(VtopError, match="it has ca_1stage, ca_2stage, pynccl"):
        read(path, backend="magic")


def test_vllm_s_json_is_its_table(tmp_path: Path) -> None:
    content = {
        "world_size": 4,
        "dtype": "torch.bfloat16",
        "hidden_size": 8192,
        "sequence_lengths": [16, 1024],
        "results": {
            "16": {"timings": {"ca_1stage": 0.009, "pynccl": 0.021}, "speedup_info": ""},
            "1024": {"timings": {"ca_2stage": 0.11, "pynccl": 0.13}, "speedup_info": ""},
        },
    }
    assert read(written(tmp_path, json.dumps(content), "v.json")).points == read(written(tmp_path, VLLM)).points


def test_the_log_names_the_backends_of_the_tp_group_in_order() -> None:
    assert backends(LOG) == ("FLASHINFER", "CUSTOM", "SYMM_MEM", "PYNCCL")
    assert backends("INFO nothing of that\n") == ()


def test_between_sizes_time_is_a_line_and_below_the_smallest_it_is_that() -> None:
    found = Measured(4, ((1000, 10e-6), (3000, 20e-6)), "m")
    assert found.seconds(10, 4) == 10e-6
    assert found.seconds(2000, 4) == pytest.approx(15e-6)
    assert found.seconds(5000, 4) == pytest.approx(30e-6)
    assert found.beyond(5000)
    assert not found.beyond(3000)
    with pytest.raises(VtopError, match="measured with 4 ranks"):
        found.seconds(10, 8)


def test_the_fitted_line_is_the_one_that_made_the_times() -> None:
    link = Link(8e-6, 150e9)
    sizes = [1 << at for at in range(14, 24)]
    fitted = Measured(4, tuple((size, link.seconds(size, 4)) for size in sizes), "m").fitted()
    assert fitted.alpha_s == pytest.approx(8e-6)
    assert fitted.bus_bytes_s == pytest.approx(150e9)
    assert fitted.worst_ratio < 1e-9


def test_a_change_of_protocol_shows_as_what_the_line_is_off_by() -> None:
    times = tuple((1 << at, (8e-6 if at < 18 else 30e-6) + (1 << at) / 100e9) for at in range(14, 24))
    assert Measured(4, times, "m").fitted().worst_ratio > 0.3


def test_times_that_fall_are_noise_and_are_said(tmp_path: Path) -> None:
    noisy = NEW.replace("14.03", " 5.03")
    assert any("more iterations" in note for note in read(written(tmp_path, HEAD.format(graph=10) + noisy)).notes)
