"""vtop and the terminal it runs in: it leaves it as it was, ends when it is gone, and does without what it lacks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ui.pty import LONGEST_S, VTOP, Terminal, environment
from tests.ui.screens import OVERLOAD
from vtop.recording import End, decode

MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
REPLAY = (*VTOP, "replay", str(OVERLOAD), "--at", "90")
LIVE = (*VTOP, "--url", "127.0.0.1:1", "--no-gpu", "--record", "session.jsonl")
FAULT = """
import sys
from vtop.ui import app
async def fail(): raise RuntimeError("a fault in a worker")
app.VtopApp.action_mark = lambda self: self.run_worker(fail())
from vtop.cli import main
main(sys.argv[1:])
"""
FAULT_IN_A_SOURCE = """
import sys
from vtop.sources import server
def fail(self, at_s): raise RuntimeError("a fault in a source")
server.ServerSource._ask = fail
from vtop.cli import main
main(sys.argv[1:])
"""


def modes_left_on(written: bytes) -> set[bytes]:
    """Terminal modes that were set, or the cursor hidden, and never put back."""
    on: set[bytes] = set()
    for found in MODE.finditer(written):
        for mode in found[1].split(b";"):
            usual = b"h" if mode in (b"25", b"7") else b"l"  # cursor shown, lines wrapped
            if found[2] == usual:
                on.discard(mode)
            else:
                on.add(mode)
    if written.count(b"\x1b[>") > written.count(b"\x1b[<u"):
        on.add(b"kitty")
    return on


def last(path: Path) -> End:
    event = decode(path.read_bytes().splitlines()[-1])
    assert isinstance(event, End)
    return event


# --- leaving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_puts_the_terminal_back_and_closes_the_recording(number: signal.Signals, tmp_path: Path) -> None:
    with Terminal(LIVE, folder=tmp_path) as terminal:
        terminal.until(b"refused")
        assert modes_left_on(terminal.written) >= {
            b"1000",
            b"1003",
            b"1006",
            b"1049",
            b"2004",
            b"1004",
            b"25",
            b"kitty",
        }
        terminal.process.send_signal(number)
        assert terminal.exit_code() == 0
    assert modes_left_on(terminal.written) == set()
    assert last(tmp_path / "session.jsonl").reason == number.name
    assert b"Traceback" not in terminal.written


def test_q_puts_the_terminal_back_and_names_the_recording(tmp_path: Path) -> None:
    with Terminal(LIVE, folder=tmp_path) as terminal:
        terminal.until(b"refused")
        terminal.press(b"q")
        assert terminal.exit_code() == 0
    assert modes_left_on(terminal.written) == set()
    _, _, after = terminal.written.rpartition(b"recorded session.jsonl in ")
    assert re.search(rb": 0:0\d, [\d,.]+ (KiB|B); vtop replay session.jsonl\r\n$", after)
    assert last(tmp_path / "session.jsonl").reason == "quit"


def test_a_fault_in_a_worker_puts_the_terminal_back_and_closes_the_recording(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-c", FAULT, *LIVE[len(VTOP) :]], folder=tmp_path) as terminal:
        terminal.until(b"refused")
        terminal.press(b"m")
        assert terminal.exit_code() == 70
    assert modes_left_on(terminal.written) == set()
    assert b"ended (RuntimeError in " in terminal.written.rpartition(b"\x1b[?1049l")[2]
    assert last(tmp_path / "session.jsonl").reason == "broken off"


def test_a_fault_in_a_source_is_told_after_the_screen_and_the_session_goes_on(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-c", FAULT_IN_A_SOURCE, *LIVE[len(VTOP) :]], folder=tmp_path) as terminal:
        terminal.until(b"itself failed")
        terminal.until(b"rec 0:03")  # the next ticks ask again
        terminal.press(b"m")
        terminal.until(b"mark")
        terminal.press(b"q")
        assert terminal.exit_code() == 1
    screen, _, after = terminal.written.rpartition(b"\x1b[?1049l")
    assert b"Traceback" not in screen
    assert b"Traceback" not in after
    assert b"vtop itself failed reading what the server answered (RuntimeError in " in after
    assert (tmp_path / "session.jsonl").read_bytes().count(b'"reason":"fault"') >= 2
    assert isinstance(last(tmp_path / "session.jsonl"), End)


@pytest.mark.parametrize("how", ["key", "signal"])
def test_ctrl_z_gives_the_terminal_back_and_fg_paints_all_of_the_screen(how: str, tmp_path: Path) -> None:
    with Terminal(LIVE, folder=tmp_path) as terminal:
        terminal.until(b"refused")
        if how == "key":
            terminal.press(b"\x1a")
        else:
            terminal.process.send_signal(signal.SIGTSTP)
        terminal.until(b"\x1b[?1049l")
        assert os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED | os.WNOWAIT)
        assert modes_left_on(terminal.written) == set()
        before = len(terminal.written)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until(lambda: b"127.0.0.1:1" in terminal.written[before:])
        assert b"\x1b[?1049h" in terminal.written[before:]
        terminal.press(b"q")
        assert terminal.exit_code() == 0
    assert modes_left_on(terminal.written) == set()


@pytest.mark.parametrize("hears_hangup", [True, False], ids=["hangup", "silence"])
def test_a_terminal_that_is_gone_ends_vtop_and_closes_the_recording(hears_hangup: bool, tmp_path: Path) -> None:
    with Terminal(LIVE, folder=tmp_path, hears_hangup=hears_hangup) as terminal:
        terminal.until(b"refused")
        terminal.hang_up()
        terminal.process.wait(LONGEST_S)
    assert last(tmp_path / "session.jsonl").reason in ("SIGHUP", "the terminal is gone")


GONE_AT_ONCE = """
from vtop.ui.app import VtopApp
import os, sys, termios
def run(self, *_, **__):
    hung_up, other_end = os.pipe()
    os.close(other_end)
    os.dup2(hung_up, 0)  # at once: a number that is free for a moment is taken by the next file of another thread
    raise termios.error(5, "Input/output error")
VtopApp.run = run
from vtop.cli import main
main()
"""


def test_a_terminal_that_goes_while_the_screen_is_put_up_is_no_fault(tmp_path: Path) -> None:
    command = [sys.executable, "-c", GONE_AT_ONCE, *LIVE[len(VTOP) :]]
    with Terminal(command, folder=tmp_path) as terminal:
        assert terminal.exit_code() == 0
    assert last(tmp_path / "session.jsonl").reason == "the terminal is gone"


def test_a_gone_terminal_ends_a_replay() -> None:
    with Terminal(REPLAY, hears_hangup=False) as terminal:
        terminal.until(b"preempt")
        terminal.hang_up()
        terminal.process.wait(LONGEST_S)


# --- no terminal -----------------------------------------------------------------------------------------------------


def refusal(terminal: Terminal, written: bytes) -> None:
    assert terminal.exit_code() == 2
    assert written.startswith(b"vtop: the screen needs a terminal")
    assert written.count(b"\n") == 1
    assert b"\x1b" not in terminal.written + written


def test_stdin_that_is_no_terminal_is_said(tmp_path: Path) -> None:
    with Terminal(["sh", "-c", f"{' '.join(VTOP)} --url :1 </dev/null"], folder=tmp_path) as terminal:
        terminal.exit_code()
        refusal(terminal, terminal.written)


def test_stdout_into_a_file_leaves_the_file_empty(tmp_path: Path) -> None:
    with Terminal(["sh", "-c", f"{' '.join(VTOP)} > out"], folder=tmp_path) as terminal:
        terminal.exit_code()
        refusal(terminal, terminal.written)
    assert (tmp_path / "out").read_bytes() == b""


def test_stdout_into_a_pipe_is_said(tmp_path: Path) -> None:
    with Terminal(["sh", "-c", f"{' '.join(VTOP)} | head"], folder=tmp_path) as terminal:
        terminal.exit_code()
    assert terminal.written.startswith(b"vtop: the screen needs a terminal, and stdout is none")
    assert terminal.written.count(b"\n") == 1


def test_stderr_into_a_file_is_said_there(tmp_path: Path) -> None:
    with Terminal(["sh", "-c", f"{' '.join(VTOP)} 2> err"], folder=tmp_path) as terminal:
        terminal.exit_code()
        refusal(terminal, (tmp_path / "err").read_bytes())
    assert terminal.written == b""


@pytest.mark.parametrize("verb", [(), ("replay", str(OVERLOAD))])
def test_a_dumb_terminal_is_said(verb: tuple[str, ...], tmp_path: Path) -> None:
    with Terminal([*VTOP, *verb], env=environment(TERM="dumb"), folder=tmp_path) as terminal:
        terminal.exit_code()
        refusal(terminal, terminal.written)


def test_without_any_terminal_nothing_is_attached_or_made(tmp_path: Path) -> None:
    done = subprocess.run(
        LIVE, capture_output=True, stdin=subprocess.DEVNULL, cwd=tmp_path, env=environment(), check=False
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert list(tmp_path.iterdir()) == []


# --- terminals that lack something -----------------------------------------------------------------------------------


@pytest.mark.parametrize("term", [None, "unknown", "vt100", "linux", "screen", "xterm"])
def test_any_terminal_will_do(term: str | None) -> None:
    env = environment()
    for name in ("TERM", "COLORTERM"):
        del env[name]
    with Terminal(REPLAY, env={**env, **({} if term is None else {"TERM": term})}) as terminal:
        terminal.until(b"preempt")
        terminal.press(b"q")
        assert terminal.exit_code() == 0
    assert b"Traceback" not in terminal.written


def test_no_color_has_none() -> None:
    with Terminal(REPLAY, env=environment(NO_COLOR="1")) as terminal:
        terminal.until(b"preempt")
        terminal.press(b"tt?")
        terminal.until(b"pause; go on")
        terminal.press(b"qq")  # the help, and vtop
        assert terminal.exit_code() == 0
    assert not COLOUR.search(terminal.written)


@pytest.mark.parametrize(
    "env",
    [
        {"TERM": "xterm", "PATH": os.environ["PATH"]},
        {"TERM": "xterm", "PATH": os.environ["PATH"], "LANG": "C"},
        {"TERM": "xterm", "PATH": os.environ["PATH"], "LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
        {"TERM": "xterm", "PATH": os.environ["PATH"], "PYTHONIOENCODING": "latin-1"},
    ],
    ids=["empty", "LANG=C", "ascii", "latin-1"],
)
def test_a_bare_environment_will_do_and_a_narrow_encoding_gets_ascii(env: dict[str, str], tmp_path: Path) -> None:
    with Terminal(LIVE, env={**env, "PYTHONPATH": environment()["PYTHONPATH"]}, folder=tmp_path) as terminal:
        terminal.until(b"refused")
        board = terminal.written
        terminal.press(b"?")
        terminal.until(b"quit, from")
        terminal.press(b"\x1b[27uq")
        assert terminal.exit_code() == 0
    assert b"Traceback" not in terminal.written
    if "PYTHONIOENCODING" in env:
        assert board.isascii()
