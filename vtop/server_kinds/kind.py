"""What a kind of server is to vtop: all that differs from one kind to the next, in one record.

Whoever adds a kind fills a `ServerKind` in a folder of its own and lists it in registry.py; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from vtop.metrics.series_names import SeriesNames
from vtop.recording.events import FlagValue, Identity


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Paths that are asked with GET. None: this kind has no such path."""

    metrics: str = "/metrics"
    health: str | None = "/health"
    version: str | None = "/version"
    version_field: str = "version"  # of the JSON object that `version` answers with
    models: str | None = "/v1/models"


@dataclass(frozen=True, slots=True)
class CommandNames:
    """What the command line of a server's process looks like."""

    modules: tuple[str, ...] = ()  # python -m MODULE; each is also the name on record
    verbs: Mapping[tuple[str, str], str] = field(
        default_factory=dict
    )  # (program or module, first word): name on record
    scripts: Mapping[str, str] = field(default_factory=dict)  # end of a script's path: the module that it is


@dataclass(frozen=True, slots=True)
class FlagList:
    """The flags that may be recorded, without dashes in front. No other word of a command line is looked at."""

    numbers: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # of a dtype's or a policy's kind
    sizes: tuple[str, ...] = ()  # a list of whole numbers
    switches: tuple[str, ...] = ()
    objects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # JSON flags, and what of them is let through
    short: Mapping[str, str] = field(default_factory=dict)  # -tp: the flag that it stands for
    level: str | None = None  # a short flag that a number may follow without a space: -O3
    file: str | None = None  # names a file of further flags: which is not read, that there is one is told


@dataclass(frozen=True, slots=True)
class FlagNames:
    """Flags that vtop speaks of by what they do, without dashes in front."""

    max_num_seqs: str = ""  # how many requests may run at once
    max_num_batched_tokens: str = ""  # how many tokens a step may hold
    count_work: str = ""  # switches on the counters of FLOPs and bytes
    no_series: str = ""  # leaves out the server's own series


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the steps of one engine; None: not known."""

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Hint:
    """A flag to try."""

    flag: str  # as it is shown: short
    command: str | None  # that would test it


class Suggestions(Protocol):
    """What to try against a limit, by the flags on record; None where this kind has nothing for it."""

    def larger_pool(self, flags: Mapping[str, FlagValue]) -> Hint | None:
        """More tokens of KV cache."""

    def more_api_servers(self, flags: Mapping[str, FlagValue]) -> Hint | None:
        """More processes that tokenise and stream."""

    def max_num_seqs(self, each: int) -> Hint | None:
        """So many requests at once on an engine."""

    def other_budget(self, now: int | None) -> Hint | None:
        """Steps of another size than `now`, in tokens, where that is known."""

    def smaller_steps(self, tokens: int) -> Hint | None:
        """Steps of so many tokens, which are fewer than now."""

    def count_work(self) -> Hint | None:
        """Counters of the work that the engine does."""


class NoSuggestions:
    """Of a kind whose flags vtop does not know."""

    def larger_pool(self, flags: Mapping[str, FlagValue]) -> Hint | None:
        return None

    def more_api_servers(self, flags: Mapping[str, FlagValue]) -> Hint | None:
        return None

    def max_num_seqs(self, each: int) -> Hint | None:
        return None

    def other_budget(self, now: int | None) -> Hint | None:
        return None

    def smaller_steps(self, tokens: int) -> Hint | None:
        return None

    def count_work(self) -> Hint | None:
        return None


def limits_on_record(identity: Identity, device: str | None, memory_bytes: float | None) -> Limits:
    """Of a kind whose flags and defaults vtop does not know."""
    return Limits()


@dataclass(frozen=True, slots=True, eq=False)
class ServerKind:
    """One kind of server. name: what a recording says; title: what people say.

    marks: beginnings of series names that tell this kind from another; whole names in `sure_marks`, which are looked
    for first. reads: vtop makes numbers of its series; of a kind that it only knows by sight it says who answers.
    limits: what an identity's flags, or the defaults for its GPUs (name, bytes of memory; None: not known), say.
    """

    name: str
    title: str
    marks: tuple[str, ...] = ()
    sure_marks: tuple[str, ...] = ()
    reads: bool = False
    behind: str = ""  # of a server that passes requests on: what to watch in its place
    series: SeriesNames = SeriesNames()  # noqa: RUF009 - these are frozen
    endpoints: Endpoints = Endpoints()
    commands: CommandNames = CommandNames()
    flags: FlagList = FlagList()
    flag_names: FlagNames = FlagNames()
    limits: Callable[[Identity, str | None, float | None], Limits] = limits_on_record
    suggest: Suggestions = NoSuggestions()  # noqa: RUF009
