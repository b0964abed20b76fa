"""`vtop show`: one instant as text, JSON, SVG and PNG."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.vtop import runner, vtop
from tests.ui.screens import OVERLOAD, SWEEP
from vtop.cli import main

# A script that reads vtop's JSON counts on these; a new one is fine, one that is gone or renamed is not.
KEYS = {
    "now_s", "unix_s", "start_unix_s", "interval_s", "window_s", "asked_window_s", "status", "origin", "servers",
    "engines", "requests", "kv", "prompt_tokens", "generation_tokens", "iteration", "ttft", "latencies", "prefix_cache",
    "preemption", "gpus", "event_log", "charts",
}  # fmt: skip


def shown(*words: str) -> str:
    result = runner().invoke(main, ["show", *words])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def strict(text: str | bytes) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    document = json.loads(text, parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_a_film_is_one_picture_that_shows_each_frame_in_its_turn(tmp_path: Path) -> None:
    out = tmp_path / "film.svg"
    words = ["film", str(SWEEP), "--from", "10", "--for", "2s", "--size", "60x15", "-o", str(out)]
    done = runner().invoke(main, words)
    assert done.exit_code == 0, done.stderr
    root = xml.fromstring(out.read_text(encoding="utf-8"))
    images = root.findall("{*}image")
    times = [(image[0].get("values"), image[0].get("keyTimes"), image[0].get("dur")) for image in images]
    assert times == [
        ("visible;hidden", "0;0.333333", "3s"),
        ("hidden;visible;hidden", "0;0.333333;0.666667", "3s"),
        ("hidden;visible", "0;0.666667", "3s"),
    ]
    clocks = []
    for image in images:
        inside = base64.b64decode((image.get("href") or "").partition(",")[2])
        clocks += re.findall(r"0:1\d", "".join(xml.fromstring(inside).itertext()))[:1]
    assert clocks == ["0:10", "0:11", "0:12"]
    assert "exists already" in runner().invoke(main, words).stderr


@pytest.mark.parametrize("size", ["80x24", "120x36", "200x60", "20x4"])
def test_text_has_the_size_asked_for(size: str) -> None:
    columns, rows = map(int, size.split("x"))
    lines = shown(str(OVERLOAD), "--at", "2:31", "--size", size).splitlines()
    assert len(lines) == rows
    assert max(map(cell_len, lines)) <= columns


def test_json_is_strict_and_keeps_its_keys() -> None:
    document = strict(shown(str(OVERLOAD), "--at", "2:31", "--json"))
    assert set(document) >= KEYS
    assert document["now_s"] == 151.0
    assert document["preemption"]["count"]["since_start"] == 35
    assert document["kv"]["pool_tokens"] == 86896


def test_an_earlier_instant_knows_nothing_of_a_later_one() -> None:
    document = strict(shown(str(OVERLOAD), "--at", "30", "--json"))
    assert all(logged["at_s"] <= 30 for logged in document["event_log"])
    assert strict(shown(str(OVERLOAD), "--at", "0", "--json"))["requests"]["running"]["now"] is None


def test_svg_and_png_are_files_and_stdout_stays_empty(tmp_path: Path) -> None:
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"
    assert shown(str(SWEEP), "--at", "12", "--size", "80x24", "--svg", str(svg), "--png", str(png)) == ""
    drawn = svg.read_text(encoding="utf-8")
    assert "GPU BINDS" in "".join(xml.fromstring(drawn).itertext()).replace("\xa0", " ")
    assert "http" not in drawn.replace('xmlns="http://www.w3.org/2000/svg"', "")
    head = png.read_bytes()[:26]
    assert head.startswith(b"\x89PNG")
    assert head[25] == 3, "a palette"
    assert png.stat().st_size < 120_000  # 0.5 MB in full colour


def test_the_same_file_gives_the_same_bytes() -> None:
    for form in ("--text", "--json"):
        assert shown(str(SWEEP), form) == shown(str(SWEEP), form)


def test_hidden_panels_leave_their_room_to_others() -> None:
    whole, less = shown(str(SWEEP)), shown(str(SWEEP), "--hide", "gpus,latencies")
    assert "─ GPU ─" in whole
    assert "─ GPU ─" not in less
    assert "latencies" not in less


def test_a_narrow_encoding_gets_ascii_and_json_stays_utf_8(tmp_path: Path) -> None:
    done = vtop("show", str(SWEEP), folder=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    done = vtop("show", str(SWEEP), "--json", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert strict(done.stdout)
    done = vtop("show", str(SWEEP), folder=tmp_path, LANG="C", LC_ALL="C")
    assert done.returncode == 0
    assert b"preempt" in done.stdout


def test_a_torn_file_shows_what_was_whole(tmp_path: Path) -> None:
    import gzip

    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(gzip.decompress(SWEEP.read_bytes())[:-20])
    assert "last line incomplete" in shown(str(torn))


# --- a model's shape that the recording lacks ----------------------------------------------------------------------

QWEN = {
    "torch_dtype": "bfloat16",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
}


def test_a_model_s_config_gives_the_bytes_and_the_tokens_that_the_recording_lacks(tmp_path: Path) -> None:
    import gzip

    bare, config = tmp_path / "bare.jsonl", tmp_path / "config.json"
    lines = gzip.decompress(SWEEP.read_bytes()).splitlines(keepends=True)
    bare.write_bytes(b"".join(line for line in lines if b'"identity"' not in line))
    config.write_text(json.dumps(QWEN))
    without = strict(shown(str(bare), "--json"))
    assert (without["kv"]["bytes_per_token"], without["recompute"]["executed_tokens"]) == (None, None)
    given = strict(shown(str(bare), "--json", "--model-config", str(config)))
    assert given["kv"]["bytes_per_token"] == 57344
    assert given["recompute"]["executed_tokens"] == given["recompute"]["least_tokens"] == 410_319
    assert given["recompute"]["method"] == "write bytes, model shape"


def test_a_file_that_is_no_config_is_said_in_one_line(tmp_path: Path) -> None:
    wrong = tmp_path / "weights.json"
    wrong.write_text("[1, 2]")
    result = runner().invoke(main, ["show", str(SWEEP), "--model-config", str(wrong)])
    assert result.exit_code == 2
    assert result.stderr == f"vtop: {wrong}: no config.json of a model; name the one in the model's folder\n"


def test_json_has_what_the_analyses_found() -> None:
    document = strict(shown(str(OVERLOAD), "--json"))
    assert sum(event["count"] for event in document["staircase"]["events"]) == 37
    assert document["recompute"]["since_start"] == 258_301
    assert document["tail"]["percentile"] == 99.99
    assert document["wallclock"]["step_from"] == "steps that only decode"
    assert document["roofline"]["gpu"] == "NVIDIA H200"
