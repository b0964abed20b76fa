"""A recording read to its present end, once: into a session, and past whoever else wants to see its lines."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

from vtop.recording import AnyEvent, Recording
from vtop.session.session import Session

_AT_ONCE = 200


def events_of(recording: Recording) -> Iterator[AnyEvent]:
    """All events that exist so far, each once."""
    while taken := recording.take(_AT_ONCE):
        yield from taken


def folded(recording: Recording, watching: Callable[[AnyEvent], object] | None = None) -> Session:
    """The session of a recording; `watching` sees each event too."""
    session = Session(recording.start)
    gc.disable()  # nothing made here is garbage, and looking for it takes half the time
    try:
        for event in events_of(recording):
            session.apply(event)
            if watching is not None:
                watching(event)
    finally:
        gc.enable()
    return session
