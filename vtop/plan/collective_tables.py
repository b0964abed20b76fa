"""Times of all-reduces as they are printed: nccl-tests' all_reduce_perf (text and -J), and vLLM's own benchmark.

all_reduce_perf prints a row a size with two sets of columns, out-of-place and in-place; `-I` adds four to each, `-C` a
stamp at the end, `#wrong` may be N/A, older ones say error and have no root. The set is taken by the header's names.
vLLM reduces out of place, so that set is taken. vLLM's benchmarks/kernels/benchmark_device_communicators.py prints
milliseconds a communicator and shape, to the microsecond; N/A where one does not take the size.
Source: nccl-tests src/util.cu (writeResultHeader, writeBenchmarkLineBody), at 2.18; vLLM as named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from vtop import small_file
from vtop.errors import VtopError
from vtop.plan.all_reduce import Measured

LIMIT_BYTES: Final = 64 << 20
_LONGEST_S: Final = 3600.0  # of a call
FASTEST: Final = "fastest"
_BACKENDS: Final = re.compile(r"Using (\[[^\]]*\]) all-reduce backends \(in dispatch order\) for group '([^']*)'")
_BYTES: Final = {"torch.bfloat16": 2, "torch.float16": 2, "torch.float32": 4}


def read(path: Path, ranks: int | None = None, backend: str = FASTEST) -> Measured:
    """The times in a file of any of these forms. ranks: where the file does not say how many there were.

    Raises VtopError where it is none of them.
    """
    text = text_of(path)
    if text.lstrip().startswith("{"):
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise VtopError(f"{path}: broken JSON ({error})") from error
        try:
            if "sequence_lengths" in content:
                return _vllm_json(path, content, backend)
            return _nccl_json(path, content, ranks)
        except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise VtopError(f"{path}: JSON of neither all_reduce_perf -J nor vLLM's communicator benchmark") from error
    if "Device Communicator Benchmark Results" in text or "Tensor Shape" in text:
        return _vllm_text(path, text, ranks, backend)
    return _nccl_text(path, text, ranks)


def text_of(path: Path) -> str:
    """A file's text. Raises VtopError."""
    try:
        return small_file.read_text(path, LIMIT_BYTES, errors="replace")
    except OSError as error:
        raise VtopError(f"{path}: cannot be read ({error.strerror})") from error


def backends(log: str) -> tuple[str, ...]:
    """The all-reduce backends in the order in which vLLM tries them, from its start-up line of the TP group; none where
    the log has no such line (vLLM: distributed/device_communicators/cuda_communicator.py, 0.31 and later)."""
    found = [(match[2], tuple(re.findall(r"'([^']+)'", match[1]))) for match in _BACKENDS.finditer(log)]
    of_tp = [names for group, names in found if group.startswith("tp")]
    return of_tp[0] if of_tp else found[0][1] if found else ()


# --- nccl-tests -------------------------------------------------------------------------------------------------------


def _nccl_text(path: Path, text: str, ranks: int | None) -> Measured:
    head: list[str] = []
    points: dict[int, float] = {}
    wrong, counted = 0, False
    for line in text.splitlines():
        words = line.lstrip("#").split()
        if line.lstrip().startswith("#"):
            if words[:2] == ["size", "count"]:
                head, counted = words, "#wrong" in words  # older ones print how far off a value was, not how many
            continue
        if len(words) < 6 or not words[0].isdecimal() or not words[1].isdecimal() or len(words[0]) > 18:
            continue
        if not head:
            raise VtopError(f"{path}: rows without their header; keep the whole output of all_reduce_perf")
        at = _out_of_place(path, head)
        took = _number(words, at)
        if took is None:
            continue
        wrong += counted and (_number(words, at + 3) or 0.0) > 0
        points[int(words[0])] = took / 1e6
    if not points:
        raise VtopError(f"{path}: no output of all_reduce_perf, and none of vLLM's communicator benchmark")
    if wrong:
        raise VtopError(f"{path}: {wrong} sizes came out wrong (#wrong): mend that before their times are used")
    seen = len(re.findall(r"(?m)^#\s+Rank\s+\d+", text)) or None
    graph = re.search(r"\bgraph: (\d+)", text)
    return _measured(path, points, _ranks(path, ranks, seen), int(graph[1]) if graph is not None else 0)


def _out_of_place(path: Path, head: Sequence[str]) -> int:
    """The column of the first time. The CPU's time of a launch is none."""
    if "time" in head:
        return list(head).index("time")
    raise VtopError(f"{path}: its times are the CPU's (-c 1): run all_reduce_perf without it")


def _number(words: Sequence[str], at: int) -> float | None:
    try:
        return float(words[at])
    except (ValueError, IndexError):
        return None


def _nccl_json(path: Path, content: dict[str, Any], ranks: int | None) -> Measured:
    points: dict[int, float] = {}
    config = content.get("config") or {}
    results = content.get("results")
    if not isinstance(results, list):
        raise VtopError(f"{path}: JSON of neither all_reduce_perf -J nor vLLM's communicator benchmark")
    for row in results:
        side = row.get("out_of_place") or row.get("in_place") or {}
        if "cpu_time" in side:
            raise VtopError(f"{path}: its times are the CPU's (-c 1): run all_reduce_perf without it")
        if (side.get("nwrong") or 0) > 0:
            raise VtopError(f"{path}: sizes came out wrong (nwrong): mend that before their times are used")
        if isinstance(side.get("time"), int | float) and isinstance(row.get("size"), int):
            points[row["size"]] = float(side["time"]) / 1e6
    devices = len(config.get("devices") or []) or None
    by_config = (config.get("nthreads") or 1) * (config.get("ngpus") or 1)
    seen = max(devices or 0, by_config)  # it writes one device of several where it ran without MPI
    return _measured(path, points, _ranks(path, ranks, seen), int(config.get("graph") or 0))


def _measured(path: Path, points: dict[int, float], p: int, graph: int) -> Measured:
    if (odd := next((size for size, took_s in points.items() if not 0 < took_s < _LONGEST_S), None)) is not None:
        raise VtopError(f"{path}: {odd} bytes took {points[odd]:.6g} s: no time of an all-reduce")
    made = Measured(p, tuple(sorted(one for one in points.items() if one[0] > 0)), str(path))
    notes = ["out-of-place times, as vLLM reduces"]
    if not graph:
        notes.append("measured without CUDA graphs (-G): a call holds its launch, which a captured step does not pay")
    if not made.rising():
        notes.append("a larger size took much less time than a smaller one: more iterations (-n) would tell")
    return Measured(p, made.points, made.origin, tuple(notes))


def _ranks(path: Path, told: int | None, seen: int | None) -> int:
    if told is None and seen is None:
        raise VtopError(f"{path}: it does not say how many ranks there were; write --all-reduce 4:{path}")
    if told is not None and seen is not None and told != seen:
        raise VtopError(f"{path}: it was measured with {seen} ranks, not {told}")
    return told or seen or 0


# --- vLLM's benchmark -------------------------------------------------------------------------------------------------


def _vllm_text(path: Path, text: str, ranks: int | None, backend: str) -> Measured:
    said = re.search(r"World Size: (\d+), Data Type: (\S+?),? Hidden Size: (\d+)", text)
    world = int(said[1]) if said is not None else None
    size = _BYTES.get(said[2].rstrip(",")) if said is not None else None
    names: list[str] = []
    times: dict[int, dict[str, float]] = {}
    for line in text.splitlines():
        if line.startswith("Tensor Shape"):
            names = line.split("Tensor Size", 1)[1].split("Best")[0].split()
        elif (row := re.match(r"\((\d+), (\d+)\)\s+[\d.]+ MB\s+(.*)", line)) is not None and names:
            cells = row[3].split()[: len(names)]
            known = {name: float(cell) for name, cell in zip(names, cells, strict=False) if cell != "N/A"}
            times[int(row[1]) * int(row[2]) * (size or 2)] = known
    return _of_vllm(path, times, _ranks(path, ranks, world), backend)


def _vllm_json(path: Path, content: dict[str, Any], backend: str) -> Measured:
    width = int(content["hidden_size"]) * _BYTES.get(str(content["dtype"]), 2)
    times = {int(tokens) * width: dict(row.get("timings") or {}) for tokens, row in content["results"].items()}
    return _of_vllm(path, times, int(content["world_size"]), backend)


def _of_vllm(path: Path, times: dict[int, dict[str, float]], p: int, backend: str) -> Measured:
    every = sorted({name for row in times.values() for name in row})
    if backend != FASTEST and backend not in every:
        raise VtopError(f"{path}: no times of {backend!r}; it has {', '.join(every) or 'none'}")
    points = {}
    for size, row in times.items():
        took = min(row.values(), default=None) if backend == FASTEST else row.get(backend)
        if took is not None and took > 0:
            points[size] = took / 1e3
    which = "the fastest communicator at each size" if backend == FASTEST else backend
    notes = (f"{which}, in CUDA graphs; the table is to the microsecond",)
    return Measured(p, tuple(sorted(points.items())), str(path), notes)
