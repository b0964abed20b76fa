"""Seeded mutations of scrapes, event streams, recordings and command lines: none may crash, hang or fill the memory.

usage: python bench/mutate.py [--seconds 180] [--seed 1] [--processes 1] [--only scrapes,streams,recordings,commands]
       python bench/mutate.py --cases scrapes=1000000,streams=100000,recordings=100000,commands=8000 --processes 16
Each process has a seed of its own, from --seed up. Prints how many of each were tried, the longest and each process's
peak memory, and fails with the seed, the number and the bytes of the first that broke something.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from vtop import faults
from vtop.cli import main as vtop
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer
from vtop.metrics.page import Folder, NotMetrics
from vtop.recording import FileRecording, LiveRecording, Start, Target, decode, encode
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names
from vtop.session.frame.frame import View
from vtop.session.session import Session

ROOT: Final = Path(__file__).resolve().parents[1]
LONGEST_S: Final = 60  # that one case may take: a report may simulate for 20 s of them
MOST_MEMORY_KB: Final = 1_500_000
FAMILIES: Final = 8  # of a shortened page
ODD: Final = (
    *(b"NaN", b"+Inf", b"-Inf", b"1e308", b"-1e308", b"1e-320", b"-0", b"9" * 30, b"9" * 5000, b"1_0", b"0x1", b"1e17"),
    *(b"", b"\x00", b"\x1b]0;x\x07", b"\xe2\x80\xae", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\n", b"\n\n", b"-1"),
    *(b'"', b"\\", b"{", b"}", b"[", b"[" * 5000, b"]", b":", b",", b"=", b"/", b"..", b"null", b"true"),
    *(b'le="NaN"', b"data: ", b"[DONE]"),
)


class Broken(Exception):
    """A case that did what none may do."""


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few random changes: bytes, numbers, lines and pieces turned, lost, doubled, moved or replaced by odd ones."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        to = min(to, at + rng.choice((1, 4, 30, 3000)))
        lines = data.split(b"\n")
        line = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                data = data[:at] + rng.choice(ODD) + data[at:]
            case 1:
                data = data[:at] + rng.choice(ODD) + data[to:]
            case 2:
                data = data[:at] + data[to:]
            case 3:
                data = data[:to] + data[at:to] * rng.choice((1, 2, 50)) + data[to:]
            case 4:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 5:
                lines[line] = lines[rng.randrange(len(lines))]
                data = b"\n".join(lines)
            case 6:
                head, sign, number = lines[line].rpartition(rng.choice((b" ", b":", b"=")))
                lines[line] = head + sign + rng.choice(ODD) + (b"," + number.partition(b",")[2]) * (b"," in number)
                data = b"\n".join(lines)
            case _:
                data = data[:at]
    return data[: 4 << 20]


def shortened(page: bytes, rng: random.Random) -> bytes:
    """A page with some of its families, each whole and in its place: as odd as all of it, and read in a tenth of the
    time."""
    families = page.split(b"# HELP ")
    chosen = sorted(rng.sample(range(1, len(families)), min(FAMILIES, len(families) - 1)))
    return b"# HELP ".join([families[0], *(families[at] for at in chosen)])


def scrapes(rng: random.Random) -> Iterator[bytes]:
    """A server's scrapes, folded into lines, written, read and shown: of 20 servers one with the page whole."""
    pages = [path.read_bytes() for path in sorted((ROOT / "tests" / "scrapes").glob("*.txt"))]
    start = Start(format=FORMAT, vtop="0", unix_s=1.7e9, servers=(Target(url="http://a"),), interval_s=1.0)
    while True:
        session, folder, page = Session(start), Folder(series_names), rng.choice(pages)
        if rng.random() < 0.95:
            page = shortened(page, rng)
        seconds = count(1)
        live = LiveRecording(start, seconds.__next__)
        for second in range(20):
            data = mutated(page, rng) if rng.random() < 0.8 else page
            yield data
            with contextlib.suppress(NotMetrics):
                text = data.decode("utf-8", "replace")
                scrape = folder.scrape(text, server=0, at_s=float(second), took_s=0.01, bytes=len(data), health=200)
                live.append(scrape)
            for event in live.take():
                session.apply(event)
        session.frame(session.end_s, View(columns=60))
        live.close("quit")


def streams(rng: random.Random) -> Iterator[bytes]:
    """Answers to requests of a load, as a server streams them, cut anywhere."""
    texts = [path.read_bytes() for path in sorted((ROOT / "tests" / "streams").glob("*.txt"))]
    bodies = [text.partition(b"\r\n\r\n")[2][:20_000] for text in texts]
    while True:
        data = mutated(rng.choice(bodies), rng)
        yield data
        exchange = Exchange(b"", ExpectedAnswer(output_tokens=rng.choice((None, 8))))
        exchange.begin(
            0.0, rng.choice((200, 200, 200, 400, 500)), rng.choice((b"text/event-stream", b"application/json"))
        )
        at = 0
        while at < len(data):
            size = rng.choice((1, 20, 500, 100_000))
            if exchange.take(data[at : at + size], at / 1e4) is not None:
                break
            at += size
        exchange.finish(at / 1e4, at / 1e4)
        line = encode(exchange.record(id=1, phase=0))
        if encode(decode(line)) != line:
            raise Broken("the line does not come back as it was")


def recordings(rng: random.Random) -> Iterator[bytes]:
    """Recordings, plain and compressed, read to their end and shown."""
    files = sorted((ROOT / "tests" / "recordings").glob("sweep_c[1248].jsonl.gz"))
    whole = [gzip.decompress(path.read_bytes()) for path in files]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        while True:
            lines = rng.choice(whole).splitlines(keepends=True)
            first = rng.randrange(max(1, len(lines) - 60))
            data = b"".join([lines[0], *lines[first : first + 60]])
            packed = rng.random() < 0.1
            data = mutated(gzip.compress(data), rng) if packed else mutated(data, rng)
            yield data
            path.write_bytes(data)
            with contextlib.suppress(faults_of_the_user()):
                recording = FileRecording(path)
                session = Session(recording.start)
                while events := recording.take(500):
                    for event in events:
                        session.apply(event)
                recording.close()
                for at_s in (session.end_s / 2, session.end_s):
                    session.frame(at_s, View(columns=60))


def commands(rng: random.Random) -> Iterator[bytes]:
    """Command lines of verbs that end by themselves."""
    known: tuple[str, ...] = (
        "check overload",
        "show overload --at 0:30 --size 120x36",
        "show sweep_c64 --json --window 30s",
        "report sweep_c64 --format txt --phase 0:01-0:05",
        "cut overload --from 0:30 --to 1:00 -o X",
        "export overload --to csv -o X/",
        "compare sweep_c64 sweep_c64 --fail-over 5%",
        "record --for 0.1 --url :1 --no-gpu -o X",
        "merge overload -o X --force",
        "load --help c=4 in=8 --slo ttft=1s",
        "sweep --help --concurrency 1..4 --with n=4",
        "--version",
    )
    odd: tuple[str, ...] = (
        "nan",
        "inf",
        "-1",
        "1e999",
        "",
        "--",
        "-",
        "\x1b]0;x\x07",
        "9" * 400,
        "0:0:0:0",
        "٣",
        "=",
        "c=",
        "/dev/null",
    )
    odd += ("\udcff", "a" * 5000)  # half a character: what a shell's bytes become that are no text
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            while True:
                words = rng.choice(known).split(" ")
                # a load or a recording waits for its server for ever: what ends it comes first and stays as it is
                fixed = {"--for": 3, "--help": 2}.get(words[1] if len(words) > 1 else "", 1)
                for _ in range(rng.choice((0, 1, 1, 2))):
                    at = rng.randrange(fixed, len(words) + 1)
                    words[at : at + rng.randrange(2)] = [rng.choice(odd)] if rng.random() < 0.8 else []
                yield repr(words).encode("utf-8", "replace")
                result = CliRunner().invoke(vtop, words)
                if result.exit_code not in (0, 1, 2, 3, 130) or result.exception not in (
                    None,
                    *_ends(result.exception),
                ):
                    raise Broken(f"exit code {result.exit_code}: {result.exception!r}")
        finally:
            os.chdir(here)


def _ends(error: BaseException | None) -> tuple[BaseException, ...]:
    return (error,) if isinstance(error, SystemExit) else ()


def faults_of_the_user() -> type[Exception]:
    from vtop.errors import VtopError

    return VtopError


KINDS: Final[dict[str, tuple[Callable[[random.Random], Iterator[bytes]], float]]] = {
    "scrapes": (scrapes, 0.35),
    "streams": (streams, 0.2),
    "recordings": (recordings, 0.3),
    "commands": (commands, 0.15),
}


@dataclass(frozen=True, slots=True)
class Tried:
    """What one process tried of one kind."""

    cases: int
    took_s: float
    longest_s: float  # of one case
    peak_memory_mb: float  # of the process, up to then


def run(kind: str, seed: int, *, seconds: float, most: float) -> Tried:
    """For so many seconds, or until so many cases were tried. Raises Broken for one that broke something."""
    make, tried, data, longest_s = KINDS[kind][0], 0, b"", 0.0
    cases, began_s = make(random.Random(f"{seed} {kind}")), time.monotonic()
    last_s = began_s
    try:
        for case in cases:
            data = case  # kept, should it break something
            signal.alarm(LONGEST_S)
            now_s = time.monotonic()
            longest_s, last_s = max(longest_s, now_s - last_s), now_s
            if faults.told:
                raise Broken(faults.told[0])
            if tried % 256 == 0 and _peak_memory_kb() > MOST_MEMORY_KB:
                raise Broken("more memory than anything here needs")
            if tried >= most or now_s > began_s + seconds:
                break
            tried += 1
    except Exception as error:
        kept = Path(tempfile.gettempdir()) / f"vtop-mutate-{kind}-{seed}-{tried}"
        kept.write_bytes(data)
        raise Broken(f"{kind}, seed {seed}, number {tried}, kept as {kept}: {type(error).__name__}: {error}") from error
    finally:
        signal.alarm(0)
        cases.close()  # type: ignore[attr-defined]
    return Tried(tried, time.monotonic() - began_s, longest_s, _peak_memory_kb() / 1024)


def _peak_memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def one_process(seed: int, shares: dict[str, tuple[float, float]], told: Connection) -> None:
    """Tries each kind for its seconds or its number of cases; tells of each, or how it broke."""

    def hangs(*_: Any) -> None:
        raise Broken(f"it takes longer than {LONGEST_S} s")

    signal.signal(signal.SIGALRM, hangs)
    for kind, (seconds, most) in shares.items():
        try:
            told.send((kind, run(kind, seed, seconds=seconds, most=most)))
        except Broken as error:
            told.send((kind, str(error)))
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180.0, help="of each process, over all kinds")
    parser.add_argument("--cases", help="so many of each instead, over all processes: scrapes=1000000,streams=100000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default=",".join(KINDS))
    asked = parser.parse_args()
    if asked.cases:
        wanted = {kind: int(number) for kind, _, number in (part.partition("=") for part in asked.cases.split(","))}
        shares = {kind: (float("inf"), -(-number // asked.processes)) for kind, number in wanted.items()}
    else:
        whole = sum(KINDS[kind][1] for kind in asked.only.split(","))
        shares = {kind: (asked.seconds * KINDS[kind][1] / whole, float("inf")) for kind in asked.only.split(",")}

    spawning, running = multiprocessing.get_context("spawn"), []
    for seed in range(asked.seed, asked.seed + asked.processes):
        mine, its = spawning.Pipe(duplex=False)
        process = spawning.Process(target=one_process, args=(seed, shares, its))
        process.start()
        its.close()
        running.append((seed, process, mine))
    tried: dict[str, list[Tried]] = {kind: [] for kind in shares}
    broken = []
    for seed, process, mine in running:
        of_it = {}
        with contextlib.suppress(EOFError):
            while True:
                kind, told = mine.recv()
                of_it[kind] = told
        process.join()
        broken += [told for told in of_it.values() if isinstance(told, str)]
        if process.exitcode or (len(of_it) < len(shares) and not broken):
            broken.append(f"the process with seed {seed} ended with {process.exitcode} after {', '.join(of_it)}")
        done = {kind: told for kind, told in of_it.items() if isinstance(told, Tried)}
        for kind, told in done.items():
            tried[kind].append(told)
        if asked.processes > 1:
            peak_mb = max((told.peak_memory_mb for told in done.values()), default=0.0)
            counts = ", ".join(f"{told.cases:,} {kind}" for kind, told in done.items())
            print(f"seed {seed}: {counts}; peak memory {peak_mb:.0f} MB", flush=True)
    for kind, parts in tried.items():
        if parts:
            cases, took_s = sum(part.cases for part in parts), max(part.took_s for part in parts)
            longest_s, peak_mb = max(part.longest_s for part in parts), max(part.peak_memory_mb for part in parts)
            print(f"{kind:<10} {cases:>9,} in {took_s:6.1f} s, longest {longest_s:.2f} s; peak memory {peak_mb:.0f} MB")
    print("\n".join(broken) if broken else "none broke anything")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
