"""Every number in every sentence of the reports of all recordings, held against the report's JSON.

    python bench/sentences.py                    # all recordings: a table, then what no value of the JSON explains
    python bench/sentences.py sweep run.jsonl    # some: a name of those, or any file

Read are findings and their evidence, validity, next steps, captions, figures in words and the notes of tables. A number
in them is held to be true where some value of the JSON, written as `vtop.units` writes values, gives the same letters;
a ratio as per cent, seconds with their unit or as a clock, a list by its length. Names (labels, loads, flags, files)
and a few constants of vtop's own (CONSTANTS) are no claims about the run. By chance the same letters may come from
another value: how often is told by the control, the same test with each number changed by a twelfth.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtop import units
from vtop.recording import FileRecording
from vtop.report.model import Report, build
from vtop.report.render.document import Advice, Document, Drawing, Findings, Table, Text
from vtop.report.render.json import recording
from vtop.report.report_document import document

ROOT = Path(__file__).parent.parent
SHIPPED = (
    *sorted((ROOT / "recordings").glob("*.jsonl*")),
    *sorted((ROOT / "tests" / "recordings").glob("attached*.gz")),
)
UNITS = r"%|ms|µs|s|GiB|MiB|KiB|kW|W|kJ|MJ|J|×|pp|°C|MHz"
NUMBER = re.compile(
    rf"(?<![\w.=/-])[−+]?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?(?:e[−-]\d+)?(?::\d\d)*(?:\s?(?:{UNITS})(?![\w]))?"
)
NAMED = ("label", "name", "spec", "url", "version", "detail", "file", "command", "why", "flag", "method", "models")
ADDED_UP = ("done", "failed", "unfinished", "wrong_length", "sent")  # said about all loads together
ADDED_UP_SERVERS = ("scrapes",)
# what vtop itself sets, whatever the run: (words around it, why)
CONSTANTS = (
    ("p99 needs 459", "samples that p99 needs"),
    ("has 459 requests and 10 scrapes", "what p99 and a steady part need"),
    ("fewer than 2 rounds", "rounds of a closed loop"),
    ("of which 10 are few", "scrapes of a steady part"),
    ("middle 60 % of a phase", "the steady part"),
    ("90 for p95, 459 for p99, 4,603 for p99.9", "samples that percentiles need"),
    ("needs 46,050 gaps", "samples that p99.99 needs"),
    ("within 3 % of its limit", "what counts as near the limit"),
    ("KV ≥ 90 %", "a column's name"),
    ("≥ 95 %", "a column's name"),
    ("Above 100 %", "the pool"),
    ("not from 0", "an axis"),
    ("what is 0 has", "an axis"),
    ("begin at 0", "an axis"),
    ("where 1 % does", "what p99 is"),
    ("; 1 is in proportion", "a slope"),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A number in a sentence, and whether some value of the JSON explains it."""

    where: str
    sentence: str
    number: str
    path: str | None  # of the first value that does


def sentences(content: Document) -> Iterator[tuple[str, str]]:
    """(where, sentence) of everything that is written in words."""
    for section in content.sections:
        for block in section.blocks:
            match block:
                case Text(text):
                    yield "text", text
                case Findings(items):
                    for one in items:
                        yield "finding", one.sentence
                        for said in one.evidence:
                            yield "evidence", said
                case Table():
                    for note in block.notes:
                        yield "note", note
                    if block.title == "Validity of the run":
                        for row in block.rows:
                            yield "validity", row[2]
                case Advice(_, why, _):
                    yield "next step", why
                case Drawing(figure):
                    yield "caption", figure.caption
                    yield "in words", figure.alt


def values(content: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a JSON with its path; of a list its length, too."""
    if isinstance(content, dict):
        for key, one in content.items():
            if key not in ("findings", "validity", "steps"):
                yield from values(one, f"{path}.{key}".lstrip("."))
    elif isinstance(content, list):
        yield f"{path}.length", float(len(content))
        for at, one in enumerate(content):
            yield from values(one, f"{path}.{at}")
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield path, float(content)


def names(content: Any, key: str = "") -> Iterator[str]:
    """Texts of a JSON that name something."""
    if isinstance(content, dict):
        for word, one in content.items():
            yield from names(one, word)
    elif isinstance(content, list):
        for one in content:
            yield from names(one, key)
    elif isinstance(content, str) and key in NAMED and any(letter.isdigit() for letter in content):
        yield content


def forms(path: str, value: float) -> set[str]:
    """All that vtop writes for a value, by what its field's name says it is."""
    field, size = path.rpartition(".")[2], abs(value)
    plain = {units.number(size), units.count(size), units.plain(size), *(f"{size:.{places}f}" for places in (1, 2, 3))}
    plain |= {f"{size:.2g}", f"{size:.3g}"}
    if field in ("low", "high") and path.rpartition(".")[0].endswith("_s"):  # a bucket
        return {
            f"{scaled:.3g}{unit}" for scaled, unit in ((size, ""), (size, " s"), (size * 1e3, ""), (size * 1e3, " ms"))
        }
    if field.endswith("per_s"):
        return plain | {units.number(size * 60)}
    if field == "cycle_spread_s":  # "4.4 s ± 1.9"
        return {f"{size:.1f}", units.seconds(size)}
    if field.endswith("_s") or field == "seconds" or (field.isdigit() and ".bounds." in path):
        return {units.seconds(size), units.clock(size), units.span(size), f"{size:.4f} s", units.plain(size) + " s"}
    if field.endswith(("ratio", "_share")):
        edges = {f"{math.floor(size * 100)} %", f"{math.ceil(size * 100)} %"}  # an axis around it
        whole = {units.whole_percent(size).removesuffix(" %")}  # of a range: (0–100)
        return {units.percent(size), units.whole_percent(size), f"{size:.3f}", units.number(size)} | edges | whole
    if field.endswith("_bytes"):
        return {units.bytes_(size)}
    if field.endswith("flops"):
        return {f"{size / 1e9:.2f}", f"{size / 1e9:.6f}"}
    if field == "joules":
        return {units.joules(size)}
    return plain | ({units.watts(size)} if "power" in path or field.endswith("_w") else set())


class Explained:
    """What a report's JSON can explain."""

    def __init__(self, report: Report) -> None:
        content = recording(report)
        self.by_form: dict[str, str] = {}
        for path, value in values(content):
            for form in forms(path, value):
                self.by_form.setdefault(form, path)
        for field in ADDED_UP:
            every = [one["load"][field] for one in content["phases"] if one["load"] is not None]
            self.by_form.setdefault(units.count(sum(every)), f"phases.*.load.{field}, added up")
        for field in ADDED_UP_SERVERS:
            every = [one[field] for one in content["sampling"]]
            self.by_form.setdefault(units.count(sum(every)), f"sampling.*.{field}, added up")
        hosts = {one.url.partition("//")[2] for one in report.servers}
        self.names = sorted({*names(content), report.file, *hosts}, key=len, reverse=True)

    def claims(self, where: str, sentence: str) -> Iterator[Claim]:
        for number in numbers(self.bare(sentence)):
            yield Claim(where, sentence, number, self.path(number))

    def path(self, number: str) -> str | None:
        bare = number.lstrip("−+")
        return self.by_form.get(bare) or self.by_form.get(re.sub(r"\s?(?:×|°C|W)$", "", bare))

    def bare(self, sentence: str) -> str:
        """Without names and constants."""
        for words, _ in CONSTANTS:
            sentence = sentence.replace(words, " ")
        for name in self.names:
            sentence = sentence.replace(name, " ")
        return sentence


def numbers(sentence: str) -> list[str]:
    return [found.strip() for found in NUMBER.findall(sentence)]


def changed(number: str) -> str:
    """The same number a twelfth higher, with as many digits."""
    digits = re.search(r"\d[\d,]*(?:\.\d+)?", number)
    assert digits is not None
    text = digits.group().replace(",", "")
    places = len(text.partition(".")[2])
    return number.replace(digits.group(), f"{float(text) * 13 / 12 + 10**-places:,.{places}f}", 1)


def read(path: Path) -> Report:
    source = FileRecording(path)
    try:
        return build(source, path.name)
    finally:
        source.close()


def claims(report: Report) -> list[Claim]:
    """Every number in a report's sentences."""
    explained = Explained(report)
    return [one for where, said in sentences(document([report])) for one in explained.claims(where, said)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", help="[all that come with vtop, and four that were watched]")
    asked = parser.parse_args().recordings
    paths = [path for path in SHIPPED if not asked or path.name.partition(".")[0] in asked]
    paths += [Path(word) for word in asked if Path(word).is_file()]
    print(f"{'recording':24}{'sentences':>10}{'numbers':>9}{'matched':>9}{'unmatched':>11}{'control':>9}")
    left: list[tuple[str, Claim]] = []
    for path in paths:
        report = read(path)
        explained, found = Explained(report), claims(report)
        said = list(sentences(document([report])))
        matched = sum(one.path is not None for one in found)
        chance = sum(explained.path(changed(one.number)) is not None for one in found) / max(1, len(found))
        name = path.name.partition(".")[0]
        print(f"{name:24}{len(said):>10}{len(found):>9}{matched:>9}{len(found) - matched:>11}{chance:>9.0%}")
        left += [(name, one) for one in found if one.path is None]
    for name, one in left:
        print(f"\n{name}, {one.where}: {one.number!r} is no value of the JSON\n    {one.sentence[:400]}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
