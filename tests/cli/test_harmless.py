"""Whatever a recording, a server or a file's name holds: no escape, no control and no mark of direction leaves for a
terminal, no formula gets into a table, and no key into anything."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.vtop import runner
from tests.ui.screens import ROOT
from vtop.access import Access
from vtop.cli import main
from vtop.recording import FileRecording, Identity, LiveRecording, Mark, Request, Start, Target
from vtop.recording.events import FORMAT

EVIL = "\x1b]0;pwn\x07\x1b[2J\x9b31m<b>x</b>\u202e\u2066evil\u200b$(id)\x7f=1+1"
RECORDING = ROOT / "recordings" / "overload_loaded.jsonl.gz"
CHOSEN = {"vtop", "argv", "text", "source", "version", "models", "command", "spec", "detail", "finish", "error"}
CHOSEN |= {"name", "uuid", "reason", "note", "first_bad", "model", "throttle", "lost", "origin", "power_kind"}
HARMFUL = re.compile(r"[^\n\x20-\x7e]")


def harmful(text: str) -> list[str]:
    return [found for found in HARMFUL.findall(text) if not found.isprintable()]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording in which every text that a server or a person chose is hostile, in a file of such a name."""

    def spoilt(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: spoilt(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [spoilt(inner, key) for inner in value]
        return EVIL if key in CHOSEN and isinstance(value, str) else value

    lines = [json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()]
    path = tmp_path_factory.mktemp("hostile") / "a\x1b]0;pwn\x07\u202e.jsonl"
    path.write_text("\n".join(json.dumps(spoilt(line, "")) for line in lines) + "\n{\x1b]0;pwn\x07\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "check FILE",
        "check FILE --json",
        "show FILE",
        "show FILE --json",
        "show FILE --at 999999",
        "show FILE/none",
        "report FILE --format txt",
        "report FILE --format md",
        "report FILE --format json",
        "compare FILE FILE",
        "compare FILE FILE --format json",
        "compare FILE FILE --fail-over 1",
        "export FILE --to csv",
        "cut FILE --from 1",
        "cut FILE --from 1 -o OUT",
        "merge FILE FILE -o OUT",
        pytest.param("whatif FILE --max-num-seqs 4", marks=pytest.mark.slow),
        "replay FILE",
        "record -o FILE",
        "--url http://\x1b]0;pwn\x07 --once",
        "--theme \x1b]0;pwn\x07",
        "\x1b]0;pwn\x07",
        "load \x1b]0;pwn\x07=5",
        "sweep --with \x1b]0;pwn\x07 -o OUT",
    ],
)
def test_no_verb_lets_anything_harmful_through(
    words: str, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = str(tmp_path / "b\x1b[2J.jsonl")
    said = [word.replace("FILE", str(hostile)).replace("OUT", out) for word in words.split(" ")]
    result = runner().invoke(main, said)
    assert result.exit_code in (0, 1, 2, 3), result.output
    assert not harmful(result.stdout + result.stderr)
    assert result.stdout or result.stderr
    if "--json" in words or "json" in words.split(" "):
        json.loads(result.stdout)


def test_a_text_that_a_spreadsheet_would_run_is_no_formula(hostile: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    live = LiveRecording(START, lambda: 0.0, path)
    for sign in "=+-@\t\r":
        live.append(Mark(text=f"{sign}cmd|' /C calc'!A0"))
    live.close("quit")
    assert runner().invoke(main, ["export", str(path), "--to", "csv", "-o", f"{tmp_path}/"]).exit_code == 0
    import csv

    rows = list(csv.reader(io.StringIO((tmp_path / "events.csv").read_text(encoding="utf-8"), newline="")))
    cells = [cell for row in rows[1:] for cell in row if "calc" in cell]
    assert len(cells) == 6
    assert [cell[0] for cell in cells] == ["'"] * 4 + [" "] * 2
    numbers = [cell for row in rows[1:] for cell in row if cell[:1] == "-"]
    assert all(float(number) for number in numbers)


START = Start(format=FORMAT, vtop="0", unix_s=1.0, servers=(Target(url="http://a"),), interval_s=1.0)


@pytest.mark.parametrize(
    "access",
    [
        Access(api_key="sk-SECRET-1"),
        Access(headers=(("authorization", "Bearer sk-SECRET-1"),)),
        Access(headers=(("x-secret", "sk-SECRET-1"),)),
        Access(basic=("me", "sk-SECRET-1")),
        Access(api_key='sk-SECRET-1"\\x'),
    ],
    ids=["key", "bearer", "header", "password", "quotes"],
)
def test_a_key_that_a_server_echoes_is_in_no_line(access: Access, tmp_path: Path) -> None:
    key = access.api_key or "sk-SECRET-1"
    live = LiveRecording(START, lambda: 0.0, tmp_path / "a.jsonl", access.recognisable)
    live.append(Identity(server=0, version=f"1 {key}", models=(key,), note=f"bad {key}"))
    live.append(Request(id=1, phase=0, finish=key, timings={key: key}, detail=f"Bearer {key}"))
    taken = live.take()
    live.close("quit")
    assert b"sk-SECRET-1" not in (tmp_path / "a.jsonl").read_bytes()
    assert "sk-SECRET-1" not in str(taken)
    reader = FileRecording(tmp_path / "a.jsonl")
    assert len(reader.take()) == 4
    assert reader.faults == []
    reader.close()


@pytest.mark.parametrize("word", ["values", "generation_tokens", "short", "1234567.89", "http://a", ""])
def test_a_word_that_may_stand_anywhere_is_struck_out_nowhere(word: str) -> None:
    assert Access(api_key=word).recognisable == []
