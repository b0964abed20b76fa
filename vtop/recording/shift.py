"""Where in an event its instants stand, and an event moved in time: what a cut and a merge do to every line.

Everything else that ends in `_s` is a duration and stays as it is. An instant that comes out negative is one before the
session began: a scrape that was asked for before the first line of a cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vtop.recording.events import AnyEvent, Event, Gpu, Host, LoadHost, Outage, Request, Scrape, Unknown

INSTANTS: Final[Mapping[type[Event], tuple[str, ...]]] = {
    Scrape: ("at_s",),
    Outage: ("at_s",),
    Gpu: ("at_s",),
    Host: ("at_s",),
    LoadHost: ("at_s",),
    Request: ("due_s", "admitted_s", "sent_s", "headers_s", "first_s", "answer_s", "last_s", "end_s"),
}

_DIGITS = 9  # of a second: more than a clock knows, fewer than a difference of two floats shows


def moved(event: AnyEvent, by_s: float, t: float | None = None) -> AnyEvent:
    """The event so many seconds later, or written at `t` with its own instants so many seconds later.

    Of an event of an unknown type only `t` is known, so only that moves.
    """
    t = round(event.t + by_s, 6) if t is None else t
    if isinstance(event, Unknown):
        fields = msgspec.json.decode(event.line)
        fields["t"] = t
        return Unknown(msgspec.json.encode(fields), t)
    changes: dict[str, Any] = {"t": t}
    for name in INSTANTS.get(type(event), ()):
        instant = getattr(event, name)
        if instant is not None:
            changes[name] = round(instant + by_s, _DIGITS)
    return msgspec.structs.replace(event, **changes)
