"""Text of many series, written scrape by scrape, read series by series: kept in one unnamed file, not in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

_KEPT_CHARS = 1 << 16  # of each series, before they go to the file


class Spool:
    """Lines under keys; each key's come back in the order in which they were added, once all are in."""

    def __init__(self, folder: Path | None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".vtop-")
        self._end = 0
        self._kept: dict[str, list[str]] = {}
        self._chars: dict[str, int] = {}
        self._places: dict[str, list[tuple[int, int]]] = {}  # in the file: (offset, bytes)

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def add(self, key: str, text: str) -> None:
        kept = self._kept.get(key)
        if kept is None:
            kept, self._chars[key], self._places[key] = [], 0, []
            self._kept[key] = kept
        kept.append(text)
        self._chars[key] += len(text)
        if self._chars[key] > _KEPT_CHARS:
            self._put(key)

    def text(self, key: str) -> Iterator[bytes]:
        for offset, size in self._places[key]:
            self._file.seek(offset)
            yield self._file.read(size)
        yield "".join(self._kept[key]).encode()

    def close(self) -> None:
        self._file.close()

    def _put(self, key: str) -> None:
        text = "".join(self._kept[key]).encode()
        self._file.write(text)
        self._places[key].append((self._end, len(text)))
        self._end += len(text)
        self._kept[key].clear()
        self._chars[key] = 0
