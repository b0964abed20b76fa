"""A model's shape that is given when a recording is opened."""

from __future__ import annotations

from pathlib import Path

from vtop.recording import AnyEvent, Identity, Start, Target, encode
from vtop.recording.events import FORMAT
from vtop.recording.with_model_shape import ShapedRecording

GIVEN: dict[str, int | str] = {"hidden_size": 64}
OWN: dict[str, int | str] = {"hidden_size": 128}


def taken(path: Path, *events: Identity, limit: int = 100) -> list[AnyEvent]:
    servers = (Target(url="http://a:8000"), Target(url="http://b:8000"))
    start = Start(t=0.0, format=FORMAT, vtop="test", unix_s=1.0, servers=servers, interval_s=1.0)
    path.write_bytes(b"".join(encode(event) + b"\n" for event in (start, *events)))
    recording = ShapedRecording(path)
    recording.know(GIVEN)
    found: list[AnyEvent] = []
    while events_now := recording.take(limit):
        found += [event for event in events_now if isinstance(event, Identity)]
    recording.close()
    return found


def shapes(events: list[AnyEvent]) -> list[tuple[int, float, object]]:
    return [(event.server, event.t, event.shape) for event in events if isinstance(event, Identity)]


def test_every_server_has_it_from_the_beginning_on(tmp_path: Path) -> None:
    assert shapes(taken(tmp_path / "a.jsonl")) == [(0, 0.0, GIVEN), (1, 0.0, GIVEN)]


def test_it_fills_what_is_not_on_record_and_nothing_else(tmp_path: Path) -> None:
    found = taken(
        tmp_path / "a.jsonl",
        Identity(t=1.0, server=0, version="1"),
        Identity(t=2.0, server=1, shape=OWN),
        Identity(t=3.0, server=1),
        limit=1,
    )
    assert shapes(found)[2:] == [(0, 1.0, GIVEN), (1, 2.0, OWN), (1, 3.0, None)]
    assert isinstance(found[2], Identity)
    assert found[2].version == "1"
