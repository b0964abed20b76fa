"""What a flight recorder waits for is understood, holds when it should, and says why."""

from __future__ import annotations

import contextlib

import pytest

from tests.session.made import Log, Server
from tests.shipped_kinds import FOLDER
from vtop.errors import VtopError
from vtop.recording import FileRecording
from vtop.session.session import Session, read
from vtop.session.triggers import VIEW, WORDS, parse


@pytest.fixture(scope="module")
def overload() -> Session:
    with contextlib.closing(FileRecording(FOLDER / "overload.jsonl.gz")) as recording:
        return read(recording)


@pytest.mark.parametrize(
    ("text", "at_s", "why"),
    [
        ("preemptions", 60.0, "6 preemptions in 30.0 s"),
        ("preemptions", 2.0, None),
        ("stuck or preemptions", 60.0, "6 preemptions in 30.0 s"),
        ("stuck and preemptions", 60.0, None),
        ("kv > 90% and waiting >= 40", 60.0, "kv 99.5 %, waiting 53"),
        ("kv>99.9%", 60.0, None),
        ("TTFT > 10s", 60.0, "ttft 37.6 s"),
        ("ttft > 900ms and kv binds", 60.0, "ttft 37.6 s, kv binds"),
        ("itl > 1s", 60.0, None),
        ("waiting > 0", 0.0, None),  # nothing is known yet
    ],
)
def test_a_condition_holds_and_says_why(overload: Session, text: str, at_s: float, why: str | None) -> None:
    assert parse(text).why(overload.frame(at_s, VIEW)) == why


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("preemption", "nothing to wait for; words: preemptions, queue growth"),
        ("", "nothing to wait for"),
        ("preemptions or", "nothing to wait for"),
        ("kv > 95", "kv is given in %"),
        ("waiting > 20s", "waiting is given in no unit"),
        ("ttft > 2", "ttft is given in ms or s or min"),
        ("waiting > 1.2.3", "is no number"),
        ("memory > 5%", "nothing to wait for"),
    ],
)
def test_what_cannot_be_understood_is_one_line_with_the_words_there_are(text: str, said: str) -> None:
    with pytest.raises(VtopError, match=said) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_every_word_is_understood(overload: Session) -> None:
    for word in WORDS:
        parse(word).why(overload.frame(60.0, VIEW))


def failing() -> Log:
    """20 s in which requests finish, without fault until what is added."""
    log, server = Log(), Server()
    server.engine.finished["error"] = 0.0
    for second in range(20):
        server.engine.finish()
        log.scrape(float(second), server)
    return log


def test_errors_are_requests_that_failed_and_scrapes_that_failed() -> None:
    log, server = failing(), Server()
    assert parse("errors").why(log.frame(view=VIEW)) is None
    server.engine.finished |= {"stop": 20.0, "abort": 5.0, "error": 0.0}
    log.scrape(20.0, server)
    assert parse("errors").why(log.frame(view=VIEW)) is None  # their clients went away
    server.engine.finished["error"] = 2.0
    log.scrape(21.0, server)
    assert parse("errors").why(log.frame(view=VIEW)) == "2 requests failed in 21.0 s"
    assert parse("failed scrapes").why(log.frame(view=VIEW)) is None
    log.outage(22.0)
    log.outage(23.0)
    why = "2 requests failed in 21.0 s, 2 scrapes of http://host0:8000 failed"
    assert parse("kv > 95% or errors").why(log.frame(view=VIEW)) == why


def test_a_scrape_that_failed_and_was_followed_by_a_good_one_is_still_an_error() -> None:
    log = failing()
    log.outage(20.0)
    log.scrape(21.0, Server())
    assert parse("failed scrapes").why(log.frame(view=VIEW)) == "a scrape failed"
    assert parse("failed requests or down").why(log.frame(view=VIEW)) is None
