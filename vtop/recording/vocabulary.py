"""The closed vocabularies of a recording: every word that a field of a line may hold, declared once.

Each is a Literal, so that mypy finds a mistyped word. A reader takes any word: a later vtop may write further ones, and
a line is not lost for one of them. Whoever decides by a word, or counts by it, asks `known` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeVar, get_args

# a word that this vtop does not know is "other", and no vtop writes that
# fault: vtop itself failed at it; scrape_failed: another's scrape did, which does not say why
OutageReason = Literal[
    "refused", "timeout", "status", "parse", "reset", "tls", "dns", "size", "fault", "scrape_failed", "other"
]
PowerKind = Literal["average", "instant", "other"]  # over 1 s, or at an instant
LoadState = Literal["begin", "steady", "change", "end", "other"]  # steady: warm-up is over; change: by hand
LoadShape = Literal["closed", "open", "other"]  # so many in flight; arrivals by a schedule
Api = Literal["completions", "chat", "other"]
TokensFrom = Literal["ids", "usage", "chunks", "other"]  # what output tokens were counted by
ErrorClass = Literal[
    "http_status",
    "inband_error",
    "truncated",
    "short_output",
    "long_output",
    "stalled",
    "timeout",
    "connect",
    "reset",
    "cancelled_at_end",  # vtop broke it off
    "fault",  # vtop itself failed at it
    "client_limit",  # the client's machine had no file, port or memory for it
    "worker_lost",  # the worker that had sent it, or was to send it, went away with its host
    "other",
]
NoteSource = Literal["server", "gpu", "recording", "load", "host", "vtop", "other"]

OUTAGE_REASONS: Final[Sequence[OutageReason]] = get_args(OutageReason)
POWER_KINDS: Final[Sequence[PowerKind]] = get_args(PowerKind)
LOAD_STATES: Final[Sequence[LoadState]] = get_args(LoadState)
LOAD_SHAPES: Final[Sequence[LoadShape]] = get_args(LoadShape)
APIS: Final[Sequence[Api]] = get_args(Api)
TOKENS_FROM: Final[Sequence[TokensFrom]] = get_args(TokensFrom)
ERROR_CLASSES: Final[Sequence[ErrorClass]] = get_args(ErrorClass)
NOTE_SOURCES: Final[Sequence[NoteSource]] = get_args(NoteSource)

_Word = TypeVar("_Word", bound=str)


def known(word: _Word, words: Sequence[_Word]) -> _Word:
    """The word, or the last of the vocabulary, "other", for one that is not in it."""
    return word if word in words else words[-1]
