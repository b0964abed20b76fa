"""`vtop --once` and `vtop record` against a server, without a screen."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.server import serving
from tests.cli.test_show import KEYS, strict
from tests.cli.vtop import recorded, refused, vtop
from tests.ui.pty import VTOP, environment
from vtop.recording import End, FileRecording, Identity, Note, Outage, Scrape, Start

FAST = ("--interval", "0.1", "--no-gpu")


def events(path: Path) -> list[object]:
    recording = FileRecording(path)
    found: list[object] = [recording.start]
    while taken := recording.take():
        found += taken
    recording.close()
    return found


def test_once_prints_one_json_document_of_the_schema_of_show(tmp_path: Path) -> None:
    with serving() as server:
        done = vtop("--url", server.address, "--once", "--json", *FAST, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    document = strict(done.stdout)
    assert set(document) >= KEYS
    assert document["servers"][0]["models"] == ["org/model[awq]"]
    assert set(document) == set(strict(vtop("show", "sweep_c64", "--json", folder=tmp_path).stdout))


def test_once_without_a_server_exits_with_2_and_says_why_in_the_document(tmp_path: Path) -> None:
    done = vtop("--url", "127.0.0.1:1", "--once", "--json", *FAST, folder=tmp_path)
    assert done.returncode == 2
    assert "refused" in strict(done.stdout)["status"]["sentence"]
    done = vtop("--url", "127.0.0.1:1", "--once", *FAST, folder=tmp_path)
    assert done.returncode == 2
    assert b"WAITING  for http://127.0.0.1:1: try" in done.stdout  # the screen, as text
    assert b"q quit" not in done.stdout  # without the keys, which nothing listens to


def test_once_can_keep_what_it_saw(tmp_path: Path) -> None:
    with serving() as server:
        done = vtop("--url", server.address, "--once", "--record", "once.jsonl", *FAST, folder=tmp_path)
    assert done.returncode == 0
    assert sum(isinstance(event, Scrape) for event in events(tmp_path / "once.jsonl")) == 2


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_record_to_a_file_of_any_kind_and_show_it(ending: str, tmp_path: Path) -> None:
    name = f"session.{ending}"
    with serving() as server:
        done = recorded(server, "--url", server.address, "-o", name, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.decode().splitlines()[-1].startswith(f"{name}: 0:0")
    found = events(tmp_path / name)
    assert [type(found[0]), type(found[-1])] == [Start, End]
    assert sum(isinstance(event, Scrape) for event in found) >= 2
    assert "org/model[awq]" in vtop("show", name, folder=tmp_path).stdout.decode()


def test_record_for_a_time(tmp_path: Path) -> None:
    with serving() as server:
        done = vtop("record", "--url", server.address, "--for", "2", "-o", "two.jsonl", *FAST, folder=tmp_path)
    assert done.returncode == 0
    end = events(tmp_path / "two.jsonl")[-1]
    assert isinstance(end, End)
    assert end.reason == "time is up"
    assert end.t >= 2.0


def test_record_of_nothing_says_so(tmp_path: Path) -> None:
    done = vtop("record", "--url", "127.0.0.1:1", "--for", "0.2", "-o", "none.jsonl", *FAST, folder=tmp_path)
    assert done.returncode == 2
    assert b"no server answered" in done.stderr
    found = events(tmp_path / "none.jsonl")
    assert any(isinstance(event, Outage) for event in found)
    assert isinstance(found[-1], End)


def test_a_recording_that_ends_before_the_first_attempt_is_over_claims_no_attempt(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"127.0.0.1:{silent.getsockname()[1]}"
        done = vtop("record", "--url", url, "--for", "0.2", "-o", "none.jsonl", *FAST, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1].endswith("no attempt was over by then; give it longer (--for)")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_recording_in_good_order(number: signal.Signals, tmp_path: Path) -> None:
    with serving() as server:
        done = recorded(server, "--url", server.address, "-o", "s.jsonl", folder=tmp_path, number=number)
    assert done.returncode == 0
    found = events(tmp_path / "s.jsonl")
    assert isinstance(found[-1], End)
    assert found[-1].reason == number.name


def test_a_file_that_cannot_grow_ends_the_recording_with_a_word(tmp_path: Path) -> None:
    with serving() as server:
        record = [*VTOP, "record", "--url", server.address, "--for", "30", "-o", "full.jsonl", *FAST]
        little = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *record]  # a file may have eight blocks, then it is full
        done = subprocess.run(little, capture_output=True, cwd=tmp_path, env=environment(), timeout=25, check=False)
    assert done.returncode == 2
    last = done.stderr.decode().splitlines()[-1]
    assert re.fullmatch(r"vtop: full\.jsonl: File too large; the last 1 line is lost", last)


@pytest.fixture
def little(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 64 kB, nearly full."""
    folder = tmp_path / "little"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small disk")
    (folder / "ballast").write_bytes(b"x" * 57_000)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_told_at_once_and_what_is_lost_at_the_end(little: Path) -> None:
    with serving() as server:
        done = vtop("record", "--url", server.address, "--for", "3", "-o", "full.jsonl", *FAST, folder=little)
    assert done.returncode == 2
    _, first, last = done.stderr.decode().splitlines()
    assert first == "vtop: full.jsonl: No space left on device; what happens waits in memory until there is room"
    assert re.fullmatch(r"vtop: full\.jsonl: No space left on device; the last \d+ lines are lost", last)
    assert isinstance(events(little / "full.jsonl")[0], Start)


def test_nothing_is_lost_when_there_is_room_again(little: Path) -> None:
    command = [*VTOP, "record", "--url", "ADDRESS", "-o", "full.jsonl", *FAST]
    with serving() as server:
        command[command.index("ADDRESS")] = server.address
        with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=little, env=environment()) as process:
            assert process.stderr is not None
            while b"No space left" not in process.stderr.readline():
                assert process.poll() is None
            (little / "ballast").unlink()
            assert b"there is room again, nothing is lost" in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    found = events(little / "full.jsonl")
    assert isinstance(found[-1], End)
    assert [event.text for event in found if isinstance(event, Note) and event.source == "recording"] == [
        "full.jsonl: No space left on device; what happens waits in memory until there is room",
        "full.jsonl: there is room again, nothing is lost",
    ]


def test_a_file_that_is_removed_meanwhile_ends_the_recording_with_a_word(tmp_path: Path) -> None:
    command = [*VTOP, "record", "--url", "ADDRESS", "--for", "30", "-o", "gone.jsonl", *FAST]
    with serving() as server:
        command[command.index("ADDRESS")] = server.address
        with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, env=environment()) as process:
            server.asked(3)
            (tmp_path / "gone.jsonl").unlink()
            _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    assert said.decode().splitlines()[-1] == "vtop: gone.jsonl was removed while it was being recorded"


def test_record_to_stdout(tmp_path: Path) -> None:
    with serving() as server:
        done = vtop("record", "--url", server.address, "--for", "1", "-o", "-", *FAST, folder=tmp_path)
    assert done.returncode == 0
    assert [line[:15] for line in (done.stdout.splitlines()[0], done.stdout.splitlines()[-1])] == [
        b'{"type":"start"',
        b'{"type":"end","',
    ]
    assert list(tmp_path.iterdir()) == []


def test_stdout_that_nobody_reads_any_more_ends_the_recording(tmp_path: Path) -> None:
    with serving() as server:
        words = " ".join([*VTOP, "record", "--url", server.address, "--for", "30", "-o", "-", *FAST])
        done = subprocess.run(
            ["bash", "-c", f"{words} | head -n 3; exit ${{PIPESTATUS[0]}}"],
            capture_output=True, cwd=tmp_path, env=environment(), timeout=25, check=False,
        )  # fmt: skip
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr


def test_the_screen_records_to_no_stdout(tmp_path: Path) -> None:
    assert refused(vtop("--record", "-", folder=tmp_path)).startswith("vtop: --record -: name a file")


def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    secrets = ("kEy-1", "kEy-2", "kEy-3", "kEy-4", "kEy-5", "kEy-6")
    (tmp_path / "key").write_text(f"{secrets[4]}\n")
    with serving("04_devmode_apikey_nans.txt") as server:
        address = server.address
        ways = [
            ("--api-key", secrets[0], "-H", f"X-Other: {secrets[2]}", "--url", address),
            (f"--api-key={secrets[0]}", f"-HX-Other: {secrets[2]}", f"--header=X-Team: {secrets[1]}", "--url", address),
            ("--proxy", f"http://user:{secrets[3]}@127.0.0.1:1", "--url", f"http://user:{secrets[3]}@{address}"),
            (f"--url=user:{secrets[3]}@{address}",),
            ("--api-key-file", str(tmp_path / "key"), "--url", address),
        ]
        written, heard = b"", ""
        for at, way in enumerate(ways):
            path = f"s{at}.jsonl"
            done = recorded(server, *way, "-o", path, folder=tmp_path, VTOP_API_KEY=secrets[5])
            assert done.returncode == 0, done
            heard += str(server.heard)
            written += done.stdout + done.stderr + (tmp_path / path).read_bytes()
    assert all(secret in heard for secret in (*secrets[:3], secrets[4], secrets[5])), "they were sent"
    assert not any(secret.encode() in written for secret in secrets)
    assert any(isinstance(event, Identity) for event in events(tmp_path / "s0.jsonl"))


def test_a_name_that_is_no_text_can_be_recorded_to(tmp_path: Path) -> None:
    with serving() as server:
        name = b"\xff.jsonl"
        done = recorded(server, "--url", server.address, "-o", name, folder=tmp_path)
    assert done.returncode == 0, done
    found = events(tmp_path / os.fsdecode(name))
    assert isinstance(found[-1], End)
