"""A session that goes on for weeks tells the numbers of one that was never replaced, and its totals never go back."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from tests.session.made import read
from tests.shipped_kinds import FOLDER
from vtop.recording.cut import Known
from vtop.recording.shift import moved
from vtop.session import rolling
from vtop.session.frame.frame import View
from vtop.session.rolling import RollingSession, SinceAttached, Totals, counts_of, of_server
from vtop.session.session import Session

VIEW = View(window_s=10.0, columns=1, stacked=False)


def test_totals_go_on_over_sessions_that_take_each_others_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "SESSION_S", 40.0)
    start, events = read(FOLDER / "overload.jsonl.gz")  # 2:47, preemptions all through
    known, whole, totals = Known(), Session(start), Totals(0)
    young = RollingSession(start, lambda at_s: (moved(line, at_s, at_s) for line in known.lines(at_s)), 10.0)
    begins, seen, looked_s = set(), [SinceAttached()], 0.0
    for event in events:
        known.take(event)
        young.apply(event)
        whole.apply(event)
        if event.t - looked_s >= 5.0:
            looked_s = event.t
            frame_at = of_server(young.session, 0, VIEW)
            seen.append(totals.look(young, frame_at(looked_s), frame_at))
            begins.add(young.began_s)
    assert len(begins) == 4
    expected = counts_of(whole.frame(looked_s, VIEW))
    assert seen[-1].preemptions == expected.preemptions
    assert (seen[-1].outages, seen[-1].restarts) == (expected.outages, expected.restarts)
    assert expected.recomputed_tokens is not None
    assert seen[-1].recomputed_tokens == pytest.approx(expected.recomputed_tokens, rel=0.001)
    for counts in zip(*seen[1:], strict=True):
        told = [one for one in counts if one is not None]
        assert told == sorted(told)
        assert len(told) == len(counts)
    now, then = (session.frame(looked_s, VIEW).ttft for session in (young.session, whole))
    assert astuple(now) == astuple(then)
