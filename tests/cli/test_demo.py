"""`vtop demo` and `vtop simulate` as a person runs them: what is shown, what is refused, and that nothing is left."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.cli.vtop import refused, runner, vtop
from tests.ui.pty import LONGEST_S, VTOP, Terminal, environment
from vtop.cli import main
from vtop.recording import FileRecording, Identity, Request, Scrape

SIZE = (120, 36)


# --- the demo ---------------------------------------------------------------------------------------------------------


def test_without_a_terminal_the_demo_prints_an_instant() -> None:
    result = runner().invoke(main, ["demo"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(" simulated/h200-qwen2.5-7b · vLLM 0.32.0+vtop.simulated")
    assert "KV 32,768 tok" in result.stdout
    assert "KV POOL BINDS" in result.stdout
    assert "■ end 1:00" in result.stdout


def test_without_a_terminal_there_is_nothing_to_record(tmp_path: Path) -> None:
    assert "--record goes with the screen" in refused(vtop("demo", "--record", "a.jsonl", folder=tmp_path))
    assert not list(tmp_path.iterdir())


def family(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, task.read_text(encoding="ascii").split())
    return found[1:]


def gone(pids: list[int]) -> bool:
    """Wait for the end of processes that are not ours to wait for."""
    for pid in pids:
        try:
            watch = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([watch], [], [], LONGEST_S)[0]:
                return False
        finally:
            os.close(watch)
    return True


def quit_(terminal: Terminal) -> int:
    terminal.press(b"q")
    return terminal.exit_code()


def hang_up(terminal: Terminal) -> int:
    terminal.hang_up()
    return terminal.process.wait(LONGEST_S)


def kill(terminal: Terminal) -> int:
    terminal.process.kill()
    return terminal.process.wait(LONGEST_S)


@pytest.mark.parametrize(("end", "code"), [(quit_, 0), (hang_up, 0), (kill, -signal.SIGKILL)])
def test_nothing_of_the_demo_outlives_it(end: Callable[[Terminal], int], code: int, tmp_path: Path) -> None:
    with Terminal((*VTOP, "demo", "--record", "demo.jsonl"), size=SIZE, folder=tmp_path) as terminal:
        terminal.until(b"in flight")  # the load's panel: all of it runs
        assert b"simulated" in terminal.written
        started = family(terminal.process.pid)
        assert len(started) == 2  # a server, a load
        assert end(terminal) == code
        assert gone(started)
    recording = FileRecording(tmp_path / "demo.jsonl")
    events = recording.take()
    recording.close()
    assert recording.start.origin == "simulated"
    who = next(event for event in events if isinstance(event, Identity))
    assert who.version is not None
    assert "simulated" in who.version
    assert {Scrape, Request} <= {type(event) for event in events}


# --- the server -------------------------------------------------------------------------------------------------------


@contextmanager
def simulating(*words: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`vtop simulate` on a free port: its URL, and the process."""
    command = [*VTOP, "simulate", "--port", "0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline().decode()
            assert line.startswith("simulated vLLM (")
            yield line.split()[-1], process
        finally:
            process.kill()


def test_a_simulated_server_listens_on_the_loopback_and_ends_with_a_signal() -> None:
    with simulating("--kv-tokens", "4096", "--max-model-len", "1024") as (url, process), httpx.Client() as client:
        assert url.startswith("http://127.0.0.1:")
        assert client.get(f"{url}/version").json() == {"version": "0.32.0+vtop.simulated"}
        assert client.get(f"{url}/health").status_code == 200
        asked = {"prompt": "hello", "max_tokens": 3, "ignore_eos": True}
        answer = client.post(f"{url}/v1/completions", json=asked).json()
        assert answer["usage"]["completion_tokens"] == 3
        scrape = client.get(f"{url}/metrics").text
        assert 'num_gpu_blocks="256"' in scrape
        assert "vllm:generation_tokens_total" in scrape
        with client.stream(
            "POST", f"{url}/v1/completions", json={**asked, "max_tokens": 900, "stream": True}
        ) as stream:
            next(stream.iter_raw())
            process.send_signal(signal.SIGTERM)
            assert process.wait(LONGEST_S) == 128 + signal.SIGTERM
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_vtop_reads_a_simulated_server(tmp_path: Path) -> None:
    with simulating() as (url, _):
        shown = vtop("--url", url, "--once", "--json", "--no-gpu", "--interval", "0.1", folder=tmp_path)
    assert shown.returncode == 0
    (server,) = json.loads(shown.stdout)["servers"]
    assert server["version"] == "0.32.0+vtop.simulated"
    assert server["models"] == ["simulated/h200-qwen2.5-7b"]


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("::1", False)])
def test_another_address_is_warned_of(host: str, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def listen(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        return socket.create_server(("127.0.0.1", 0))

    monkeypatch.setattr("vtop.engine.server.subprocess.listen", listen)
    monkeypatch.setattr("vtop.engine.server.serve.serve", lambda settings, listening: signal.SIGTERM)
    result = runner().invoke(main, ["simulate", "--host", host, "--port", "1234"])
    assert (result.exit_code, asked) == (128 + signal.SIGTERM, [(host, 1234)])
    assert ("whoever reaches this machine can ask it" in result.stderr) == warned


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "name another --port" in refused(vtop("simulate", "--port", port, folder=tmp_path))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("simulate --fault fire@3", "there are stall, restart, nan, freeze"),
        ("demo --fault stall=5s", "at which second"),
        ("demo --theme nope", "there is no theme"),
        ("simulate --profile none", "no profile 'none'"),
        ("simulate --kv-tokens 4096 --max-model-len 8192", "vLLM would not start"),
        ("simulate --max-num-seqs 256 --max-num-batched-tokens 128", "must be at least --max-num-seqs"),
        ("simulate --port 99999", "99999"),
        ("simulate --host nowhere.invalid", "cannot listen"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(words: str, hint: str) -> None:
    result = runner().invoke(main, words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert hint in line
