"""Turns raw /metrics pages, one JSON line each, into a recording, by the same path as a live scrape.

usage: python -m tests.convert SCRAPES.jsonl[.gz] RECORDING.jsonl[.gz] [--origin TEXT] [--version 0.26.0]
                               [--max-model-len 8192] [--config config.json] [--gpu-name NAME]

A line has `t` and `t2` (unix seconds before and after the scrape), `text` (the page) and, if there was a GPU, `gpu`:
power_mw, limit_mw, temp, sm, mem, util, used, total, reasons (clock event reason bits), energy_mj.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from vtop import __version__
from vtop.metrics.page import Folder
from vtop.recording import Gpu, GpuReading, Identity, LiveRecording, Start, Target
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names
from vtop.sources.nvml import throttle_words
from vtop.sources.shape import shape_of


def convert(
    pages: list[dict[str, Any]],
    path: Path | None,
    *,
    origin: str | None = None,
    version: str | None = None,
    max_model_len: int | None = None,
    config: Path | None = None,
    gpu_name: str | None = None,
) -> LiveRecording:
    """The recording that vtop would have made, had it seen these pages; closed at the end when it has a path."""
    began = pages[0]["t"]
    now = 0.0
    start = Start(
        format=FORMAT,
        vtop=__version__,
        unix_s=began,
        servers=(Target(url="http://localhost:8000"),),
        interval_s=1.0,
        origin=origin,
    )
    recording = LiveRecording(start, lambda: now, path)
    folder = Folder(series_names)
    for number, page in enumerate(pages):
        at_s, now = round(page["t"] - began, 6), page["t2"] - began
        text = page["text"]
        if number == 0 and version is not None:
            shape = shape_of(config) if config is not None else None
            recording.append(Identity(server=0, version=version, max_model_len=max_model_len, shape=shape))
        if page.get("gpu"):
            recording.append(Gpu(at_s=at_s, took_s=0.0, gpus=(_reading(page["gpu"], gpu_name),)))
        took_s = round(page["t2"] - page["t"], 6)
        recording.append(folder.scrape(text, server=0, at_s=at_s, took_s=took_s, bytes=len(text.encode()), health=None))
    return recording


def read_pages(path: Path) -> list[dict[str, Any]]:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as lines:
        return [json.loads(line) for line in lines]


def _reading(gpu: dict[str, Any], name: str | None) -> GpuReading:
    return GpuReading(
        index=0,
        uuid="GPU-0",
        name=name,
        util_ratio=gpu["util"] / 100,
        mem_used_bytes=gpu["used"],
        mem_total_bytes=gpu["total"],
        power_w=gpu["power_mw"] / 1000,
        power_limit_w=gpu["limit_mw"] / 1000,
        energy_j=gpu["energy_mj"] / 1000,
        temp_c=gpu["temp"],
        sm_mhz=gpu["sm"],
        mem_mhz=gpu["mem"],
        throttle=throttle_words(gpu["reasons"]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scrapes", type=Path)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--origin")
    parser.add_argument("--version")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--gpu-name")
    asked = parser.parse_args()
    recording = convert(
        read_pages(asked.scrapes),
        asked.recording,
        origin=asked.origin,
        version=asked.version,
        max_model_len=asked.max_model_len,
        config=asked.config,
        gpu_name=asked.gpu_name,
    )
    recording.close("converted")


if __name__ == "__main__":
    main()
