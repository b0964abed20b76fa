"""`vtop load` and `vtop sweep` as a shell runs them: what comes out where, and how they end."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_show import strict
from tests.cli.test_usage import run, said
from tests.cli.vtop import refused, vtop
from tests.load.faults import Answer
from tests.load.standin import hanging, refusal, standing_in, whole
from tests.ui.pty import VTOP, Terminal, environment
from vtop.cli.load import LastScrape
from vtop.recording import End, FileRecording, Load, Request, Scrape, decode

TINY = "in=8 out=2"
NO_GPU = ("--no-gpu", "--interval", "0.2")


def lines(out: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_request_lines_on_stdout_a_line_a_phase_on_stderr(tmp_path: Path) -> None:
    with standing_in() as host:
        done = vtop("load", host.standin.url, f"c=2 n=6 {TINY}", f"rate=100 n=4 {TINY}", folder=tmp_path)
    assert done.returncode == 0, done
    events = lines(done.stdout)
    assert events[0]["type"] == "start"
    assert events[-1]["type"] == "end"
    assert sum(event["type"] == "request" and "end_s" in event and event["phase"] != -1 for event in events) == 10
    head, *rows = done.stderr.decode().splitlines()
    assert head.split()[:3] == ["load", "done", "failed"]
    assert [row.split()[:3] for row in rows] == [["c=2", "6", "0"], ["rate=100", "4", "0"]]
    (tmp_path / "load.jsonl").write_bytes(done.stdout)
    shown = strict(vtop("show", "load.jsonl", "--json", folder=tmp_path).stdout)
    assert shown["load"]["done"] == 4


def test_the_url_may_be_left_out_and_a_load_may_not(tmp_path: Path) -> None:
    assert "what load is not said" in refused(vtop("load", "localhost:8000", folder=tmp_path))
    assert "no word is called" in refused(vtop("load", "cc=4", folder=tmp_path))
    assert "say --yes" in refused(vtop("load", "http://192.0.2.7:8000", "c=1", folder=tmp_path))


def test_a_reader_that_goes_away_ends_the_load_without_a_word(tmp_path: Path) -> None:
    with standing_in(lambda body: whole(body) if body["max_tokens"] == 2 else hanging(body)) as host:
        command = [*VTOP, "load", host.standin.url, f"rate=50 for=60s {TINY}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment()
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(timeout=20) == 128 + signal.SIGPIPE
            assert process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_good_order(number: signal.Signals, tmp_path: Path) -> None:
    with standing_in(hanging) as host:
        command = [*VTOP, "load", host.standin.url, f"c=4 n=100 {TINY}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment()
        ) as process:
            host.standin.until(lambda: host.standin.in_flight == 4)
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 128 + number
        host.standin.until(lambda: host.standin.gone == 4)
    events = lines(out)
    assert events[-1] == {"type": "end", "t": events[-1]["t"], "reason": number.name}
    ends = [event for event in events if event["type"] == "request" and "end_s" in event and event["phase"] == 0]
    assert [event["error"] for event in ends] == ["cancelled_at_end"] * 4
    assert b"stopped" in err
    assert b"4 unfinished" in err


def every_other(body: dict[str, Any]) -> Answer:
    return whole(body) if body["max_tokens"] != 2 or body["prompt"][0] % 2 else refusal("503 Service Unavailable", "no")


def test_requests_that_fail_are_a_measurement_and_no_failure_of_the_load(tmp_path: Path) -> None:
    (tmp_path / "ids.jsonl").write_text("".join(f'{{"prompt": [{k}, 7], "output": 2}}\n' for k in range(4)))
    with standing_in(every_other) as host:
        done = vtop("load", host.standin.url, "c=2 n=4 dataset=ids.jsonl", folder=tmp_path)
    assert done.returncode == 0, done
    assert b"http_status 2" in done.stderr


IMPATIENT = """
from vtop.load.workers import controller
controller.WARMUP_LIMIT_S, controller.SETTLE_S = 0.2, 0.0
from vtop.cli import main
main()
"""


def test_a_phase_that_ended_early_is_told_by_the_exit_code(tmp_path: Path) -> None:
    with standing_in(lambda body: hanging(body) if body["max_tokens"] == 3 else whole(body)) as host:
        specs = (f"c=1 n=2 {TINY}", "c=1 n=2 in=8 out=3 warmup=1")
        done = subprocess.run(
            [sys.executable, "-c", IMPATIENT, "load", host.standin.url, *specs],
            capture_output=True, cwd=tmp_path, env=environment(), timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1, done
    assert b"its warm-up took longer than" in done.stderr.splitlines()[-1]


def test_that_nothing_succeeded_is_an_error(tmp_path: Path) -> None:
    with standing_in(lambda body: refusal("500 Internal Server Error", "it broke")) as host:
        done = vtop("load", host.standin.url, f"c=2 n=4 {TINY}", folder=tmp_path)
    assert done.returncode == 2
    assert b"http_status 4" in done.stderr
    assert done.stderr.decode().splitlines()[-1] == "vtop: no request succeeded"


def test_a_recording_with_a_load_ends_with_it(tmp_path: Path) -> None:
    with standing_in() as host:
        done = vtop(
            "record", host.standin.url.removeprefix("http://"), "--load", "c=2", "n=4", "in=8", "out=2", "-o",
            "run.jsonl", *NO_GPU, folder=tmp_path,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b""), done
    said = done.stderr.decode().splitlines()
    assert [line.split()[:2] for line in said if line.startswith("c=2 ")] == [["c=2", "4"]]
    assert said[-1].endswith("; vtop replay run.jsonl")
    last = decode((tmp_path / "run.jsonl").read_bytes().splitlines()[-1])
    assert isinstance(last, End)
    assert last.reason == "the load is done"


def test_a_sweep_is_a_recording_that_show_reads(tmp_path: Path) -> None:
    with standing_in() as host:
        done = vtop(
            "sweep", "--url", host.standin.url, "--concurrency", "1..4", "--in", "8", "--out", "2", "--with",
            "n=5 seed=3", "--gap", "0.1", "--slo", "ttft=10s", "-o", "sweep.jsonl", *NO_GPU, folder=tmp_path,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b""), done
    said = done.stderr.decode().splitlines()
    assert sum("p99 needs 459" in line for line in said) == 3
    assert [line.split()[0] for line in said[-4:-1]] == ["c=1", "c=2", "c=4"]
    assert all("kept 100" in line for line in said[-4:-1])
    assert said[-1].startswith("recorded sweep.jsonl in ")
    assert said[-1].endswith("; vtop replay sweep.jsonl")
    recording = FileRecording(tmp_path / "sweep.jsonl")
    events = recording.take()
    recording.close()
    assert isinstance(events[-1], End)
    ends = [event for event in events if isinstance(event, Load) and event.state == "end"]
    assert [end.reason for end in ends] == ["done"] * 3
    assert sum(isinstance(event, Request) and event.end_s is not None for event in events) == 22 + 2  # trials
    shown = strict(vtop("show", "sweep.jsonl", "--json", folder=tmp_path).stdout)
    assert (shown["load"]["phase"], shown["load"]["done"]) == (2, 5)


def test_a_sweep_that_is_not_all_on_record_does_not_say_it_is(tmp_path: Path) -> None:
    with standing_in() as host:
        words = ["--concurrency", "2,4", "--in", "8", "--out", "2", "--with", "n=40", "--gap", "0.1", *NO_GPU]
        command = [*VTOP, "sweep", "--url", host.standin.url, *words, "-o", "sweep.jsonl"]
        little = ["sh", "-c", 'ulimit -f 4; exec "$@"', "sh", *command]
        done = subprocess.run(little, capture_output=True, cwd=tmp_path, env=environment(), timeout=60, check=False)
    said = done.stderr.decode()
    assert done.returncode == 2
    assert "recorded sweep.jsonl" not in said
    assert said.splitlines()[-1].startswith("vtop: sweep.jsonl: File too large; the last ")


def test_the_scrape_after_each_phase_is_waited_for_and_not_only_after_the_first() -> None:
    scrapes = LastScrape(interval_s=1.0)

    def scrape(at_s: float) -> bool:
        scrapes.see([Scrape(t=at_s, server=0, at_s=at_s, took_s=0.01, bytes=1)])
        return scrapes.wanted()

    def ended(at_s: float) -> bool:
        scrapes.see([Load(t=at_s, phase=0, state="end", spec="c=1", shape="closed")])
        return scrapes.wanted()

    assert (scrape(1.0), ended(2.3), scrape(2.0)) == (False, True, True)
    assert (scrape(3.0), ended(5.5), scrape(6.0)) == (False, True, False)


@pytest.mark.parametrize(
    "words",
    [
        ("--slo", "ttft=fast"),
        ("--url", "http://192.0.2.7:8000"),
        ("--with", "nn=4"),
        ("--with", "dataset=none.jsonl"),
        ("--header", "X: \x01"),
        ("--ray", "127.0.0.1:1"),
    ],
)
def test_no_file_is_made_of_a_sweep_that_cannot_be(
    words: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said(run("sweep", *words, "-o", "sweep.jsonl"))
    assert os.listdir() == []


@pytest.mark.parametrize("words", [("--slo", "ttft=fast"), ("--load", "trace=none.jsonl"), ("--ray", "here")])
def test_no_file_is_made_of_a_screen_with_a_load_that_cannot_be(
    words: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vtop.cli.need_terminal", lambda instead: None)
    said(run("--url", "127.0.0.1:1", "--load", "c=1", *words, "--record", "new.jsonl"))
    assert os.listdir() == []


def test_another_host_is_loaded_only_with_consent_and_there_is_no_file_before(tmp_path: Path) -> None:
    command = [*VTOP, "--url", "http://192.0.2.7:8000", "--load", "c=1", "--record", "new.jsonl", "--no-gpu"]
    with Terminal(command, folder=tmp_path) as terminal:
        terminal.until(b"Put load on http://192.0.2.7:8000, which is another host? [y/N]")
        assert os.listdir(tmp_path) == []
        terminal.press(b"n\r")
        assert terminal.exit_code() != 0
    assert os.listdir(tmp_path) == []


def test_a_sweep_may_take_its_lengths_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "lengths.jsonl").write_text('{"input": 8, "output": 2}\n{"input": 9, "output": 1}\n')
    words = ("--concurrency", "1", "--with", "dataset=lengths.jsonl n=4 warmup=0", "-o", "sweep.jsonl", *NO_GPU)
    with standing_in() as host:
        done = vtop("sweep", "--url", host.standin.url, *words, folder=tmp_path)
    assert done.returncode == 0, done
    assert [(len(body["prompt"]), body["max_tokens"]) for body in host.standin.bodies] == [(8, 2), (9, 1)] * 2


def test_a_terminal_sees_the_phase_advance(tmp_path: Path) -> None:
    with standing_in(lambda body: whole(body) if body["max_tokens"] == 1 else hanging(body)) as host:
        command = [*VTOP, "sweep", "--url", host.standin.url, "--concurrency", "3", "--in", "8", "--out", "2", "-o"]
        with Terminal([*command, "s.jsonl", *NO_GPU], size=(100, 24), folder=tmp_path) as terminal:
            terminal.until(b"3 in flight")
            terminal.press(b"\x03")
            terminal.until(b"recorded s.jsonl")
    assert b"\r\x1b[K" in terminal.written


def test_ctrl_c_while_the_server_is_not_there(tmp_path: Path) -> None:
    command = [*VTOP, "load", "127.0.0.1:1", "c=1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment()
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"the load waits for the server: ")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130


# --- TLS: what gets the screen into a server gets its load processes in


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.mark.parametrize("how", ["--ca-file", "--insecure"])
def test_a_load_over_tls_to_whom_one_trusts_or_without_asking(how: str, certificate: Path, tmp_path: Path) -> None:
    words = (how, str(certificate)) if how == "--ca-file" else (how,)
    with standing_in(tls=server_tls(certificate)) as host:
        done = vtop("load", host.standin.url, f"c=2 n=4 {TINY} workers=2", *words, folder=tmp_path)
    assert (done.returncode, len(host.standin.bodies)) == (0, 4), done
    assert not [event for event in lines(done.stdout) if event["type"] == "note"]


def test_a_sweep_over_tls_watches_and_loads_alike(certificate: Path, tmp_path: Path) -> None:
    words = ("--concurrency", "2", "--in", "8", "--out", "2", "--with", "n=4", "-o", "sweep.jsonl", *NO_GPU)
    with standing_in(tls=server_tls(certificate)) as host:
        done = vtop("sweep", "--url", host.standin.url, "--ca-file", str(certificate), *words, folder=tmp_path)
    assert (done.returncode, len(host.standin.bodies)) == (0, 6), done


def test_a_certificate_that_is_not_trusted_is_one_line(certificate: Path, tmp_path: Path) -> None:
    with standing_in(tls=server_tls(certificate)) as host:
        done = vtop("load", host.standin.url, "c=1", folder=tmp_path)
    *_, last = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert last == f"vtop: {host.standin.url}: its certificate is not trusted (--ca-file or --insecure)"
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["dear diary", "", "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n"])
def test_certificates_that_are_none_are_one_line_and_no_file(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_text(content)
    url = "https://127.0.0.1:1"
    for words in (
        ("load", url, "c=1"),
        ("sweep", "--url", url, "-o", "new.jsonl"),
        ("record", "--url", url, "-o", "new.jsonl"),
        ("--url", url, "--once", "--record", "new.jsonl"),
    ):
        line = said(run(*words, "--ca-file", "ca.pem"))
        assert line == "vtop: ca.pem: cannot be used as --ca-file (no certificates in PEM form)"
        assert os.listdir() == ["ca.pem"]
