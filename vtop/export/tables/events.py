"""The table of events: what happened in a session, as its list on the screen says it, from the beginning."""

from __future__ import annotations

from collections.abc import Iterator

from vtop.export.tables.table import Row, TableColumn, TableLayout
from vtop.session.frame.vocabulary import LOGGED_KINDS
from vtop.session.session import Session

EVENTS = TableLayout(
    "events",
    "something that happened, in the order in which it became known",
    (
        TableColumn("at_s", "number", "second of the session"),
        TableColumn("unix_s", "number", "the same instant by the wall clock"),
        TableColumn("kind", "text", ", ".join(LOGGED_KINDS)),
        TableColumn("text", "text", "in words"),
    ),
)


def events(session: Session) -> Iterator[Row]:
    """The rows of EVENTS."""
    for one in session.event_log(session.end_s):
        yield one.at_s, session.start.unix_s + one.at_s, one.kind, one.text
