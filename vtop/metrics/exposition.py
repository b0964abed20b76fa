"""Reads a Prometheus text page into series and numbers, keeping every good line of a damaged page.

A server prints the same few hundred series on every page and only the numbers change, so the parser remembers what the
text before the number means and reads that text once. Nothing here knows which program wrote the page.

The format is text 0.0.4, plus what servers slip into it: exemplars, timestamps, `# EOF`, a byte order mark, CRLF.
Quoted names (`{"my.metric"} 1`, only sent to clients that ask for them) count as bad lines.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from operator import ne
from types import MappingProxyType
from typing import NamedTuple

MAX_LABEL_CHARS = 4096  # a longer label value is cut, and ends with "…"
MAX_EXCERPT_CHARS = 60
_MAX_HEAD_CHARS = 65_536  # a longer name-and-labels text is read anew on every page, not remembered
_MEMO_CHARS = 2_000_000  # some 20,000 series, many times what a large server prints

NO_PLACE = -1
_KINDS = frozenset(("counter", "gauge", "histogram", "summary", "untyped", "unknown"))
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_OPEN = re.compile(r"[ \t]*\{[ \t]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"]*)"[ \t]*(?:,[ \t]*|(?=\}))')
_ESCAPE = re.compile(r'\\([\\"n])')


class SeriesKey(NamedTuple):
    """What a number on the page is about. One parser gives the same object for the same text, page after page."""

    name: str  # as on the page: "http_request_duration_seconds_bucket"
    labels: tuple[tuple[str, str], ...]  # (name, value), in page order, escapes undone


@dataclass(frozen=True, slots=True)
class Page:
    """One page, read. No samples and some bad lines: this was not a metrics page."""

    samples: tuple[tuple[SeriesKey, float], ...]  # in page order; NaN and infinities as they came
    types: Mapping[str, str]  # family name -> counter, gauge, histogram, summary, untyped or unknown
    bad_lines: int  # lines that are neither comment nor sample
    first_bad: str  # the beginning of the first of them, printable, at most 60 characters; "" if none


class Parser:
    """Reads pages of one server. Keep one per server: what it remembers is what makes it fast.

    Memory stays bounded whatever the pages hold, and a series that is on every page stays the same object.
    """

    def __init__(self) -> None:
        # Two generations: when the young one is full it becomes the old one, and what is still in use moves back.
        self._young: dict[str, SeriesKey] = {}
        self._old: dict[str, SeriesKey] = {}
        self._young_chars = 0
        self._type_lines: list[str] = []
        self._types = _types([])
        self._lines: list[str] = []  # of the latest page
        self._places: list[int] = []  # by line: which sample it is; NO_PLACE where a change of it may be anything

    def changes(self, text: str) -> list[tuple[int, float]] | None:
        """(place among the samples, number) of the numbers that changed since the latest page; None where anything
        else did, or may have: then the page is to be parsed."""
        lines = text.removeprefix("\ufeff").split("\n")
        before, places = self._lines, self._places
        if len(lines) != len(before):
            return None
        found = []
        for at in compress(range(len(lines)), map(ne, lines, before)):
            head, _, number = lines[at].rpartition(" ")
            if places[at] == NO_PLACE or "_" in number or before[at].rpartition(" ")[0] != head:
                return None
            try:
                found.append((places[at], float(number)))
            except ValueError:
                return None
        self._lines = lines
        return found

    def parse(self, text: str) -> Page:
        """Read one page. Never raises.

        A last line cut inside its number still looks like a sample: whoever fetched the body has to know it is whole.
        """
        samples: list[tuple[SeriesKey, float]] = []
        type_lines: list[str] = []
        bad_lines = 0
        first_bad = ""
        keep = samples.append
        known = self._young.get
        # Not splitlines(): it also splits at U+2028 and others, which may stand inside a label.
        lines = text.removeprefix("\ufeff").split("\n")
        places = [NO_PLACE] * len(lines)
        for at, line in enumerate(lines):
            if line.startswith("#"):
                if line.startswith("# TYPE "):
                    type_lines.append(line)
                continue
            head, _, number = line.rpartition(" ")
            series = known(head)
            if series is not None and "_" not in number:  # float() takes 1_000, Prometheus does not
                try:
                    keep((series, float(number)))
                    places[at] = len(samples) - 1
                    continue
                except ValueError:
                    pass
            bare = line.strip()
            if not bare or bare.startswith("#"):
                continue
            sample = self._sample(bare)
            if sample is not None:
                keep(sample)
                continue
            bad_lines += 1
            first_bad = first_bad or _excerpt(bare)
        if self._young_chars > _MEMO_CHARS:
            self._old, self._young, self._young_chars = self._young, {}, 0
        if type_lines != self._type_lines:
            self._type_lines, self._types = type_lines, _types(type_lines)
        self._lines, self._places = lines, places
        return Page(tuple(samples), self._types, bad_lines, first_bad)

    def _sample(self, line: str) -> tuple[SeriesKey, float] | None:
        """Read a line whose beginning is not remembered, or that has more than a number after it."""
        # With escapes blanked out, at equal length, the quotes that are left are the real ones.
        plain = line.replace(r"\\", "..").replace(r"\"", "..") if "\\" in line else line
        name = _NAME.match(plain)
        if name is None:
            return None
        end = name.end()
        spans: list[tuple[str, int, int]] = []
        if opened := _OPEN.match(plain, end):
            end = opened.end()
            while label := _LABEL.match(plain, end):
                spans.append((label[1], label.start(2), label.end(2)))
                end = label.end()
            if not plain.startswith("}", end):
                return None
            end += 1
        elif not line[end : end + 1].isspace():
            return None

        fields = line[end:].partition(" # ")[0].split(None, 2)  # what follows " # " is an exemplar
        numbers = [number for field in fields if (number := _value(field)) is not None]
        if len(fields) not in (1, 2) or len(numbers) != len(fields):  # the second is a timestamp
            return None
        series = self._series(line[:end], line, name[0], spans)
        return None if series is None else (series, numbers[0])

    def _series(self, head: str, line: str, name: str, spans: list[tuple[str, int, int]]) -> SeriesKey | None:
        series = self._young.get(head)
        if series is not None:
            return series
        series = self._old.get(head)
        if series is None:
            if len({label for label, _, _ in spans}) != len(spans):
                return None
            series = SeriesKey(name, tuple((label, _text(line, start, end)) for label, start, end in spans))
        if len(head) <= _MAX_HEAD_CHARS:
            self._young[head] = series
            self._young_chars += len(head)
        return series


def _value(number: str) -> float | None:
    try:
        return None if "_" in number else float(number)
    except ValueError:
        return None


def _text(line: str, start: int, end: int) -> str:
    cut = end - start > MAX_LABEL_CHARS
    raw = line[start : start + MAX_LABEL_CHARS - 1] if cut else line[start:end]
    if "\\" in raw:
        raw = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], raw)
    return raw + "…" if cut else raw


def _types(lines: list[str]) -> Mapping[str, str]:
    types: dict[str, str] = {}
    for line in lines:
        words = line.split(None, 4)
        if len(words) == 4:
            types[words[2]] = words[3] if words[3] in _KINDS else "unknown"
    return MappingProxyType(types)


def _excerpt(line: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in line[:MAX_EXCERPT_CHARS])
