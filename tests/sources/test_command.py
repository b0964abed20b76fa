"""The command of a server is found from its port, through the process that listens: its own, a child's, or none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vtop.server_kinds.vllm.kind import VLLM
from vtop.sources import command
from vtop.sources.command import Command, on_port, server

linux = pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="needs Linux's /proc")

# listens, says its port, and waits to be told to end
LISTENER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""
# the same in a child of it, whose command line says nothing
BY_CHILD = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {LISTENER!r}])
"""
WORDS = ("serve", "/models/mine", "--max-num-seqs", "7", "--api-key", "sk-s3cret", "--no-enable-prefix-caching")


@contextmanager
def listening(folder: Path, script: str, *words: str, name: str = "vllm") -> Iterator[tuple[int, int]]:
    """A server's pid and port; its script has the name that is given."""
    path = folder / name
    path.write_text(script)
    words = (sys.executable, str(path), *words)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.communicate()


@linux
@pytest.mark.parametrize("script", [LISTENER, BY_CHILD], ids=["its own", "a child's"])
def test_the_flags_of_a_listening_server_are_found(tmp_path: Path, script: str) -> None:
    with listening(tmp_path, script, *WORDS) as (pid, port):
        found = on_port(port)
        assert found is not None
        assert (found.name, found.pid) == ("vllm serve", pid)
        assert found.flags == {"max-num-seqs": 7, "enable-prefix-caching": False}
        assert command.runs(found)
    assert not command.runs(found)
    assert on_port(port) is None


@linux
def test_a_listener_that_is_no_vllm_has_none(tmp_path: Path) -> None:
    with listening(tmp_path, LISTENER, *WORDS, name="tunnel") as (_, port):
        assert on_port(port) is None


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("/usr/bin/python3.12 /venv/bin/vllm serve m --x", "vllm serve"),
        ("/venv/bin/vllm serve m --x", "vllm serve"),
        ("python3 -u -X dev -m vllm.entrypoints.openai.api_server m --x", "vllm.entrypoints.openai.api_server"),
        ("python /src/vllm/entrypoints/openai/api_server.py m --x", "vllm.entrypoints.openai.api_server"),
        ("python -m vllm.entrypoints.cli.main serve m --x", "vllm serve"),
        ("/venv/bin/python /venv/bin/vtop simulate m --x", "vtop simulate"),
        ("python -m vtop simulate m --x", "vtop simulate"),
    ],
)
def test_a_vllm_command_is_known_in_its_forms(typed: str, name: str) -> None:
    assert server(typed.split()) == (VLLM, name, ["m", "--x"])


@pytest.mark.parametrize(
    "typed",
    [
        "ssh -N -L 8000:localhost:8000 host vllm serve m",
        "bash -c vllm serve m",
        "python -c vllm serve m",
        "nginx: worker process",
        "VLLM::APIServer_0",
        "/venv/bin/vllm bench serve m",
        "/venv/bin/vllm",
        "python -m",
        "python -u",
        "",
    ],
)
def test_other_command_lines_are_none(typed: str) -> None:
    assert server(typed.split()) is None


def made_up_proc(folder: Path, *made: tuple[int, int, str, str]) -> str:
    """A /proc where inode 777 listens on 8000; processes are pid, parent, what they have open, command line."""
    (folder / "net").mkdir()
    row = "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 777 1\n"
    (folder / "net" / "tcp").write_text("  sl  local_address rem_address\n" + row)
    for pid, parent, opened, line in made:
        (folder / str(pid) / "fd").mkdir(parents=True)
        later = " ".join(["0"] * 17)
        (folder / str(pid) / "stat").write_text(f"{pid} (a b) S {parent} {later} {pid}000 0\n")
        (folder / str(pid) / "cmdline").write_text(line.replace(" ", "\0") + "\0")
        if opened:
            (folder / str(pid) / "fd" / "3").symlink_to(opened)
    return str(folder)


def test_of_several_api_servers_it_is_what_started_them(tmp_path: Path) -> None:
    proc = made_up_proc(
        tmp_path,
        (1, 0, "", "/sbin/init"),
        (10, 1, "socket:[777]", "/venv/bin/python /venv/bin/vllm serve m --api-server-count 2"),
        (11, 10, "socket:[777]", "VLLM::APIServer_0"),
        (12, 10, "socket:[777]", "VLLM::APIServer_1"),
    )
    assert on_port(8000, proc) == Command("vllm serve", {"api-server-count": 2}, pid=10, began=10000)


def test_two_servers_on_one_port_of_two_addresses_are_not_told_apart(tmp_path: Path) -> None:
    proc = made_up_proc(
        tmp_path,
        (10, 1, "socket:[777]", "vllm serve m --max-num-seqs 1"),
        (20, 1, "socket:[777]", "vllm serve m --max-num-seqs 2"),
    )
    assert on_port(8000, proc) is None


def test_a_pid_that_another_process_has_got_since_is_not_the_same(tmp_path: Path) -> None:
    proc = made_up_proc(tmp_path, (10, 1, "socket:[777]", "vllm serve m"))
    found = on_port(8000, proc)
    assert found is not None
    assert command.runs(found, proc)
    (tmp_path / "10" / "stat").write_text(f"10 (a b) S 1 {' '.join(['0'] * 17)} 10001 0\n")
    assert not command.runs(found, proc)
