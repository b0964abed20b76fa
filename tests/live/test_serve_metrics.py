"""What vtop serves, scraped by a real Prometheus, and each query of the Grafana dashboard asked of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.live.test_prometheus import command, free_port, program, running, vtop
from tests.live.vtop_record import VTOP
from vtop.shipped import folder

pytestmark = pytest.mark.live

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- {{job_name: vtop, static_configs: [{{targets: ['{host}']}}]}}
"""
LOAD_S = 25


def asked(port: int, path: str, **words: str | float) -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(words)}"
    answer = json.load(build_opener(ProxyHandler({})).open(url, timeout=10))
    assert answer["status"] == "success"
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def until(met: Callable[[], bool], what: str, within_s: float = 30.0) -> None:
    ends_s = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < ends_s, f"not in {within_s:g} s: {what}"
        time.sleep(0.2)


def queries() -> list[tuple[str, str]]:
    """(title, query) of all panels, with the dashboard's variables as Grafana fills them in for all servers."""
    filled = {"$server": ".*", "$__rate_interval": "15s", "$__range": "1m"}
    found = []
    for panel in json.loads((folder("grafana") / "vtop.json").read_text())["panels"]:
        for target in panel["targets"]:
            text = re.sub("|".join(map(re.escape, filled)), lambda word: filled[word[0]], target["expr"])
            found.append((panel["title"], text))
    return found


def test_each_panel_of_the_dashboard_has_samples_and_what_is_stale_is_absent(
    tmp_path: Path, measured: list[str]
) -> None:
    program("prometheus")
    with ExitStack() as stack:
        simulated = stack.enter_context(running([str(VTOP), "simulate", "--port", "0", "--kv-tokens", "16384"]))
        assert simulated.stderr is not None
        url = simulated.stderr.readline().decode().split()[-1]
        words = [str(VTOP), "record", "--url", url, "-o", str(tmp_path / "seen.jsonl"), "--serve-metrics=127.0.0.1:0"]
        served = stack.enter_context(running(words))
        assert served.stderr is not None
        host = served.stderr.readline().decode().split()[-1].removeprefix("http://").removesuffix("/metrics")
        config, port = tmp_path / "config.yml", free_port()
        config.write_text(CONFIG.format(host=host), encoding="utf-8")
        stack.enter_context(running(command("prometheus", config, tmp_path / "data", port)))
        until(lambda: bool(_tried(port, "vtop_up == 1")), "a sample of vtop_up")
        vtop("load", url, f"c=24 in=1024 out=256 for={LOAD_S}s")
        now_s = time.time()
        without = [
            title
            for title, query in queries()
            if not asked(port, "query_range", query=query, start=now_s - LOAD_S, end=now_s, step=1)
        ]
        assert without == []
        preempted = asked(port, "query", query="vtop_preemptions_total")
        assert float(preempted[0]["value"][1]) > 0
        parts = asked(port, "query", query="sum(vtop_ttft_part_seconds)")
        assert float(parts[0]["value"][1]) > 0
        simulated.terminate()
        until(lambda: bool(_tried(port, "vtop_up == 0")), "the server that went away")
        until(lambda: not _tried(port, "vtop_ttft_part_seconds"), "the numbers of a server that is gone are absent")
        assert asked(port, "query", query="time() - vtop_last_scrape_timestamp_seconds > 1")
        measured.append(f"vtop --serve-metrics: {len(queries())} queries of the dashboard, each with samples")


def _tried(port: int, query: str) -> list[dict[str, Any]]:
    try:
        return asked(port, "query", query=query)
    except OSError:
        return []
