"""An event moved in time: every instant in it goes along, every duration stays."""

from __future__ import annotations

import json

import pytest

from vtop.recording import Event, Gpu, GpuReading, Mark, Request, Scrape, Unknown, decode
from vtop.recording.shift import INSTANTS, moved

RATES = {"rate_per_s", "first_per_s", "least_per_s", "most_per_s"}
DURATIONS = {"took_s", "connect_s", "for_s", "interval_s", "load_lag_p50_s", "load_lag_max_s", "offset_s", "rtt_s"}
WALL_CLOCK = {"unix_s"}


@pytest.mark.parametrize("kind", Event.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_field_in_seconds_is_known_to_be_an_instant_or_a_duration(kind: type[Event]) -> None:
    seconds = {name for name in kind.__struct_fields__ if name.endswith("_s")}
    assert seconds - RATES - DURATIONS - WALL_CLOCK == set(INSTANTS.get(kind, ()))


def test_instants_move_and_what_is_not_known_stays_unknown() -> None:
    request = Request(t=12.0, id=3, phase=0, sent_s=10.0, connect_s=0.5, first_s=11.25)
    later = moved(request, -10.5)
    assert later == Request(t=1.5, id=3, phase=0, sent_s=-0.5, connect_s=0.5, first_s=0.75)


def test_a_line_can_be_written_at_another_time_than_its_fact() -> None:
    gpu = Gpu(t=7.0, at_s=6.9, took_s=0.1, gpus=(GpuReading(index=0, uuid="a"),))
    assert moved(gpu, -8.0, 0.0) == Gpu(t=0.0, at_s=-1.1, took_s=0.1, gpus=gpu.gpus)


def test_a_difference_shows_no_digits_that_no_clock_has() -> None:
    scrape = Scrape(t=0.3, server=0, at_s=0.3, took_s=0.01, bytes=1)
    line = moved(scrape, -0.1)
    assert isinstance(line, Scrape)
    assert (line.t, line.at_s) == (0.2, 0.2)


def test_of_an_unknown_event_only_t_moves() -> None:
    unknown = decode(b'{"type":"later","t":9.5,"at_s":9.25,"x":[1,{"y":null}]}')
    assert isinstance(unknown, Unknown)
    line = moved(unknown, 0.5)
    assert isinstance(line, Unknown)
    assert line.t == 10.0
    assert json.loads(line.line) == {"type": "later", "t": 10.0, "at_s": 9.25, "x": [1, {"y": None}]}


def test_an_event_without_instants_only_has_its_t() -> None:
    assert moved(Mark(t=2.0, text="here"), 1.0) == Mark(t=3.0, text="here")
