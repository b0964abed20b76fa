"""What is said of now speaks of now: of the load as it is, of the process that is there, and of data that are fresh."""

from __future__ import annotations

import pytest

from tests.session.made import Log, Server, recorded
from vtop.recording import Load
from vtop.session.session import Session


@pytest.fixture(scope="module")
def killed() -> Session:
    """24 requests a second, then 64 in flight that ask for six times the pool (from 24.7 s), then no server (98 s)."""
    return recorded("killed")


def at_work(log: Log, server: Server, second: int, *, waiting: float, first_tokens: int) -> None:
    server.engine.running, server.engine.waiting = 4.0, waiting
    server.engine.count(generation_tokens=10)
    for _ in range(first_tokens):
        server.engine.observe(time_to_first=1.0)
    log.scrape(float(second), server)


BEGIN = Load(phase=0, state="begin", spec="c=64", shape="closed", concurrency=64)


def test_the_queue_now_of_a_load_does_not_count_the_first_tokens_of_the_one_before(killed: Session) -> None:
    """Those that left the queue then had waited 32 s (60 s in), 46 s (69 s) and 61 s (85 s), and waited longer the
    longer it lasted: the line had stood since the load began."""
    for at_s in (53.0, 60.0, 69.0, 85.0):
        queue_s = killed.frame(at_s).ttft.queue_now_s
        assert queue_s is not None
        assert 40 < queue_s < 70


def test_before_a_new_load_gave_a_first_token_its_queue_is_not_known() -> None:
    log, server = Log(), Server()
    for second in range(20):
        at_work(log, server, second, waiting=3, first_tokens=20)
    log.add(BEGIN, 19.5)
    assert log.frame(19.4).ttft.queue_now_s == pytest.approx(3 / 20)
    for second in range(20, 25):
        at_work(log, server, second, waiting=50, first_tokens=0)
    assert log.frame().ttft.queue_now_s is None
    for second in range(25, 31):
        at_work(log, server, second, waiting=50, first_tokens=1)
    assert log.frame().ttft.queue_now_s == pytest.approx(50 * 10 / 6)


def test_a_load_changed_by_hand_has_a_queue_of_its_own() -> None:
    log, server = Log(), Server()
    log.add(BEGIN, 0.0)
    for second in range(20):
        at_work(log, server, second, waiting=3, first_tokens=20)
    log.add(Load(phase=0, state="change", spec="c=64", shape="closed", concurrency=128), 19.5)
    for second in range(20, 31):
        at_work(log, server, second, waiting=50, first_tokens=1)
    assert log.frame().ttft.queue_now_s == pytest.approx(50.0)


def test_the_queue_of_the_process_before_a_restart_is_not_this_one_s() -> None:
    log, server = Log(), Server()
    for second in range(20):
        at_work(log, server, second, waiting=3, first_tokens=20)
    server.restart()
    for second in range(20, 31):
        at_work(log, server, second, waiting=50, first_tokens=1)
    assert log.frame().ttft.queue_now_s == pytest.approx(50.0)


def test_beyond_a_quarter_of_a_minute_only_the_time_in_which_there_was_a_queue_counts() -> None:
    """Nobody waited in the first 40 s, in which 5 a second came; now 1 a second leaves the line. Where vtop only
    watches that is all there is to see of a load that changed."""
    log, server = Log(), Server()
    for second in range(60):
        waits = second > 40
        at_work(log, server, second, waiting=20 * waits, first_tokens=1 if waits else 5)
    assert log.frame().ttft.queue_now_s == pytest.approx(20.0, rel=0.1)


def test_in_a_server_that_answers_no_more_there_is_no_queue_to_estimate(killed: Session) -> None:
    assert killed.frame(97.0).ttft.queue_now_s is not None
    gone = killed.frame(106.0)
    assert (gone.requests.waiting.now, gone.status.fresh) == (33, False)
    assert gone.ttft.queue_now_s is None


def test_of_two_servers_the_one_that_answers_has_a_queue() -> None:
    log, one, other = Log(servers=2), Server(), Server()
    for second in range(40):
        one.engine.running, one.engine.waiting = 4.0, 6.0
        one.engine.count(generation_tokens=10)
        one.engine.observe(time_to_first=1.0)
        log.scrape(float(second), one)
        if second < 20:
            other.engine.running, other.engine.waiting = 4.0, 90.0
            other.engine.count(generation_tokens=10)
            log.scrape(float(second), other, server=1)
        else:
            log.outage(float(second), server=1)
    frame = log.frame()
    assert [server.status.fresh for server in frame.servers] == [True, False]
    assert frame.ttft.queue_now_s == pytest.approx(6.0)


def test_a_server_is_up_for_no_time_while_it_does_not_answer(killed: Session) -> None:
    up_s = [killed.frame(at_s).servers[0].uptime_s for at_s in (60.0, 97.0, 106.0, 180.0, 190.0)]
    assert up_s == [pytest.approx(424, abs=1), pytest.approx(461, abs=1), None, None, pytest.approx(84, abs=1)]
