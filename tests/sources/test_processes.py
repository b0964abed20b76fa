"""Finding the server's processes: on this host, and in a /proc of our making."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from vtop.sources.processes import pids_listening

linux = pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="needs Linux's /proc")

# listens, starts a child that holds no socket, says its port and the child's pid, and waits to be told to end
SERVER = """
import socket, subprocess, sys
listener = socket.create_server((sys.argv[1], 0), family=int(sys.argv[2]))
engine = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(listener.getsockname()[1], engine.pid, flush=True)
sys.stdin.read()
engine.communicate()
"""


@linux
@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_a_listening_process_is_found_with_its_children(host: str, family: socket.AddressFamily) -> None:
    if family == socket.AF_INET6 and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    command = [sys.executable, "-c", SERVER, host, str(int(family))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port, engine_pid = map(int, server.stdout.readline().split())
        assert pids_listening(port) == {server.pid, engine_pid}
        server.communicate()
    assert pids_listening(port) == frozenset()


@linux
def test_a_port_that_is_only_connected_to_is_not_listened_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert os.getpid() in pids_listening(port)
            assert pids_listening(client.getsockname()[1]) == frozenset()


HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0  0 {inode} 1\n"


def made_up_proc(folder: Path, *processes: tuple[int, str, int, list[str]]) -> str:
    """A /proc where inode 777 listens on 8000 and 888 is a connection to it; processes are pid, name, parent, files."""
    (folder / "net").mkdir()
    rows = ROW.format(port=8000, state="0A", inode=777) + ROW.format(port=8000, state="01", inode=888)
    (folder / "net" / "tcp").write_text(HEADER + rows)
    for pid, name, parent, files in processes:
        (folder / str(pid) / "fd").mkdir(parents=True)
        (folder / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0\n")
        for number, file in enumerate(files):
            (folder / str(pid) / "fd" / str(number)).symlink_to(file)
    return str(folder)


def test_descendants_of_every_depth_are_found_and_others_are_not(tmp_path: Path) -> None:
    proc = made_up_proc(
        tmp_path,
        (1, "init", 0, []),
        (10, "vllm serve", 1, ["/dev/null", "socket:[777]"]),
        (11, "VLLM::EngineCore (a b) c", 10, []),
        (12, "worker", 11, []),
        (20, "client", 1, ["socket:[888]"]),
    )
    assert pids_listening(8000, proc) == {10, 11, 12}
    assert pids_listening(8001, proc) == frozenset()


def test_several_processes_may_hold_the_same_listening_socket(tmp_path: Path) -> None:
    held = ["socket:[777]"]
    proc = made_up_proc(tmp_path, (10, "a", 1, held), (11, "b", 10, held), (12, "c", 1, held))
    assert pids_listening(8000, proc) == {10, 11, 12}


def test_a_process_that_goes_while_it_is_looked_at_is_left_out(tmp_path: Path) -> None:
    proc = made_up_proc(tmp_path, (10, "vllm", 1, ["socket:[777]"]), (11, "gone", 10, []))
    (tmp_path / "11" / "stat").unlink()
    (tmp_path / "11" / "fd").rmdir()
    assert pids_listening(8000, proc) == {10}


def test_a_file_that_cannot_be_looked_at_hides_no_other(tmp_path: Path) -> None:
    proc = made_up_proc(tmp_path, (10, "vllm", 1, ["/dev/null", "socket:[777]", "/dev/null"]))
    for number in (0, 2):
        (tmp_path / "10" / "fd" / str(number)).unlink()
        (tmp_path / "10" / "fd" / str(number)).touch()  # readlink fails
    assert pids_listening(8000, proc) == {10}


def test_no_proc_no_pids(tmp_path: Path) -> None:
    assert pids_listening(8000, str(tmp_path / "none")) == frozenset()


def test_a_socket_whose_owner_may_not_be_seen_gives_no_pids(tmp_path: Path) -> None:
    proc = made_up_proc(tmp_path, (10, "vllm", 1, []))
    assert pids_listening(8000, proc) == frozenset()
