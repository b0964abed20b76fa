"""All kinds of server by name, and which of them answers: told by the names of the series on its /metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vtop.metrics.series_names import SeriesNames
from vtop.recording.events import DEFAULT_KIND
from vtop.server_kinds.kind import ServerKind
from vtop.server_kinds.others import OTHERS
from vtop.server_kinds.vllm.kind import VLLM

DEFAULT: Final = VLLM
KINDS: Final[dict[str, ServerKind]] = {kind.name: kind for kind in (VLLM, *OTHERS)}

assert DEFAULT.name == DEFAULT_KIND


def of(name: str) -> ServerKind:
    """The kind of a recording's name for it; one that this vtop does not know has no series that mean anything."""
    return KINDS.get(name) or ServerKind(name=name, title=name)


def recognised(names: Iterable[str]) -> ServerKind | None:
    """Whose series these are, by their names; None when they are nobody's.

    Kinds that vtop reads come before those that it only knows by sight: the former may export beside the latter.
    """
    seen = set(names)
    for kind in KINDS.values():
        if not seen.isdisjoint(kind.sure_marks):
            return kind
    for kind in sorted(KINDS.values(), key=lambda kind: not kind.reads):
        if kind.marks and any(name.startswith(kind.marks) for name in seen):
            return kind
    return None


def metrics_paths() -> tuple[str, ...]:
    """Where some kind of server has its page, each path once."""
    return tuple(dict.fromkeys(kind.endpoints.metrics for kind in KINDS.values()))


def series_names(names: Iterable[str]) -> SeriesNames:
    """How a page is to be read, by the names of its series alone."""
    return (recognised(names) or DEFAULT).series


def readable() -> str:
    """The titles of the kinds that vtop makes numbers of: vLLM."""
    return " and ".join(kind.title for kind in KINDS.values() if kind.reads)
