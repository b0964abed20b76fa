"""Speculative decoding, sources of prompt tokens, failed transfers and adapters, from pages of real servers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from vtop.metrics.page import Folder
from vtop.recording import Start, Target
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names
from vtop.session.frame.frame import Frame
from vtop.session.session import Session

SCRAPES = Path(__file__).parents[1] / "scrapes"
SPECULATING, ADAPTERS, IDLE = "09_spec_ngram.txt", "10_lora_mid.txt", "01_idle.txt"


def seen(*pages: str) -> Frame:
    """What there is to see after pages that were scraped a second apart."""
    session = Session(Start(format=FORMAT, vtop="0", unix_s=0.0, servers=(Target(url="http://h"),), interval_s=1.0))
    folder = Folder(series_names)
    for at, page in enumerate(pages):
        scrape = folder.scrape(page, server=0, at_s=float(at), took_s=0.0, bytes=len(page), health=200)
        session.apply(msgspec.structs.replace(scrape, t=float(at)))
    return session.frame(float(len(pages) - 1))


def page(name: str, *changes: tuple[str, str]) -> str:
    text = (SCRAPES / name).read_text("utf-8")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def test_a_step_gives_the_accepted_tokens_of_its_draft_and_one_more() -> None:
    counter = 'vllm:spec_decode_num_{}_total{{engine="0",model_name="tiny"}} {}'.format
    position = ',position="{}"}} {}'.format
    begun = page(
        SPECULATING,
        (counter("drafts", 100.0), counter("drafts", 60.0)),
        (counter("draft_tokens", 292.0), counter("draft_tokens", 172.0)),
        (counter("accepted_tokens", 292.0), counter("accepted_tokens", 202.0)),
        (position(0, 100.0), position(0, 62.0)),
        (position(2, 92.0), position(2, 80.0)),
    )
    found = seen(begun, page(SPECULATING)).speculation
    assert found is not None
    assert (found.drafts, found.drafts_per_s, found.draft_tokens, found.accepted_tokens) == (40, 40, 120, 90)
    assert (found.accepted_ratio, found.accepted_per_draft, found.tokens_per_step) == (0.75, 2.25, 3.25)
    assert [(at.position, at.ratio) for at in found.by_position] == [(1, 0.95), (2, 0.0), (3, 0.3)]


def test_without_a_draft_in_the_window_nothing_is_said_of_a_draft() -> None:
    found = seen(page(SPECULATING), page(SPECULATING)).speculation
    assert found is not None
    assert (found.drafts, found.accepted_ratio, found.tokens_per_step, found.by_position) == (0, None, None, ())


def test_a_server_without_any_of_it_has_none_of_it() -> None:
    found = seen(page(IDLE))
    assert (found.speculation, found.lora, found.failed_transfers) == (None, None, None)


def test_prompt_tokens_divide_into_computed_local_cache_and_connector() -> None:
    source = 'prompt_tokens_by_source_total{{engine="0",model_name="tiny",source="{}"}} {}'.format
    grown = [("local_compute", 60.0), ("local_cache_hit", 30.0), ("external_kv_transfer", 10.0)]
    later = page(IDLE, *((source(name, "0.0"), source(name, tokens)) for name, tokens in grown))
    found = seen(page(IDLE), later).prompt_sources
    assert [(one.source, one.tokens, one.ratio) for one in found] == [
        ("computed", 60, 0.6), ("local cache", 30, 0.3), ("connector", 10, 0.1),
    ]  # fmt: skip


def test_failed_transfers_add_up_over_the_counters_of_a_connector() -> None:
    counters = "vllm:nixl_num_failed_transfers_total {}\nvllm:nixl_num_failed_notifications_total {}\n".format
    found = seen(page(IDLE) + counters(1.0, 0.0), page(IDLE) + counters(4.0, 1.0)).failed_transfers
    assert found is not None
    assert (found.in_window, found.since_start) == (4, 4)
    assert found.by_part == (("NIXL notifications", 1), ("NIXL transfers", 3))


@pytest.mark.parametrize("newest", [0, 1])
def test_of_the_sets_of_adapters_ever_told_the_one_set_last_is_of_now(newest: int) -> None:
    series = 'vllm:lora_requests_info{{max_lora="1",running_lora_adapters="{}",waiting_lora_adapters="ad1"}} {}'.format
    first = series("ad1", "1.7959558474193857e+09")
    later = page(ADAPTERS, (first, f"{first}\n{series('ad1,ad2', 1.79595585e9)}"))
    last = page(ADAPTERS, (first, f"{series('ad1', 1.79595586e9)}\n{series('ad1,ad2', 1.79595585e9)}"))
    found = seen(page(ADAPTERS), later, *[last] * newest).lora
    assert found is not None
    assert (found.adapters, found.most) == ((("ad1", "ad2"), ("ad1",))[newest], 1)
