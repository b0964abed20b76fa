"""The bytes of an event stream become events, wherever the network happened to cut them.

Source: WHATWG HTML, 9.2 Server-sent events; one thing is done otherwise: an event that the stream ends in is an event
even without the blank line after it. Lines end at CR, LF or CRLF and nowhere else; no byte of a line is changed.
"""

from __future__ import annotations

from typing import Final

import msgspec

LIMIT_BYTES: Final = 8 * 2**20  # of a line, and of the data of an event
BOM: Final = b"\xef\xbb\xbf"
CR: Final = 13  # looked for as a number it costs a fifth


class StreamEvent(msgspec.Struct, frozen=True, gc=False):
    """data: the event's data lines, joined by LF. name and id: b"" where the event has none."""

    data: bytes
    name: bytes = b""
    id: bytes = b""


class EventStream:
    """One stream, fed as it comes. Any bytes will do: what is no event is passed over.

    too_large: a line or an event beyond LIMIT_BYTES has come; nothing is kept or read from then on.
    """

    __slots__ = ("_at_start", "_data", "_held", "_id", "_line", "_name", "_skip_lf", "too_large")

    def __init__(self) -> None:
        self._at_start = True  # where a byte order mark may stand
        self._line: list[bytes] = []  # pieces of a line whose end has not come
        self._skip_lf = False  # the last byte was a CR that ended a line; an LF right after belongs to it
        self._data: list[bytes] | None = None
        self._name = b""
        self._id = b""
        self._held = 0  # bytes of the line and the event that have no end yet
        self.too_large = False

    def feed(self, data: bytes) -> list[StreamEvent]:
        """The events that these bytes complete."""
        # Nearly every read is one whole event of one line: that is seen here without taking it apart
        if (
            data[:7] == b"data: {"
            and data[-3:] == b"}\n\n"
            and data.find(b"\n") == len(data) - 2
            and CR not in data
            and not self._line
            and self._data is None
            and not self._name
            and not self._id
        ):
            self._at_start = self._skip_lf = False
            return [StreamEvent(data[6:-2])]
        if self.too_large:
            return []
        events = self._by_lines(data)
        self._held = self._held + len(data) if self._line or self._data is not None else 0
        if self._held + 32 * len(self._data or ()) > LIMIT_BYTES:
            self._measure()
        return events

    def _measure(self) -> None:
        """How much is held, exactly; nothing any more when it is too much."""
        self._held = sum(len(piece) + 32 for piece in (*self._line, *(self._data or ())))  # an empty one takes room too
        if self._held > LIMIT_BYTES:
            self.too_large = True
            self._line.clear()
            self._data = None

    def end(self) -> list[StreamEvent]:
        """The event that the end of the stream completes, if there is one."""
        self._at_start = False
        line = b"".join(self._line)
        self._line.clear()
        events: list[StreamEvent] = []
        if line:
            self._take_line(line, events)
        self._take_line(b"", events)
        return events

    def _by_lines(self, data: bytes) -> list[StreamEvent]:
        if self._at_start:
            data = b"".join((*self._line, data))
            self._line.clear()
            if len(data) < len(BOM) and BOM.startswith(data):
                self._line.append(data)
                return []
            data = data.removeprefix(BOM)
            self._at_start = False
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        if b"\n" not in data and b"\r" not in data:  # joined once, when the line ends: not copied at every read
            self._line.append(data)
            return []
        lines = b"".join((*self._line, data)).splitlines(keepends=True)  # of bytes: at CR and LF only
        self._line.clear()
        if lines[-1][-1] not in b"\r\n":
            self._line.append(lines.pop())
        self._skip_lf = data[-1:] == b"\r"
        events: list[StreamEvent] = []
        for line in lines:
            self._take_line(line.rstrip(b"\r\n"), events)
        return events

    def _take_line(self, line: bytes, events: list[StreamEvent]) -> None:
        if not line:
            if self._data is not None:
                events.append(StreamEvent(b"\n".join(self._data), self._name, self._id))
            self._data, self._name, self._id = None, b"", b""
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            if self._data is None:
                self._data = []
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id":
            self._id = value
