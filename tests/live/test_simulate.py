"""The simulated server beside a real vLLM: vLLM's own benchmark completes against it, and its page is like a real one.

VTOP_VLLM names vLLM's virtual environment; without it these tests are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.engine.test_server_page import heads, labels, values
from tests.live.vllm_server import Page, VllmServer
from tests.live.vtop_record import VTOP, environment

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif("VTOP_VLLM" not in os.environ, reason="no vLLM: VTOP_VLLM names no virtual environment with it"),
]

QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "NO_PROXY": "127.0.0.1",
}
# as serve_vllm.sh starts the real one
LIKE_THE_REAL_ONE = ("--kv-tokens", "4096", "--block-size", "32", "--max-model-len", "1024", "--max-num-seqs", "16")
N, OUT = 32, 64


@contextmanager
def simulating(*words: str) -> Iterator[str]:
    """`vtop simulate` on a free port; its URL."""
    with subprocess.Popen(
        [VTOP, "simulate", "--port", "0", *words], stderr=subprocess.PIPE, env=environment()
    ) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().decode().split()[-1]
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("backend", "endpoint"), [("vllm", "/v1/completions"), ("openai-chat", "/v1/chat/completions")]
)
def test_vllm_bench_serve_completes(backend: str, endpoint: str, measured: list[str]) -> None:
    venv = Path(os.environ["VTOP_VLLM"])
    with simulating(*LIKE_THE_REAL_ONE, "--served-model-name", "tiny") as url:
        command: list[str | Path] = [
            venv / "bin" / "vllm", "bench", "serve", "--backend", backend, "--endpoint", endpoint, "--base-url", url,
            "--model", "tiny", "--tokenizer", venv / "tiny-model", "--dataset-name", "random",
            "--random-input-len", "100", "--random-output-len", str(OUT), "--num-prompts", str(N),
            "--max-concurrency", "8", "--ignore-eos", "--disable-tqdm",
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, env=environment() | QUIET, timeout=240, check=False,
            text=True,
        )  # fmt: skip
        page = Page(httpx.get(f"{url}/metrics", trust_env=False).text)
    assert done.returncode == 0, done.stderr[-3000:]
    said = {
        name.strip(): float(value) for name, value in re.findall(r"^([A-Z][^:]+):\s+([\d.]+)\s*$", done.stdout, re.M)
    }
    assert (said["Successful requests"], said["Failed requests"]) == (N, 0)
    assert said["Total generated tokens"] == N * OUT
    assert page.by("vllm:request_success_total", "finished_reason")["length"] >= N
    assert page["vllm:generation_tokens_total"] >= N * OUT
    measured.append(f"vllm bench serve --backend {backend} on vtop simulate: mean TTFT {said['Mean TTFT (ms)']} ms")


def test_its_page_has_the_shape_of_a_real_server_s(server: VllmServer) -> None:
    asked = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 3}
    pages = []
    with httpx.Client(trust_env=False) as client, simulating(*LIKE_THE_REAL_ONE, "--served-model-name", "tiny") as url:
        for one, headers in ((server.url, server.headers), (url, {})):
            assert client.post(f"{one}/v1/completions", json=asked, headers=headers, timeout=30).status_code == 200
            pages.append(client.get(f"{one}/metrics").text)
    real, simulated = pages
    assert list(heads(simulated).items()) == list(heads(real).items())
    vllm = {name: each for name, each in labels(real).items() if name.startswith("vllm:")}
    assert {name: each for name, each in labels(simulated).items() if name.startswith("vllm:")} == vllm
    theirs, mine = values(real, "le"), values(simulated, "le")
    assert {name: mine.get(name) for name in theirs if name.startswith("vllm:")} == {
        name: each for name, each in theirs.items() if name.startswith("vllm:")
    }
