"""How a session begins: nothing is made of what cannot be; the command line is on record, with no secret."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from vtop.access import Access
from vtop.errors import VtopError
from vtop.recording import End, Host, Identity, Outage, Start, Target
from vtop.recording.events import AnyEvent
from vtop.sources import host
from vtop.sources.attach import Attachment, struck_out

WITHIN_S = 20.0
FAR = Target(url="https://192.0.2.7", local=False)


def test_no_file_is_made_where_a_server_cannot_be_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(VtopError, match="SSL_CERT_FILE"):
        Attachment([FAR], [Access()], path=tmp_path / "new.jsonl")
    assert not list(tmp_path.iterdir())


def test_a_session_tells_of_the_machine_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "EVERY_S", 0.01)
    attachment = Attachment([FAR], [Access()], watch=False)
    told = threading.Event()

    def listen(event: AnyEvent) -> None:
        if isinstance(event, Host):
            told.set()

    attachment.recording.listen(listen)
    attachment.start()
    assert told.wait(WITHIN_S)
    attachment.stop("quit")
    start, first, *_, end = attachment.recording.take()
    assert isinstance(start, Start)
    assert isinstance(first, Host)
    assert first.vtop_cpu_ratio is not None
    assert isinstance(end, End)


def test_whoever_answers_anew_has_its_devices_looked_up_anew() -> None:
    asked = []
    attachment = Attachment([Target(url="http://localhost:1")], [Access()])
    assert attachment.gpus is not None
    attachment.gpus.look_again = lambda: asked.append(1)  # type: ignore[method-assign]
    source = attachment.servers[0]
    source._append(Outage(server=0, at_s=0.0, took_s=0.0, reason="refused"))
    assert not asked
    source._append(Identity(server=0, version="0.26.0"))
    assert asked == [1]
    attachment.stop("quit")


@pytest.mark.parametrize(
    "secret",
    [
        ("--api-key", "s3cret"),
        ("--api-key=s3cret",),
        ("--header", "X: s3cret"),
        ("--header=X: s3cret",),
        ("-H", "X: s3cret"),
        ("-HX: s3cret",),
        ("-H=X: s3cret",),
        ("--url", "http://me:s3cret@host:8000"),
        ("--url=http://me:s3cret@host:8000",),
    ],
)
def test_no_way_of_writing_a_secret_gets_it_on_record(secret: tuple[str, ...]) -> None:
    words = struck_out((*secret, "--record", "run.jsonl"))
    assert "s3cret" not in " ".join(words)
    assert words[-2:] == ("--record", "run.jsonl")
