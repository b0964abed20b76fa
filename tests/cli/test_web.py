"""`vtop web` before there is a page: what it shows, whom it lets in, what it needs."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from vtop.cli import main
from vtop.cli import web as verb
from vtop.errors import VtopError


def checked(*words: str) -> None:
    with main.make_context("vtop", ["web"]) as context:
        verb._check(context, words)


def refused(*words: str) -> str:
    with pytest.raises((VtopError, click.ClickException)) as caught:
        checked(*words)
    return str(getattr(caught.value, "message", caught.value))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--url", ":8301", "--window", "60s"),
        (":8301", "gpu7:8000"),
        ("replay", "overload", "--at", "0:40"),
        ("demo",),
    ],
)
def test_a_screen_of_any_kind_is_served(words: tuple[str, ...]) -> None:
    checked(*words)


def test_what_is_no_screen_or_would_be_done_by_every_page_is_said_before_there_is_one() -> None:
    assert refused("sweep", "-o", "x.jsonl").startswith("web shows a screen")
    assert refused("--load", "c=4") == (
        "web only shows: --load would be done by every page that is opened; run it beside vtop web"
    )
    assert "--record" in refused("--record", "x.jsonl")
    assert "--once" in refused("--once")
    assert "nowhere.jsonl: cannot be read" in refused("replay", "nowhere.jsonl")
    assert "--bogus" in refused("--bogus")


def test_a_token_is_made_where_it_is_needed_and_none_is_taken_that_can_be_guessed(tmp_path: Path) -> None:
    assert verb._token(None, None, needed=False) is None
    made = verb._token(None, None, needed=True)
    assert made is not None
    assert len(made) >= verb.LEAST_TOKEN
    assert made != verb._token(None, None, needed=True)
    file = tmp_path / "token"
    file.write_text("abcdefgh-12345678\n")
    assert verb._token(None, file, needed=False) == "abcdefgh-12345678"
    for given in ("short", "with a blank in the midst", "ümlaut-ümlaut-ümlaut", "a&b=c;d/e?f#g%20h+i"):
        with pytest.raises(VtopError, match="16 or more letters"):
            verb._token(given, None, needed=True)


def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve", None)
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    monkeypatch.setitem(sys.modules, "aiohttp_jinja2", None)
    monkeypatch.delitem(sys.modules, "vtop.ui.web", raising=False)
    with pytest.raises(SystemExit) as end:
        main(["web", "replay", "overload"])
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "vtop: web needs textual-serve, which is not installed: pip install 'vtop[web]'\n"
    )
