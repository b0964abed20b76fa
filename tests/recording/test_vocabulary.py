"""Each word of a closed vocabulary is declared once; one that this vtop does not know costs no line and no screen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.session.made import SMALL
from tests.shipped_kinds import FOLDER
from vtop.draw import layout, theme
from vtop.draw.panels import events, verdict_line
from vtop.export.tables.events import EVENTS
from vtop.recording import FileRecording, Gpu, Start, Target, Unknown, decode, encode, events_of, vocabulary
from vtop.recording.events import FORMAT
from vtop.session.bottleneck import status, verdict
from vtop.session.event_log import MARKED
from vtop.session.frame.frame import View
from vtop.session.frame.vocabulary import LOGGED_KINDS, STATUS_KINDS, VERDICT_LIMITS
from vtop.session.session import Session

# fields of lines -> the words they may hold
FIELDS: Mapping[tuple[str, str], Sequence[str]] = {
    ("outage", "reason"): vocabulary.OUTAGE_REASONS,
    ("load", "state"): vocabulary.LOAD_STATES,
    ("load", "shape"): vocabulary.LOAD_SHAPES,
    ("load", "api"): vocabulary.APIS,
    ("request", "tokens_from"): vocabulary.TOKENS_FROM,
    ("request", "error"): vocabulary.ERROR_CLASSES,
    ("note", "source"): vocabulary.NOTE_SOURCES,
}
DEVICE: Mapping[str, Sequence[str]] = {
    "power_kind": vocabulary.POWER_KINDS,
}
VOCABULARIES = {**{"/".join(field): words for field, words in FIELDS.items()}, **DEVICE}


def on_record(path: Path) -> dict[str, set[str]]:
    """The words that a recording's lines hold, by field."""
    found: dict[str, set[str]] = defaultdict(set)
    with closing(FileRecording(path)) as recording:
        for event in events_of(recording):
            kind = type(event).__name__.lower()
            for of, name in FIELDS:
                if of == kind and (word := getattr(event, name)) is not None:
                    found[f"{kind}/{name}"].add(word)
            for device in event.gpus if isinstance(event, Gpu) else ():
                found["power_kind"] |= {device.power_kind} if device.power_kind is not None else set()
        return found


RECORDED = [*SMALL, FOLDER / "killed.jsonl.gz", FOLDER / "overload.jsonl.gz"]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_every_word_on_record_is_declared(path: Path) -> None:
    for field, said in on_record(path).items():
        assert said <= set(VOCABULARIES[field]) - {"other"}, field


LATER = [
    b'{"type":"outage","t":0.5,"server":0,"at_s":0.4,"took_s":0.1,"reason":"throttled"}',
    b'{"type":"gpu","t":0.6,"at_s":0.6,"took_s":0.0,"gpus":[{"index":0,"uuid":"a","power_w":1.0,"power_kind":"peak",'
    b'"throttle":["too loud"]}]}',
    b'{"type":"gpu","t":1.6,"at_s":1.6,"took_s":0.0,"gpus":[{"index":0,"uuid":"a","power_w":1.0,"power_kind":"peak",'
    b'"throttle":["too loud"]}]}',
    b'{"type":"load","t":2.0,"phase":0,"state":"begin","spec":"wave=4","shape":"wave","api":"responses"}',
    b'{"type":"load","t":2.1,"phase":0,"state":"pause","spec":"wave=4","shape":"wave","api":"responses"}',
    b'{"type":"load","t":2.2,"phase":0,"state":"change","spec":"wave=8","shape":"wave","api":"responses"}',
    b'{"type":"request","t":2.5,"id":0,"phase":0,"sent_s":2.2,"first_s":2.3,"last_s":2.4,"end_s":2.4,'
    b'"output_tokens":1,"tokens_from":"guess"}',
    b'{"type":"request","t":2.6,"id":1,"phase":0,"sent_s":2.2,"end_s":2.4,"error":"haunted","detail":"boo"}',
    b'{"type":"request","t":2.7,"id":2,"phase":0,"sent_s":2.2,"end_s":2.4,"error":"cursed"}',
    b'{"type":"note","t":3.0,"source":"stars","text":"it is written"}',
]


def session_of(lines: Sequence[bytes]) -> Session:
    servers = (Target(url="http://a"),)
    session = Session(Start(format=FORMAT, vtop="9", unix_s=0.0, servers=servers, interval_s=1.0))
    for line in lines:
        session.apply(decode(line))
    return session


@pytest.mark.parametrize("line", LATER, ids=range(len(LATER)))
def test_a_line_with_a_word_of_a_later_vtop_is_read_and_written_again_as_it_was(line: bytes) -> None:
    event = decode(line)
    assert not isinstance(event, Unknown)
    assert msgspec.json.decode(encode(event)) == msgspec.json.decode(line)


def test_a_recording_with_such_words_is_shown() -> None:
    session = session_of(LATER)
    frame = session.frame(3.5, View(60.0, 20))
    assert layout.screen(frame, 120, 40, theme.load("dark"))
    assert frame.load is not None
    assert (frame.load.shape, frame.load.state) == ("other", "running")
    assert frame.load.failed_by_class == (("other", 2),)
    assert frame.load.failed_detail == "boo"
    (device,) = frame.gpus.devices
    assert (device.power_kind, device.throttle) == ("other", ("too loud",))
    assert [one.text for one in frame.event_log if one.kind == "phase"] == ["load wave=4", "wave=8"]
    assert "it is written" in [one.text for one in frame.event_log]


def test_a_word_is_known_or_other() -> None:
    assert vocabulary.known("closed", vocabulary.LOAD_SHAPES) == "closed"
    assert all(words[-1] == "other" and len(set(words)) == len(words) for words in VOCABULARIES.values())


def test_every_table_by_words_knows_them_all() -> None:
    assert set(verdict.TITLES) == set(VERDICT_LIMITS)
    assert set(verdict_line.STATES) == set(status.GRAVITY) == set(STATUS_KINDS)
    assert set(status.HINTS) == set(vocabulary.OUTAGE_REASONS) - {"other"}
    assert {*events.EVENT_ROLES, "phase"} == set(LOGGED_KINDS) >= set(MARKED)


def test_the_export_names_every_kind_of_event() -> None:
    (kind,) = [column for column in EVENTS.columns if column.name == "kind"]
    assert kind.says.split(", ") == list(LOGGED_KINDS)


def test_the_format_page_names_every_word() -> None:
    page = (Path(__file__).parents[2] / "docs" / "recording-format.md").read_text(encoding="utf-8")
    for field, words in VOCABULARIES.items():
        for word in words[:-1]:
            assert word in page, (field, word)
