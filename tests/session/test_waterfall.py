"""vtop's own requests one by one: which are shown, in which order, and as they stood at an instant."""

from __future__ import annotations

from vtop.recording import Load, Request, Start, Target
from vtop.recording.events import FORMAT
from vtop.session.frame.frame import View
from vtop.session.frame.waterfall import Waterfall
from vtop.session.session import Session


def request(id: int, t: float, **said: float) -> Request:
    return Request(id=id, phase=0, t=t, **said)  # type: ignore[arg-type]


LINES = (
    request(0, 1.0, due_s=0.9, sent_s=1.0),
    request(1, 2.0, due_s=1.9, sent_s=2.0),
    request(2, 3.0, due_s=2.9, sent_s=3.0),
    request(0, 4.1, sent_s=1.0, first_s=4.0),
    request(2, 4.2, sent_s=3.0, first_s=4.0),
    request(2, 5.0, due_s=2.9, sent_s=3.0, first_s=4.0, last_s=5.0, end_s=5.0),
    request(0, 9.0, due_s=0.9, sent_s=1.0, first_s=4.0, last_s=9.0, end_s=9.0),
)


def at(now_s: float, window_s: float = 300.0, lines: tuple[Request, ...] = LINES, holds: str = "") -> Waterfall:
    session = Session(Start(format=FORMAT, vtop="0", unix_s=0.0, servers=(Target(url="http://h"),), interval_s=1.0))
    session.apply(Load(t=0.5, phase=0, state="begin", spec="c=3", shape="closed", concurrency=3))
    for line in lines:
        session.apply(line)
    return session.frame(now_s, View(window_s=window_s, holds=holds)).waterfall


def test_the_oldest_unanswered_stands_first_then_the_open_then_the_slowest_that_ended() -> None:
    found = at(6.0)
    assert [(one.id, one.took_s) for one in found.rows] == [(1, 4.0), (0, 5.0), (2, 2.0)]
    assert (found.open, found.unanswered, found.ended) == (2, 1, 1)
    assert [one.id for one in at(9.0).rows] == [1, 0, 2]


def test_an_earlier_instant_shows_what_was_known_then() -> None:
    for now_s in (0.7, 2.5, 3.5, 4.05, 4.15, 4.5, 6.0, 9.0):
        live = tuple(line for line in LINES if line.t <= now_s)
        then, now = at(now_s), at(now_s, lines=live)
        seen = [[(one.id, one.first_s, one.end_s, one.took_s) for one in of.rows] for of in (then, now)]
        assert seen[0] == seen[1], now_s


def test_what_ended_before_the_window_is_not_shown() -> None:
    assert [one.id for one in at(9.0, window_s=3.0).rows] == [1, 0]


def test_only_requests_whose_number_state_or_error_holds_a_text_are_shown_and_all_are_counted() -> None:
    lines = (*LINES[:-1], request(0, 9.0, sent_s=1.0, end_s=9.0, error="timeout"))  # type: ignore[arg-type]
    texts = ("#2", "open", "UNANSWERED", "failed", "timeout", "ended", "no such")
    found = {text: [one.id for one in at(9.5, lines=lines, holds=text).rows] for text in texts}
    assert found == {
        "#2": [2], "open": [1], "UNANSWERED": [1], "failed": [0], "timeout": [0], "ended": [0, 2], "no such": [],
    }  # fmt: skip
    assert at(9.5, lines=lines, holds="no such").ended == 2
