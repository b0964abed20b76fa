"""A Prometheus in memory: what a test stores in it is answered as the real one does, window by window."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from vtop.sources.prometheus.api import PrometheusApi, StoredSeries

ANSWERS = Path(__file__).parent / "answers"
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


def answer(name: str) -> list[StoredSeries]:
    """The series of a recorded answer of Prometheus 2.42."""
    body = gzip.decompress((ANSWERS / f"{name}.json.gz").read_bytes())
    return msgspec.convert(rows_of(json.loads(body)), list[StoredSeries])


def rows_of(said: Any) -> list[dict[str, Any]]:
    return [{**row, "values": msgspec.Raw(msgspec.json.encode(row["values"]))} for row in said["data"]["result"]]


def series(name: str, labels: Mapping[str, str], samples: Sequence[tuple[float, float]]) -> StoredSeries:
    values = msgspec.Raw(msgspec.json.encode([[at, f"{value!r}"] for at, value in samples]))
    return StoredSeries({"__name__": name, **labels}, values)


class Store(PrometheusApi):
    """closed: a window includes its beginning, as in Prometheus 2."""

    def __init__(self, rows: Sequence[StoredSeries], *, closed: bool = True, piece_s: float = 1e9) -> None:
        self.url = "http://prom:9090"
        self.rows = list(rows)
        self.asked: list[str] = []
        self._closed = closed
        self._piece_s = piece_s

    def clock_s(self) -> float:
        return max(at for row in self.rows for at in row.columns()[0])

    def series(self, selector: str, begin_s: float, end_s: float) -> list[dict[str, str]]:
        return [row.metric for row in self._picked(selector, begin_s, end_s)]

    def presence(self, query: str, begin_s: float, end_s: float, step_s: float) -> list[StoredSeries]:
        return self._picked(query.removeprefix("count(").removesuffix(")"), begin_s, end_s)

    def samples(
        self, selector: str, begin_s: float, end_s: float, length_s: float = 1e9
    ) -> Iterator[tuple[float, list[StoredSeries]]]:
        while begin_s < end_s:
            until_s = min(end_s, begin_s + min(length_s, self._piece_s))
            yield until_s, self.window(selector, until_s, until_s - begin_s)
            begin_s = until_s

    def window(self, selector: str, end_s: float, length_s: float) -> list[StoredSeries]:
        self.asked.append(selector)
        return self._picked(selector, end_s - length_s, end_s)

    def close(self) -> None:
        pass

    def _picked(self, selector: str, begin_s: float, end_s: float) -> list[StoredSeries]:
        tests = _MATCHER.findall(selector)
        found = []
        for row in self.rows:
            if not all(_holds(row.metric.get(label, ""), op, value) for label, op, value in tests):
                continue
            pairs = [
                [at, f"{value!r}"]
                for at, value in zip(*row.columns(), strict=True)
                if (begin_s < at or (self._closed and begin_s == at)) and at <= end_s
            ]
            if pairs or row.is_native:
                found.append(StoredSeries(row.metric, msgspec.Raw(msgspec.json.encode(pairs)), row.histograms))
        return found


def _holds(value: str, op: str, expected: str) -> bool:
    expected = expected.replace("\\\\", "\\")
    is_so = re.fullmatch(expected, value) is not None if "~" in op else value == expected
    return is_so != op.startswith("!")
