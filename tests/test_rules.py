"""The rules that everything stands on, each with a test that fails when it is broken."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.segment import Segment

from vtop.draw import layout, theme
from vtop.metrics.page import Folder
from vtop.recording import AnyEvent, LiveRecording, Scrape, Start, Target, Unknown, decode
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names
from vtop.session.frame.frame import View
from vtop.session.session import Session

CORE = [
    path
    for room in ("recording", "metrics", "server_kinds", "session")
    for path in sorted((Path(__file__).parents[1] / "vtop" / room).rglob("*.py"))
]
SCRAPE = (Path(__file__).parent / "scrapes" / "03_preempt_mid3.txt").read_text(encoding="utf-8")
START = Start(format=FORMAT, vtop="0", unix_s=1.0, servers=(Target(url="http://a"),), interval_s=1.0)


# 1. The reducer sees only decoded lines.


def test_what_a_session_is_given_is_what_stands_in_the_file(tmp_path: Path) -> None:
    now = 0.0
    live = LiveRecording(START, lambda: now, tmp_path / "a.jsonl")
    folder, put_in = Folder(series_names), []
    for now in (1.0, 2.0, 3.0):
        text = SCRAPE.replace(" 1.0\n", f" {now}\n")
        scrape = folder.scrape(text, server=0, at_s=now, took_s=float("1e-7"), bytes=1, health=200)
        put_in.append(scrape)
        live.append(scrape)
    taken = live.take()
    live.close("quit")
    lines = (tmp_path / "a.jsonl").read_bytes().splitlines()
    assert [line for line in map(decode, lines[:-1]) if not isinstance(line, Unknown)] == taken
    assert all(event is not one for event in taken for one in put_in)  # nothing goes round the file


def test_what_a_line_cannot_hold_the_screen_cannot_know() -> None:
    live = LiveRecording(START, lambda: 0.0)
    live.append(
        Scrape(server=0, at_s=0.0, took_s=0.0, bytes=1, full=True, values={"vllm:num_requests_running": float("nan")})
    )
    taken = live.take()
    live.close("quit")
    assert isinstance(taken[1], Scrape)
    assert taken[1].values == {"vllm:num_requests_running": None}


# 2. The core reads no clock, file, socket or random number.

OUTSIDE = {"time", "datetime", "socket", "random", "secrets", "uuid", "os", "io", "pathlib", "tempfile", "asyncio"}
OUTSIDE |= {"threading", "subprocess", "select", "ssl", "http", "urllib", "httpx", "pynvml", "textual", "rich", "numpy"}
PURE = {"urllib.parse"}  # takes a URL apart, asks nobody
# a recording is a file, written by threads; nothing else of the core is
MAY = {
    "recording/recording.py": {"os", "pathlib", "threading"},
    "recording/recording_file.py": {"os", "pathlib", "tempfile"},
    "recording/inflate.py": {"pathlib"},  # a name's ending
    "recording/marks_beside.py": {"pathlib"},
    "recording/flight.py": {"pathlib"},
    "recording/with_model_shape.py": {"pathlib"},
}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module not in PURE:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("path", CORE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_core_imports_nothing_of_the_outside(path: Path) -> None:
    assert imported(path) & OUTSIDE <= MAY.get(f"{path.parent.name}/{path.name}", set())


@pytest.mark.parametrize("path", CORE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_core_opens_no_file_but_the_recording_s(path: Path) -> None:
    called = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    opens = called & {"open", "input", "print", "eval", "exec", "__import__"}
    assert opens == ({"open"} if path.name in ("recording.py", "recording_file.py") else set())


def test_the_core_loads_no_screen_and_no_network() -> None:
    code = (
        "import vtop.session.session, vtop.session.glossary.numbers, sys;"
        "print(*sorted(set(sys.modules) & {'textual', 'rich', 'httpx', 'pynvml', 'numpy', 'asyncio', 'socket'}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_a_verb_without_a_screen_loads_none() -> None:
    code = "import vtop.cli, sys; print(*sorted(set(sys.modules) & {'textual', 'rich', 'httpx', 'numpy', 'asyncio'}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


# 3. Panels hold no history: drawing twice, or another frame between, changes nothing.


def test_drawing_a_frame_twice_changes_nothing() -> None:
    session = Session(START)
    folder = Folder(series_names)
    for second in range(10):
        text = SCRAPE.replace("vllm:num_requests_running{", f"vllm:num_requests_running {second}\nx{{")
        scrape = folder.scrape(text, server=0, at_s=float(second), took_s=0.01, bytes=1, health=200)
        session.apply(msgspec.structs.replace(scrape, t=second + 0.01))
    style = theme.load("dark")

    def drawn(now_s: float) -> list[list[Segment]]:
        frame = session.frame(now_s, View(60.0, 44))
        once = [list(line) for line in layout.screen(frame, 120, 40, style)]
        assert [list(line) for line in layout.screen(frame, 120, 40, style)] == once
        return once

    first = drawn(9.5)
    assert drawn(3.5) != first
    assert drawn(9.5) == first


# 4. `t` is stamped by the writer and never goes back.


def test_t_is_the_writer_s_and_never_goes_back() -> None:
    clock = iter([0.0, 5.0, 2.0, 9.0, 1.0, 1.0])
    live = LiveRecording(START, lambda: next(clock))
    for claimed in (47.0, -3.0, 5.0):
        live.append(Scrape(server=0, at_s=claimed, took_s=0.0, bytes=1, t=claimed))
    events: list[AnyEvent] = live.take()
    live.close("quit")
    assert [event.t for event in events] == [0.0, 5.0, 5.0, 9.0]
    assert [event.at_s for event in events if isinstance(event, Scrape)] == [47.0, -3.0, 5.0]


# 5. What only one kind of server has stands in its folder.

ROOMS = Path(__file__).parents[1] / "vtop"
SPEAKS_OF_VLLM = {"session/glossary"}  # what its series do and do not say is what the caveats are about


def words(path: Path) -> list[str]:
    """All that stands in a file but docstrings and comments: strings, names, imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    firsts = [node.body[0] for node in ast.walk(tree) if isinstance(node, holders) and node.body]
    docstrings = {id(first.value) for first in firsts if isinstance(first, ast.Expr)}
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                found.append(text)
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.alias(name=text) | ast.arg(arg=text):
                found.append(text)
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text) | ast.ImportFrom(module=str(text)):
                found.append(text)
            case _:
                pass
    return found


@pytest.mark.parametrize("room", ["metrics", "session", "sources", "draw", "report", "ui"])
def test_no_word_of_one_kind_of_server_stands_outside_its_folder(room: str) -> None:
    speaking = {
        path.parent.relative_to(ROOMS).as_posix()
        for path in (ROOMS / room).rglob("*.py")
        if any("vllm" in word.lower() for word in words(path))
    }
    assert speaking == {folder for folder in SPEAKS_OF_VLLM if folder.startswith(room)}
