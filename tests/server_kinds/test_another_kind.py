"""Another kind of server is one record: attached to, it is told by its page, read by its names, helped by its flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx
import pytest

from tests.sources.test_server import Hand
from vtop.access import Access
from vtop.draw import layout, theme
from vtop.metrics.quantity import Quantity, SeriesKind
from vtop.metrics.series_names import FamilyMeaning, PoolLabels, SeriesNames
from vtop.recording import AnyEvent, Identity, LiveRecording, Scrape, Start, Target, decode, encode
from vtop.recording.events import FORMAT, FlagValue
from vtop.report.labels import kinds
from vtop.server_kinds import registry
from vtop.server_kinds.kind import (
    CommandNames,
    Endpoints,
    FlagList,
    FlagNames,
    Hint,
    Limits,
    NoSuggestions,
    ServerKind,
)
from vtop.server_kinds.vllm.kind import VLLM
from vtop.session.frame.frame import Frame, View
from vtop.session.glossary.numbers import NUMBERS
from vtop.session.session import Session
from vtop.sources import command
from vtop.sources.flags import flags_of
from vtop.sources.server import ServerSource

_Q, _K = Quantity, SeriesKind


class Suggestions(NoSuggestions):
    def max_num_seqs(self, each: int) -> Hint | None:
        return Hint(f"--slots {each}", f"flash run … --slots {each}")


def limits(identity: Identity, device: str | None, memory_bytes: float | None) -> Limits:
    slots = (identity.flags or {}).get("slots", 4)
    return Limits(max_num_seqs=slots if isinstance(slots, int) else None)


FLASH = ServerKind(
    name="flash",
    title="Flash",
    marks=("flash:",),
    reads=True,
    series=SeriesNames(
        prefixes=("flash:",),
        families={
            "active": FamilyMeaning(_Q.RUNNING, _K.GAUGE),
            "queued": FamilyMeaning(_Q.WAITING, _K.GAUGE),
            "cache_fill": FamilyMeaning(_Q.KV_USED, _K.RATIO),
            "out_tokens": FamilyMeaning(_Q.GENERATION_TOKENS, _K.COUNTER),
            "in_tokens": FamilyMeaning(_Q.PROMPT_TOKENS, _K.COUNTER),
            "setup_info": FamilyMeaning(_Q.CACHE_CONFIG, _K.INFO),
        },
        kept_labels=frozenset({"rows", "row"}),
        largest=("_fill", "_info"),
        pool=PoolLabels(tokens="rows", block_size="row"),
    ),
    endpoints=Endpoints(metrics="/stats", health="/ready", version="/about", version_field="release", models="/models"),
    commands=CommandNames(verbs={("flash", "run"): "flash run"}),
    flags=FlagList(numbers=("slots",), switches=("eager",), short={"-s": "slots"}),
    flag_names=FlagNames(max_num_seqs="slots", no_series="quiet"),
    limits=limits,
    suggest=Suggestions(),
)


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.KINDS, "flash", FLASH)


def answers(tick: int) -> Mapping[str, str]:
    """What a Flash server says on its paths; it has no /metrics."""
    return {
        "/stats": f"flash:active 4\nflash:queued 3\nflash:cache_fill 0.5\nflash:out_tokens_total {100 * tick}\n"
        f'flash:in_tokens_total {900 * tick}\nflash:setup_info{{rows="4096",row="16",owner="s3cret"}} 1\n',
        "/ready": "",
        "/about": '{"release": "7.1", "key": "s3cret"}',
        "/models": '{"data": [{"id": "tiny", "max_model_len": 512}]}',
    }


def attached(says: Callable[[int], Mapping[str, str]], ticks: int = 12) -> list[AnyEvent]:
    """The lines of a session that watched a pretended server for so many seconds."""
    hand, tick, asked = Hand(ticks), 0, []

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal tick
        path = request.url.path
        asked.append(path)
        body = says(tick).get(path)
        tick += path in ("/metrics", "/stats")
        return httpx.Response(404 if body is None else 200, stream=httpx.ByteStream((body or "").encode()))

    start = Start(format=FORMAT, vtop="0", unix_s=0.0, servers=(Target(url="http://127.0.0.1:1"),), interval_s=1.0)
    live = LiveRecording(start, hand.clock)
    started = command.Command("flash run", flags_of(["--slots", "4", "--key", "s3cret"], FLASH.flags), 1, 1)
    ServerSource(
        0,
        start.servers[0],
        Access(),
        live.append,
        hand.clock,
        wait=hand.wait,
        transport=httpx.MockTransport(answer),
        started_by=lambda: started,
    ).start()
    assert hand.done.wait(20)
    events = live.take()
    live.close("quit")
    assert asked.count("/metrics") <= ticks
    return events


def fold(events: list[AnyEvent]) -> Session:
    start = events[0]
    assert isinstance(start, Start)
    session = Session(start)
    for event in events:
        session.apply(decode(encode(event)))
    return session


def seen(events: list[AnyEvent]) -> Frame:
    session = fold(events)
    return session.frame(session.end_s, View(60.0, 20))


@pytest.mark.usefixtures("flash")
def test_its_numbers_appear() -> None:
    frame = seen(attached(answers))
    (server,) = frame.servers
    assert (server.kind, server.version, server.models, server.max_model_len) == ("flash", "7.1", ("tiny",), 512)
    assert (frame.requests.running.now, frame.requests.waiting.now, frame.kv.used.now) == (4, 3, 0.5)
    assert (frame.kv.pool_tokens, frame.kv.block_size, frame.kv.used_tokens) == (4096, 16, 2048)
    assert frame.generation_tokens.per_s == pytest.approx(100)
    assert frame.prompt_tokens.per_s == pytest.approx(900)
    assert frame.status.kind == "busy"


@pytest.mark.usefixtures("flash")
def test_its_flags_are_what_is_suggested() -> None:
    verdict = seen(attached(answers)).verdict
    assert (verdict.limit, verdict.flag, verdict.command) == ("max-num-seqs", "--slots 8", "flash run … --slots 8")
    assert "the limit of slots" in verdict.sentence


@pytest.mark.usefixtures("flash")
def test_the_screen_names_it_and_not_another_kind() -> None:
    drawn = layout.screen(seen(attached(answers)), 160, 50, theme.load("dark"))
    text = "\n".join("".join(piece.text for piece in line) for line in drawn)
    assert "Flash 7.1" in text
    assert "vllm" not in text.lower()


@pytest.mark.usefixtures("flash")
def test_its_first_scrape_is_read_by_its_names_and_only_its_labels_are_kept() -> None:
    events = attached(answers)
    first = next(event for event in events if isinstance(event, Scrape))
    who = next(event for event in events if isinstance(event, Identity))
    assert events.index(who) < events.index(first)
    assert b'"kind":"flash"' in encode(who)
    assert first.health == 200
    assert b"s3cret" not in b"".join(map(encode, events))


@pytest.mark.usefixtures("flash")
def test_the_help_names_its_series() -> None:
    running = next(number for number in NUMBERS if number.reads[:1] == (Quantity.RUNNING,))
    assert running.source(FLASH).startswith("flash:active")
    preempted = next(number for number in NUMBERS if number.reads == (Quantity.PREEMPTIONS,))
    assert preempted.source(FLASH) == "nothing that Flash exports"


@pytest.mark.usefixtures("flash")
def test_the_report_names_it() -> None:
    session = fold(attached(answers))
    servers = session.frame(session.end_s).servers
    assert kinds(servers) == "Flash"


@pytest.mark.usefixtures("flash")
def test_its_process_is_known_by_its_command_line() -> None:
    found = command.server(["/opt/flash", "run", "tiny", "-s", "8"])
    assert found is not None
    kind, name, words = found
    assert (kind, name, flags_of(words, kind.flags)) == (FLASH, "flash run", {"slots": 8})


def test_a_vtop_that_does_not_know_the_kind_opens_its_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as known:
        known.setitem(registry.KINDS, "flash", FLASH)
        events = attached(answers)
    frame = seen(events)
    assert (frame.status.kind, frame.requests.running.now) == ("blind", None)
    assert frame.status.sentence == "this is flash 7.1: vtop reads vLLM"


def test_of_vllm_no_word_more_is_recorded() -> None:
    assert b"kind" not in encode(Identity(server=0, kind=VLLM.name, version="0.26.0"))
    assert decode(b'{"type":"identity","t":0,"server":0}') == Identity(t=0, server=0, kind="vllm")


@pytest.mark.usefixtures("flash")
def test_a_port_that_becomes_another_kind_is_read_anew() -> None:
    def says(tick: int) -> Mapping[str, str]:
        old = {
            "/metrics": "vllm:num_requests_running 2\nflash:queued_by_mistake 1\n",
            "/health": "",
            "/version": '{"version": "0.26.0"}',
            "/v1/models": '{"data": []}',
        }
        return old if tick < 4 else {**answers(tick), "/metrics": answers(tick)["/stats"]}

    session = fold(attached(says))
    before, after = session.frame(2.5), session.frame(session.end_s)
    assert [before.servers[0].kind, after.servers[0].kind] == ["vllm", "flash"]
    assert [before.requests.running.now, after.requests.running.now] == [2, 4]


def test_each_kind_is_listed_under_its_name_and_told_by_some_mark() -> None:
    for name, one in registry.KINDS.items():
        assert one.name == name
        assert one.marks or one.sure_marks
        assert registry.of(name) is one


FLAGS: Mapping[str, FlagValue] = {}


def test_vllm_has_a_suggestion_against_every_limit() -> None:
    suggest = VLLM.suggest
    hints = [suggest.larger_pool(FLAGS), suggest.more_api_servers(FLAGS), suggest.max_num_seqs(8)]
    for hint in (*hints, suggest.other_budget(None), suggest.count_work()):
        assert hint is not None
        assert hint.flag.startswith("--")
