"""The servers and engines in a frame: who they are, how well they are read, what they were started with."""

from __future__ import annotations

from dataclasses import dataclass, field

from vtop.recording.events import DEFAULT_KIND, FlagValue
from vtop.session.frame.vocabulary import Side, StatusKind


def typed(name: str, value: FlagValue) -> str:
    """A flag as it is typed: --max-num-seqs 128, --no-enable-prefix-caching."""
    if value is True:
        return f"--{name}"
    return f"--no-{name}" if value is False else f"--{name} {value}"


@dataclass(frozen=True, slots=True, eq=False)
class StartedWith:
    """A server's command. The two limits are those on the command line, or its kind's defaults; None: not known."""

    command: str  # vllm serve
    flags: dict[str, FlagValue]  # by name, without dashes in front
    max_num_seqs: int | None  # of one engine
    max_num_batched_tokens: int | None
    defaults: tuple[str, ...]  # which of the two limits are not on the command line

    @property
    def words(self) -> str:
        """The command as it is typed."""
        return " ".join([self.command, *(typed(name, value) for name, value in self.flags.items())])


@dataclass(frozen=True, slots=True, eq=False)
class Status:
    """The one thing to know about the data."""

    kind: StatusKind
    sentence: str
    server: int = 0
    fresh: bool = True  # False: what is shown is old
    absent: str | None = None  # of several servers those that do not answer, while others do: 1 of 2 down: :8302


@dataclass(frozen=True, slots=True, eq=False)
class ServerLoad:
    """What one of several servers does: now, and over the window."""

    running: float | None
    waiting: float | None
    kv_used_ratio: float | None  # of its fullest engine
    generation_per_s: float | None  # over the window
    ttft_s: float | None  # mean of the first tokens of the window


@dataclass(frozen=True, slots=True, eq=False)
class ServerPart:
    """One server: who it is and how well it is being read."""

    index: int
    url: str
    status: Status
    local: bool
    models: tuple[str, ...]
    version: str | None
    max_model_len: int | None
    uptime_s: float | None
    age_s: float | None  # of the latest scrape
    took_s: float | None
    scrape_bytes: int | None
    bad_lines: int
    tries: int  # attempts since the last scrape that could be had
    outages: int  # spans without a scrape so far
    restarts: int
    engines: int
    note: str | None = None
    started: StartedWith | None = None  # its command, where vtop could see that
    kind: str = DEFAULT_KIND  # of server: a name of server_kinds/registry.py
    side: Side | None = None  # where prefill and decode are on different servers
    watched: bool = True  # False: no longer, or not yet
    labels: dict[str, str] = field(default_factory=dict)  # as the list of targets has them
    load: ServerLoad | None = None  # where several are watched and this one answers


@dataclass(frozen=True, slots=True, eq=False)
class EnginePart:
    """One engine (data-parallel rank) of one server, now."""

    server: int
    name: str
    running: float | None
    waiting: float | None
    kv_used_ratio: float | None
    generation_per_s: float | None  # over the window
