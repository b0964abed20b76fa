"""When an engine stood still or could not be read: the stretches of the verdicts on the screen, with their times."""

from __future__ import annotations

from tests.session.made import Log, Server, recorded
from vtop.session.frame.frame import View
from vtop.session.frame.incidents import Incident
from vtop.session.session import Session


def hung(seconds: int, *, health: int | None = 200) -> Session:
    """Ten seconds of work, then nothing moves for some, then ten of work."""
    log, server = Log(), Server()
    server.engine.running, server.engine.waiting = 12.0, 3.0
    for at in range(20 + seconds):
        still = 10 <= at <= 9 + seconds
        if not still:
            server.engine.count(generation_tokens=100.0)
        log.scrape(float(at), server, health=health if still else 200)
    return log.session()


def told(session: Session) -> list[tuple[str, float, float, bool]]:
    return [(one.kind, round(one.begin_s, 2), round(one.end_s, 2), one.over) for one in session.incidents()]


def test_an_engine_that_stands_still_is_stuck_from_its_last_move_to_the_last_scrape_without_one() -> None:
    session = hung(44)
    assert told(session) == [("stuck", 9.0, 53.0, True)]
    (one,) = session.incidents()
    assert (one.seconds, one.running, one.waiting) == (44.0, 12.0, 3.0)


def test_the_screen_says_stuck_exactly_within_that_stretch() -> None:
    session = hung(44)
    (one,) = session.incidents()
    for scrape, at_s in enumerate(session.servers[0].at_s):
        limit = session.frame(session.servers[0].t[scrape], View(window_s=30.0, columns=1)).verdict.limit
        assert (limit == "stuck") is (one.begin_s + 5.0 <= at_s <= one.end_s), at_s


def test_a_pause_shorter_than_five_seconds_is_none() -> None:
    assert told(hung(4)) == []


def test_a_dead_engine_is_unhealthy_and_not_stuck() -> None:
    assert told(hung(20, health=503)) == [("unhealthy", 10.0, 29.0, True)]


def test_what_lasts_to_the_end_is_not_over() -> None:
    log, server = Log(), Server()
    server.engine.running = 1.0
    for at in range(9):
        log.scrape(float(at), server)
    assert told(log.session()) == [("stuck", 0.0, 8.0, False)]


def test_an_idle_engine_that_does_nothing_is_not_stuck() -> None:
    log, server = Log(), Server()
    for at in range(30):
        log.scrape(float(at), server)
    assert told(log.session()) == []


def test_an_outage_says_what_failed_and_a_silence_that_nothing_did() -> None:
    log, server = Log(), Server()
    for at in (0, 1, 2, 20, 21):
        if at == 20:
            log.outage(3.0, "refused", detail="/metrics: Connection refused")
        log.scrape(float(at), server)
    log.scrape(40.0, server)
    first, second = log.session().incidents()
    assert (first.kind, first.begin_s, first.end_s, first.detail) == (
        "outage",
        2.0,
        20.0,
        "/metrics: Connection refused",
    )
    assert (second.kind, second.begin_s, second.end_s, second.detail) == ("stale", 21.0, 40.0, None)


def test_an_outage_that_nobody_came_back_from_lasts_to_the_end() -> None:
    log, server = Log(), Server()
    for at in range(3):
        log.scrape(float(at), server)
    log.outage(3.0)
    log.outage(9.0)
    assert told(log.session()) == [("outage", 2.0, 9.0, False)]


def test_a_killed_server_was_away_and_came_back_as_another() -> None:
    found: list[Incident] = list(recorded("killed").incidents())
    assert [one.kind for one in found] == ["outage", "restart"]
    assert round(found[0].seconds) == 92
    assert found[0].end_s == found[1].begin_s
    assert (found[0].running, found[0].waiting) == (11.0, 33.0)
