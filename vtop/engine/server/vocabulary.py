"""The simulated model's words: how a text becomes tokens, and which words an answer consists of.

No model stands behind it. A token is a run of up to eight letters or digits with the blank before it, or a few other
characters; that makes about as many tokens of a text as a real vocabulary does. Answers are words of a list, one a
token, the same ones for the same prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from zlib import crc32

_PIECE: Final = re.compile(r" ?\w{1,8}|\s+|[^\w\s]{1,3}")
_SPECIALS: Final = 256  # ids below it stand for no text
START, END, LINE = range(3)  # ids of a chat template: a turn begins, ends, a line ends
IDS: Final = 131_072

_TEXT: Final = (
    "the pool fills block by block until the last one is taken and a request must wait while others run to their end "
    "then its tokens are computed once more what was known is lost but nothing else is a queue grows when arrivals "
    "outrun service each step reads every weight again and adds one word to all who run prompts come in chunks of a "
    "budget that decodes share so long ones do not hold up short answers under load latency is mostly waiting more "
    "memory means fewer returns this text is made by no model"
)
WORDS: Final = _TEXT.split()
_STRIDE: Final = 37  # from one word of an answer to the next; no divisor of their number


def pieces(text: str) -> list[str]:
    return _PIECE.findall(text)


def token_ids(text: str) -> list[int]:
    return [_SPECIALS + crc32(piece.encode()) % (IDS - _SPECIALS) for piece in pieces(text)]


def chat_ids(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """A chat through its template: five tokens around every message, three before the answer."""
    ids: list[int] = []
    for message in messages:
        ids += [START, *token_ids(str(message.get("role", "")))[:1], LINE, *token_ids(content(message)), END, LINE]
    return [*ids, START, *token_ids("assistant")[:1], LINE]


def content(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content may be a list of parts."""
    said = message.get("content")
    if isinstance(said, list):
        return "".join(str(part.get("text", "")) for part in said if isinstance(part, Mapping))
    return said if isinstance(said, str) else ""


class AnswerWords:
    """The words of one answer, by their number. start: of the first one in the list."""

    __slots__ = ("_start",)

    def __init__(self, start: int) -> None:
        self._start = start % len(WORDS)

    def text(self, first: int, count: int) -> str:
        """The words from number `first` on, each with the blank before it."""
        if count == 1:
            return _TEXTS[(self._start + first * _STRIDE) % len(WORDS)]
        return "".join(_TEXTS[(self._start + i * _STRIDE) % len(WORDS)] for i in range(first, first + count))

    def ids(self, first: int, count: int) -> list[int]:
        return [_IDS[(self._start + i * _STRIDE) % len(WORDS)] for i in range(first, first + count)]


_TEXTS: Final = [f" {word}" for word in WORDS]
_IDS: Final = [token_ids(text)[0] for text in _TEXTS]
