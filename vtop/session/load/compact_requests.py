"""Requests that ended, kept small: their stamps, counts and gaps lie in arrays of machine numbers.

As an object with Python numbers a request of twenty tokens takes 0.8 KiB, and a day of requests would not fit into
memory; here it takes 0.15 KiB, and nothing of it is rounded. What few requests have, or no array takes, is kept beside.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, overload

import msgspec

from vtop.recording import Request

_LONGEST_US: Final = (1 << 32) - 1  # over an hour: a gap beyond it is kept as that long
_NO_COUNT: Final = -(1 << 31)  # stands for None
_MOST: Final = (1 << 31) - 1
_NO_GAPS: Final = -1  # stands for None: () is none of a request that has them

_STAMPS: Final = ("t", "due_s", "admitted_s", "sent_s", "headers_s", "first_s", "last_s", "end_s")
_COUNTS: Final = (
    *("id", "asked_prompt_tokens", "asked_output_tokens", "prompt_tokens", "cached_tokens", "output_tokens", "chunks"),
)
_FEW_HAVE: Final = ("connect_s", "answer_s", "timings", "detail", "gap_tokens")
_ALIKE: Final = tuple(  # of these there are few different sets
    name for name in Request.__struct_fields__ if name not in (*_STAMPS, *_COUNTS, *_FEW_HAVE, "gaps_us")
)
_stamps_of: Final[Callable[[Request], tuple[float | None, ...]]] = attrgetter(*_STAMPS)
_counts_of: Final[Callable[[Request], tuple[int | None, ...]]] = attrgetter(*_COUNTS)
_few_have_of: Final[Callable[[Request], tuple[Any, ...]]] = attrgetter(*_FEW_HAVE)
_alike_of: Final[Callable[[Request], tuple[Any, ...]]] = attrgetter(*_ALIKE)
_ERROR, _WARMUP = _ALIKE.index("error"), _ALIKE.index("warmup")


class Output(NamedTuple):
    """What a throughput asks of a request that ended."""

    sent_s: float | None
    last_s: float | None
    end_s: float | None
    output_tokens: int | None
    error: str | None
    warmup: bool


class Ended(Sequence[Request]):
    """The requests in the order in which they were added; each is given back as it was."""

    __slots__ = (
        *("_alike", "_counts", "_few_have", "_gaps", "_gaps_at", "_gone", "_kinds", "_places", "_stamps", "_whole"),
        "_wide",
    )

    def __init__(self) -> None:
        self._stamps = tuple(array("d") for _ in _STAMPS)  # NaN for None
        self._counts = tuple(array("i") for _ in _COUNTS)
        self._kinds = array("I")  # by request: its place in _alike
        self._alike: list[tuple[Any, ...]] = []
        self._places: dict[tuple[Any, ...], int] = {}
        self._few_have: dict[int, bytes] = {}  # by request, packed
        self._whole: dict[int, Request] = {}  # with a number that no array takes; without its gaps
        self._gaps, self._wide = (
            array("H"),
            array("I"),
        )
        # _gaps: of requests whose gaps are all below 65.536 ms; _wide: of the others
        # by request: how many gaps, and where the first is; ~place where it is in _wide
        self._gaps_at = array("i"), array("q")
        self._gone = [0, 0, 0]  # requests given up, of their gaps those in _gaps, and those in _wide

    @property
    def t(self) -> array[float]:
        """When the line of each was written."""
        return self._stamps[0]

    def append(self, request: Request) -> None:
        place = self._gone[0] + len(self._kinds)
        counts = _counts_of(request)
        few_have = _few_have_of(request)
        fits = all(count is None or _NO_COUNT < count <= _MOST for count in counts)
        if fits and any(one is not None for one in few_have):
            try:
                self._few_have[place] = msgspec.msgpack.encode(few_have)
            except (ValueError, OverflowError, RecursionError):
                fits = False
        if not fits:
            self._whole[place] = msgspec.structs.replace(request, gaps_us=None)
            counts = (None,) * len(counts)
        for seconds, second in zip(self._stamps, _stamps_of(request), strict=True):
            seconds.append(math.nan if second is None else second)
        for numbers, number in zip(self._counts, counts, strict=True):
            numbers.append(_NO_COUNT if number is None else number)
        self._keep_gaps(request.gaps_us)
        alike = _alike_of(request)
        kind = self._places.setdefault(alike, len(self._alike))
        if kind == len(self._alike):
            self._alike.append(alike)
        self._kinds.append(kind)

    def _keep_gaps(self, gaps: Sequence[int] | None) -> None:
        many, first = self._gaps_at
        many.append(_NO_GAPS if gaps is None else len(gaps))
        if not gaps:
            first.append(0)
        elif min(gaps) >= 0 and max(gaps) < 1 << 16:
            first.append(self._gone[1] + len(self._gaps))
            self._gaps.extend(gaps)
        else:
            first.append(~(self._gone[2] + len(self._wide)))
            self._wide.extend(min(max(gap, 0), _LONGEST_US) for gap in gaps)

    def _gaps_of(self, place: int) -> tuple[int, ...] | None:
        many, first = self._gaps_at[0][place], self._gaps_at[1][place]
        if many <= 0:
            return None if many == _NO_GAPS else ()
        gaps, at = (self._gaps, first - self._gone[1]) if first >= 0 else (self._wide, ~first - self._gone[2])
        return tuple(gaps[at : at + many])

    def forget(self, count: int) -> None:
        """Give up the first so many; those behind them move up."""
        many, first = self._gaps_at
        narrow = sum(many[at] for at in range(count) if many[at] > 0 and first[at] >= 0)
        wide = sum(many[at] for at in range(count) if many[at] > 0 and first[at] < 0)
        for place in range(self._gone[0], self._gone[0] + count):
            self._few_have.pop(place, None)
            self._whole.pop(place, None)
        for seconds in self._stamps:
            del seconds[:count]
        for numbers in (*self._counts, self._kinds, many, first):
            del numbers[:count]
        del self._gaps[:narrow], self._wide[:wide]
        self._gone = [self._gone[0] + count, self._gone[1] + narrow, self._gone[2] + wide]

    def __len__(self) -> int:
        return len(self._kinds)

    @overload
    def __getitem__(self, place: int) -> Request: ...
    @overload
    def __getitem__(self, place: slice) -> list[Request]: ...
    def __getitem__(self, place: int | slice) -> Request | list[Request]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        return self._made(place, self._gaps_of(place))

    def _made(self, place: int, gaps: tuple[int, ...] | None) -> Request:
        kept_as = self._gone[0] + place
        if kept_as in self._whole:
            return msgspec.structs.replace(self._whole[kept_as], gaps_us=gaps)
        fields: dict[str, Any] = dict(zip(_ALIKE, self._alike[self._kinds[place]], strict=True))
        for name, seconds in zip(_STAMPS, self._stamps, strict=True):
            if (second := seconds[place]) == second:
                fields[name] = second
        for name, numbers in zip(_COUNTS, self._counts, strict=True):
            if (number := numbers[place]) != _NO_COUNT:
                fields[name] = number
        if kept_as in self._few_have:
            fields.update(zip(_FEW_HAVE, msgspec.msgpack.decode(self._few_have[kept_as]), strict=True))
            if fields["gap_tokens"] is not None:
                fields["gap_tokens"] = tuple(fields["gap_tokens"])
        return Request(**fields, gaps_us=gaps)

    def bare(self, last: int, first: int = 0) -> list[Request]:
        """Those from place first up to, not including, last, without their gaps."""
        return [self.bare_one(place) for place in range(first, last)]

    def bare_one(self, place: int) -> Request:
        """One of them without its gaps."""
        return self._made(place, () if self._gaps_at[0][place] != _NO_GAPS else None)

    def outputs(self, count: int) -> Iterator[Output]:
        """Of the first so many what a throughput asks for, one after the other and without making requests of them."""
        sent, last, end = (self._stamps[_STAMPS.index(name)] for name in ("sent_s", "last_s", "end_s"))
        tokens = self._counts[_COUNTS.index("output_tokens")]
        for place in range(count):
            alike = self._alike[self._kinds[place]]
            whole = self._whole.get(self._gone[0] + place)
            number = whole.output_tokens if whole else tokens[place] if tokens[place] != _NO_COUNT else None
            stamps = _known(sent[place]), _known(last[place]), _known(end[place])
            yield Output(*stamps, number, alike[_ERROR], alike[_WARMUP])

    def __iter__(self) -> Iterator[Request]:
        return (self[place] for place in range(len(self)))


def _known(second: float) -> float | None:
    return second if second == second else None
