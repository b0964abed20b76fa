"""Every number of every shipped recording, saved and compared: what a change that should change no number changed.

    python bench/same_numbers.py save before.json.gz
    python bench/same_numbers.py compare before.json.gz after.json.gz [--renamed OLD=NEW …]

Saved are, for each recording in recordings/: the frame at eight instants (`vtop show --json`), the report
(`vtop report --format json`), the screen at its end (`vtop show --text`). A renamed key is given as OLD=NEW, each a
part of a path between dots; OLD alone is a key that is gone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

INSTANTS = 8
FOLDER = Path(__file__).parent.parent / "recordings"


def asked(*words: str) -> str:
    """What a verb of vtop says on stdout."""
    return subprocess.run([sys.executable, "-m", "vtop", *words], capture_output=True, text=True, check=True).stdout


def of_recording(path: Path) -> dict[str, object]:
    whole = json.loads(asked("show", str(path), "--json"))
    found: dict[str, object] = {"report": json.loads(asked("report", str(path), "--format", "json"))}
    for part in range(1, INSTANTS):
        at_s = round(whole["now_s"] * part / INSTANTS, 1)
        found[f"show at {at_s}"] = json.loads(asked("show", str(path), "--json", "--at", str(at_s)))
    return found | {"show": whole, "screen": asked("show", str(path), "--text", "--size", "160x60").splitlines()}


def flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of a document with its path."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(one, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from flat(one, f"{path}.{at}")
    else:
        yield path, value


def renamed(path: str, names: dict[str, str]) -> str | None:
    parts = [names.get(part, part) for part in path.split(".")]
    return None if "" in parts else ".".join(parts)


def compare(before: Path, after: Path, names: dict[str, str]) -> int:
    old, new = (json.loads(gzip.decompress(path.read_bytes())) for path in (before, after))
    differ = same = 0
    for name in old:
        now = dict(flat(new.get(name, {})))
        for path, value in flat(old[name]):
            place = renamed(path, names)
            if place is None:
                continue
            if place in now and now[place] == value:
                same += 1
            else:
                differ += 1
                print(f"{name} {path}: {value!r} → {now.get(place, 'gone')!r}")
    print(f"{same} equal, {differ} differ")
    return 1 if differ else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("save", "compare"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--renamed", nargs="*", default=[], metavar="OLD=NEW")
    asked_for = parser.parse_args()
    if asked_for.what == "compare":
        names = dict(pair.split("=") if "=" in pair else (pair, "") for pair in asked_for.renamed)
        return compare(asked_for.files[0], asked_for.files[1], names)
    paths = sorted(FOLDER.glob("*.jsonl*"))
    with ThreadPoolExecutor() as pool:
        found = {
            path.name.partition(".")[0]: one for path, one in zip(paths, pool.map(of_recording, paths), strict=True)
        }
    asked_for.files[0].write_bytes(gzip.compress(json.dumps(found).encode()))
    print(f"{sum(1 for _ in flat(found))} values of {len(found)} recordings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
