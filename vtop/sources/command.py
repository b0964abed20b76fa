"""The command that started a server on this host: its name and those of its flags that decide how it performs.

The listener of a port is looked for, and from it upwards the process whose command line is a server's: with
several API servers, the listeners are its children. Of another user's process, of one in a container, behind a tunnel
or a proxy nothing is found, silently: it is not known then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from vtop.recording.events import FlagValue
from vtop.server_kinds.kind import ServerKind
from vtop.server_kinds.registry import KINDS
from vtop.sources import processes
from vtop.sources.flags import flags_of

GENERATIONS: Final = 4  # a listener is the server itself or its child; more would find what has nothing to do with it

_WITH_A_WORD: Final = ("-X", "-W", "--check-hash-based-pycs")  # options of Python's own that take the next word


@dataclass(frozen=True, slots=True)
class Command:
    """How a server was started. pid and began: which process it is."""

    name: str  # vllm serve
    flags: dict[str, FlagValue]
    pid: int
    began: int


def on_port(port: int, proc: str = "/proc") -> Command | None:
    """The command of the server that listens on a port; None when none is seen, or several that differ."""
    found: dict[int, Command] = {}
    for pid in processes.holders(port, proc):
        own = _upwards(pid, proc)
        if own is not None:
            found[own.pid] = own
    return next(iter(found.values())) if len(found) == 1 else None


def runs(command: Command, proc: str = "/proc") -> bool:
    """Whether the very process still does."""
    return processes.began(command.pid, proc) == command.began


def _upwards(pid: int, proc: str) -> Command | None:
    for _ in range(GENERATIONS):
        if pid <= 0:
            return None
        began, served = processes.began(pid, proc), server(processes.words(pid, proc))
        if served is not None:
            kind, name, words = served
            return Command(name, flags_of(words, kind.flags), pid, began)
        pid = processes.parent(pid, proc)
    return None


def server(words: Sequence[str]) -> tuple[ServerKind, str, Sequence[str]] | None:
    """The kind of server, the name of its command, and the words behind it; None for any other command line."""
    program, rest = _program(words)
    for kind in KINDS.values():
        if program in kind.commands.modules:
            return kind, program, rest
        name = kind.commands.verbs.get((program, rest[0])) if rest else None
        if name is not None:
            return kind, name, rest[1:]
    return None


def _program(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """What runs, a script's name or a module, and its words."""
    if not words:
        return "", ()
    name = PurePath(words[0]).name
    if not name.startswith("python"):
        return name, words[1:]
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-c":
            return "", ()
        if words[at] == "-m":
            return (words[at + 1], words[at + 2 :]) if at + 1 < len(words) else ("", ())
        at += 2 if words[at] in _WITH_A_WORD else 1
    if at >= len(words):
        return "", ()
    path = PurePath(words[at])
    for kind in KINDS.values():
        for end, module in kind.commands.scripts.items():
            if f"/{path}".endswith(f"/{end}"):
                return module, words[at + 1 :]
    return path.name, words[at + 1 :]
