"""A real Prometheus, and what speaks like one, beside vtop's own scrapes of the same simulated server under load."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.live.vtop_record import VTOP, environment
from vtop.errors import VtopError
from vtop.metrics.quantity import Quantity
from vtop.recording import FileRecording, Scrape, events_of
from vtop.session.history.server import ServerHistory
from vtop.session.session import read

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- {{job_name: vllm, static_configs: [{{targets: ['{host}']}}]}}
- {{job_name: again, scrape_interval: 2s, static_configs: [{{targets: ['{host}']}}]}}
"""
LOAD_S, AROUND_S = 10, 3
COUNTERS = (Quantity.GENERATION_TOKENS, Quantity.PROMPT_TOKENS)


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on PATH: apt-get install {name}")
    return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def command(name: str, config: Path, data: Path, port: int) -> list[str]:
    if name == "prometheus":
        return [
            program(name), f"--config.file={config}", f"--storage.tsdb.path={data}", "--log.level=error",
            f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
    return [
        program(name), f"-promscrape.config={config}", f"-storageDataPath={data}", "-loggerLevel=ERROR",
        f"-httpListenAddr=127.0.0.1:{port}",
    ]  # fmt: skip


@contextmanager
def running(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environment()) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def ups(port: int) -> list[list[str]]:
    """The values of `up` that are stored, of each job."""
    try:
        asked = build_opener(ProxyHandler({})).open(
            f"http://127.0.0.1:{port}/api/v1/query?query=up%5B10s%5D", timeout=2
        )
        return [[value for _, value in row["values"]] for row in json.load(asked)["data"]["result"]]
    except OSError:
        return []


def until_ready(port: int) -> None:
    ends_s = time.monotonic() + 30
    while True:
        with suppress(OSError):
            build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/-/ready", timeout=2)
            return
        assert time.monotonic() < ends_s, "it is not ready after 30 s"
        time.sleep(0.2)


def until_scraped(port: int) -> None:
    ends_s = time.monotonic() + 30
    while [values[-3:] for values in ups(port)] != [["1"] * 3] * 2:  # of fewer the interval cannot be told
        assert time.monotonic() < ends_s, "it scraped nothing in 30 s"
        time.sleep(0.2)


def until_recorded(path: Path) -> None:
    ends_s = time.monotonic() + 30
    while True:
        with suppress(VtopError), closing(FileRecording(path)) as recording:
            if sum(isinstance(event, Scrape) for event in recording.take()) >= 2:
                return
        assert time.monotonic() < ends_s, f"{path.name} has no two scrapes in 30 s"
        time.sleep(0.2)


def vtop(*words: str | Path) -> None:
    done = subprocess.run([VTOP, *words], env=environment(), capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


def history(path: Path) -> ServerHistory:
    with closing(FileRecording(path)) as recording:
        (server,) = read(recording).servers
    return server


@pytest.mark.parametrize("name", ["prometheus", "victoria-metrics"])
def test_what_it_stored_is_what_vtop_scraped_itself(name: str, tmp_path: Path, measured: list[str]) -> None:
    program(name)
    with ExitStack() as stack:
        simulated = stack.enter_context(running([str(VTOP), "simulate", "--port", "0", "--kv-tokens", "16384"]))
        assert simulated.stderr is not None
        url = simulated.stderr.readline().decode().split()[-1]
        config, port = tmp_path / "config.yml", free_port()
        config.write_text(CONFIG.format(host=url.removeprefix("http://")), encoding="utf-8")
        stack.enter_context(running(command(name, config, tmp_path / "data", port)))
        until_scraped(port)
        own, stored, followed = (tmp_path / f"{word}.jsonl.gz" for word in ("own", "stored", "followed"))
        prometheus = f"http://127.0.0.1:{port}"
        # of two jobs one: while nothing has moved yet, nothing shows that they scrape the same server
        one_job = ["--prometheus", prometheus, "--match", 'job="vllm"']
        recorders = [
            stack.enter_context(running([str(VTOP), "record", *words, "-o", str(path)]))
            for words, path in ((["--url", url, "--no-gpu"], own), (one_job, followed))
        ]
        for path in (own, followed):
            until_recorded(path)
        began_s = time.monotonic()
        vtop("load", url, f"c=8 in=256 out=64 for={LOAD_S}s")
        time.sleep(AROUND_S)  # the scrapes after its end
        for recorder in recorders:
            recorder.send_signal(signal.SIGTERM)
        assert [recorder.wait(60) for recorder in recorders] == [0, 0]
        since = f"-{time.monotonic() - began_s + AROUND_S:.0f}s"
        vtop("record", "--prometheus", prometheus, "--from", since, "-o", stored)
    mine, its, live = history(own), history(stored), history(followed)
    assert its.interval_s == live.interval_s == 1.0
    for quantity in COUNTERS:  # idle before and after the load: both ends are the same
        expected = mine.grown(quantity, 0, len(mine.t) - 1)
        assert expected is not None
        assert expected > 0
        assert its.grown(quantity, 0, len(its.t) - 1) == expected
        assert live.grown(quantity, 0, len(live.t) - 1) == expected
    assert mine.sums(Quantity.TTFT, 0, len(mine.t) - 1) == pytest.approx(its.sums(Quantity.TTFT, 0, len(its.t) - 1))
    assert len(its.t) >= LOAD_S
    vtop("report", stored, "-o", tmp_path / "report.md")
    measured.append(f"{name}: {len(its.t)} scrapes stored, counters as vtop's own")


def test_hours_that_promtool_made_blocks_of_are_read_and_reported(tmp_path: Path, measured: list[str]) -> None:
    program("prometheus")
    text, config, data, port = tmp_path / "history.om", tmp_path / "config.yml", tmp_path / "data", free_port()
    made: list[str | Path] = [
        sys.executable,
        ROOT / "bench" / "prometheus_history.py",
        ROOT / "recordings" / "overload.jsonl.gz",
        text,
    ]
    subprocess.run([*made, "--servers", "3", "--hours", "1"], check=True, stdout=subprocess.DEVNULL, timeout=60)
    blocks: list[str | Path] = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", text, data]
    subprocess.run(blocks, check=True, stdout=subprocess.DEVNULL, timeout=60)
    config.write_text("global: {}", encoding="utf-8")
    night, report = tmp_path / "night.jsonl.zst", tmp_path / "report.json"
    with running(command("prometheus", config, data, port)):
        until_ready(port)
        began_s = time.monotonic()
        vtop("record", "--prometheus", f"127.0.0.1:{port}", "--core", "--from", "-65m", "-o", night)
        took_s = time.monotonic() - began_s
    vtop("report", night, "-o", report, "--no-prices")
    (recording,) = json.loads(report.read_text())["recordings"]
    assert len(recording["servers"]) == 3
    with closing(FileRecording(night)) as read_again:
        assert sum(isinstance(event, Scrape) for event in events_of(read_again)) == 3 * 240
    measured.append(f"prometheus: an hour of 3 servers that promtool made, core, in {took_s:.1f} s")
