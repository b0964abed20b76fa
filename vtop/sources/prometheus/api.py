"""The HTTP API of a Prometheus, or of what speaks like one: raw samples are asked for, in bounded pieces.

Only /api/v1/query with range selectors gives samples at their own times; query_range resamples them, and is asked only
who was there when. Sources: Prometheus' documentation of its HTTP API, and answers of 2.42 and VictoriaMetrics 1.79.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from vtop.access import Access
from vtop.errors import VtopError
from vtop.recording.events import Target
from vtop.sources import proxy
from vtop.sources.connection import Failure, HttpAnswer, ServerConnection

QUERY: Final = "/api/v1/query"
QUERY_RANGE: Final = "/api/v1/query_range"
SERIES: Final = "/api/v1/series"
TIMEOUT_S: Final = 60.0
FIRST_TIMEOUT_S: Final = 10.0  # to tell the time, which costs it nothing
LIMIT_BYTES: Final = 256 << 20
SHORTEST_S: Final = 10.0  # a window that is too much is halved, down to this
_PATIENCE_S: Final = (1.0, 4.0, 10.0)  # between attempts, where it is too busy
_LONGEST_PATIENCE_S: Final = 30.0
# Thanos: all stores or an error, and no resampled blocks. Others ignore both
_EXACT: Final = {"partial_response": "false", "max_source_resolution": "0s"}


_EARLIEST_S: Final = 1e9  # of its clock: the year 2001
_LATEST_S: Final = 1e11  # Unix time: no sample is later, milliseconds taken for seconds are
_raw_pairs = msgspec.json.Decoder(list[msgspec.Raw])


class SharedTimes:
    """The times of the series read last, which those of the next one are most often: of one scrape all are the same."""

    def __init__(self) -> None:
        self.words: list[bytes] = []
        self.times: list[float] = []


class StoredSeries(msgspec.Struct):
    """The samples of one series, as they came: [[Unix time in s, "value"],…]."""

    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")
    histograms: msgspec.Raw = msgspec.Raw(b"[]")  # a native histogram has these in place of values

    def columns(self, shared: SharedTimes | None = None) -> tuple[list[float], list[float]]:
        """Times and values; a sample whose time is no instant or whose value is no number is left out. shared: the list
        of times may be that of another series, and is changed by nobody.

        Numbers and text that holds no comma: taken apart so, it costs a quarter of JSON's objects.
        """
        words = bytes(self.values).translate(None, b'[]" \n').split(b",")
        try:
            values = list(map(float, words[1::2]))
            if shared is not None and words[::2] == shared.words and len(values) == len(shared.times):
                return shared.times, values
            times = list(map(float, words[::2]))
        except ValueError:
            times = values = []
        total_s = sum(times)
        if len(times) == len(values) and times and total_s == total_s and 0 <= min(times) <= max(times) < _LATEST_S:
            if shared is not None:
                shared.words, shared.times = words[::2], times
            return times, values
        known = [sample for sample in _pairs(self.values) if 0 <= sample[0] < _LATEST_S]
        return [at_s for at_s, _ in known], [value for _, value in known]

    @property
    def is_native(self) -> bool:
        return len(self.histograms) > 2 >= len(self.values)


def _pairs(samples: msgspec.Raw) -> Iterator[tuple[float, float]]:
    """Those of the samples that are a time and a number."""
    try:
        found = _raw_pairs.decode(samples)
    except (msgspec.DecodeError, RecursionError):
        return
    for one in found:
        try:
            at_s, value = msgspec.json.decode(one, type=tuple[float, str])
            yield at_s, float(value)
        except (msgspec.DecodeError, RecursionError, ValueError):
            continue


class _Matrix(msgspec.Struct):
    result: list[StoredSeries]


class _Answer(msgspec.Struct):
    status: str
    data: Any = None
    error: str = ""
    warnings: list[str] = []


class _MatrixAnswer(msgspec.Struct):
    status: str
    data: _Matrix
    warnings: list[str] = []


_Decoded = TypeVar("_Decoded", _Answer, _MatrixAnswer)
_matrix = msgspec.json.Decoder(_MatrixAnswer)
_any = msgspec.json.Decoder(_Answer)


class TooMuch(Exception):
    """It refused an answer for its size, or did not have it in time: a smaller window may do."""


class PrometheusApi:
    """Asked by several threads, one after another. warn: told each warning of an answer, once.

    Raises VtopError where it cannot be asked, with what to do about it.
    """

    def __init__(
        self,
        target: Target,
        access: Access,
        *,
        wait: Callable[[float], object] | None = None,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        route = proxy.choose(target, access.proxy)
        self.url = target.url
        self._gzip = not target.local  # on this machine packing costs more than it saves
        self._connection = ServerConnection(target, access, route)
        self._lock = threading.Lock()
        self._wait = wait or threading.Event().wait
        self._warn = warn
        self._warned: set[str] = set()
        self._longest_s = math.inf  # of a window that it has not refused
        self.halved: list[str] = []  # why a window was halved, the first of each kind
        if route.trouble is not None:
            self._tell(route.trouble)

    def clock_s(self) -> float:
        """Its own Unix time: of the answer, whose value VictoriaMetrics sets back by its -search.latencyOffset."""
        answer = self._decoded(_any, self._asked(QUERY, {"query": "time()"}, timeout_s=FIRST_TIMEOUT_S))
        try:
            result = answer.data["result"]
            at_s = float(result[0]["value"][0] if isinstance(result[0], dict) else result[0])
        except (TypeError, LookupError, ValueError, OverflowError):
            raise self._odd(QUERY) from None
        if not _EARLIEST_S <= at_s < _LATEST_S:
            raise self._odd(QUERY)
        return at_s

    def series(self, selector: str, begin_s: float, end_s: float) -> list[dict[str, str]]:
        """The label sets of the series that had samples between two instants (or a little outside of them)."""
        form = {"match[]": selector, "start": f"{begin_s:.3f}", "end": f"{end_s:.3f}"}
        answer = self._decoded(_any, self._asked(SERIES, form))
        try:
            rows: list[dict[str, str]] = msgspec.convert(answer.data or [], list[dict[str, str]])
            return rows
        except msgspec.ValidationError:
            raise self._odd(SERIES) from None

    def presence(self, query: str, begin_s: float, end_s: float, step_s: float) -> list[StoredSeries]:
        """A query evaluated every step_s: what there was, roughly when."""
        form = {"query": query, "start": f"{begin_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:.3f}"}
        return self._matrix(self._asked(QUERY_RANGE, form))

    def samples(
        self, selector: str, begin_s: float, end_s: float, length_s: float = math.inf
    ) -> Iterator[tuple[float, list[StoredSeries]]]:
        """The samples after begin_s and up to end_s, in pieces of length_s at most: (the end of a piece, its series).

        Windows that touch may share a sample at their common end (Prometheus 2 includes both ends, 3 does not): whoever
        takes pieces drops what is not later than the piece before.
        """
        while end_s - begin_s > 1e-3:
            length_s = min(length_s, self._longest_s, end_s - begin_s)
            piece_s = begin_s + length_s
            try:
                found = self.window(selector, piece_s, length_s)
            except TooMuch as error:
                if length_s <= SHORTEST_S:
                    raise VtopError(
                        f"{self.url}: it refuses even {length_s:.0f} s of {selector[:80]}: {error}; see --match, --core"
                    ) from None
                self._note_halved(str(error))
                self._longest_s = length_s / 2  # from now on
                continue
            yield piece_s, found
            begin_s = piece_s

    def window(self, selector: str, end_s: float, length_s: float) -> list[StoredSeries]:
        """The samples of one window. Raises TooMuch, VtopError."""
        query = f"{selector}[{max(1, math.ceil(length_s * 1000))}ms]"
        found = self._matrix(self._asked(QUERY, {"query": query, "time": f"{end_s:.3f}"}, split=True))
        if not all("__name__" in one.metric for one in found):
            raise self._odd(QUERY)
        return found

    def close(self) -> None:
        self._connection.hang_up()
        self._connection.close()

    def _asked(self, path: str, form: Mapping[str, str], *, split: bool = False, timeout_s: float = TIMEOUT_S) -> bytes:
        """The body of a 200. split: a smaller question is possible, so that TooMuch may be raised."""
        for wait_s in (*_PATIENCE_S, None):
            try:
                with self._lock:
                    answer = self._connection.post(
                        path, {**form, **_EXACT}, timeout_s=timeout_s, limit_bytes=LIMIT_BYTES, gzip=self._gzip
                    )
            except Failure as failure:
                if split and failure.reason in ("timeout", "size"):
                    raise TooMuch(failure.detail) from None
                raise VtopError(f"{self.url}{failure.detail}") from None
            if answer.status == 200:
                return answer.body
            said = self._said(answer)
            if answer.status == 422 and split:
                raise TooMuch(said)
            if answer.status not in (429, 503) or wait_s is None:
                raise VtopError(f"{self.url}{path}: {answer.status} {said}{self._advice(path, answer.status)}")
            self._tell(f"{self.url}{path}: {answer.status} {said}: it is asked more slowly")
            self._wait(min(answer.retry_after_s or wait_s, _LONGEST_PATIENCE_S))
        raise AssertionError

    def _said(self, answer: HttpAnswer) -> str:
        """Its own words for a refusal."""
        try:
            words = _any.decode(answer.body).error
        except (msgspec.DecodeError, RecursionError):
            lines = answer.body[:2048].decode("utf-8", "replace").strip().splitlines()
            words = lines[0] if lines and not lines[0].startswith("<") else answer.phrase
        return self._connection.clean(words or answer.phrase, 300)

    def _advice(self, path: str, status: int) -> str:
        if status in (401, 403):
            given = self._connection.shows_who_asks
            return "; the key given is not accepted" if given else "; --api-key, VTOP_API_KEY or -H"
        if status in (404, 405):
            return f"; is it a Prometheus? {path} is asked for below the URL that was given, with its path"
        return ""

    def _matrix(self, body: bytes) -> list[StoredSeries]:
        answer = self._decoded(_matrix, body)
        for warning in answer.warnings:
            self._tell(f"Prometheus warns, what it gave may be incomplete: {warning}")
        return answer.data.result

    def _decoded(self, decoder: msgspec.json.Decoder[_Decoded], body: bytes) -> _Decoded:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, RecursionError):
            raise self._odd(QUERY) from None

    def _odd(self, path: str) -> VtopError:
        return VtopError(f"{self.url}{path}: it answers, but not as a Prometheus does; name its URL with its path")

    def _note_halved(self, why: str) -> None:
        if why not in self.halved:
            self.halved.append(why)
            self._tell(f"Prometheus refuses a window for its size and is asked for smaller ones: {why}")

    def _tell(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._warn(self._connection.clean(text, 400))


def quoted(value: str) -> str:
    """A label's value, or a regular expression, as PromQL writes it."""
    return '"' + value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'
