"""What people type works as they type it: addresses without --url, load words without quotes, settings that stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.vtop import runner
from vtop.cli import main
from vtop.cli.arguments import is_address, joined, spelled_out
from vtop.errors import VtopError


def spelled(words: str) -> str:
    return " ".join(f"'{one}'" if " " in one else one for one in spelled_out(words.split(), main.params, main.commands))


@pytest.mark.parametrize("verb", ["record", "sweep"])
def test_verbs_that_watch_servers_take_bare_addresses_too(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(main.commands[verb], "callback", lambda **given: asked.append(given))
    done = runner().invoke(main, [verb, ":8301", "gpu7:8000", "--interval", "2", "-o", "x.jsonl"])
    assert done.exit_code == 0, done.stderr
    assert asked[0]["urls"] == (":8301", "gpu7:8000")


def test_a_load_on_record_needs_no_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(main.commands["record"], "callback", lambda **given: asked.append(given))
    done = runner().invoke(main, ["record", "--load", "c=4", "n=20", ":8301", "-o", "x.jsonl"])
    assert done.exit_code == 0, done.stderr
    assert (asked[0]["loads"], asked[0]["urls"]) == (("c=4 n=20",), (":8301",))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--serve-metrics gpu7:8000", "--serve-metrics=127.0.0.1:9809 --url gpu7:8000"),
        ("--serve-metrics --load c=4 n=20", "--serve-metrics=127.0.0.1:9809 --load 'c=4 n=20'"),
        ("--serve-metrics=0.0.0.0:9000 :8301", "--serve-metrics=0.0.0.0:9000 --url :8301"),
    ],
)
def test_where_metrics_are_served_stands_behind_an_equals_sign(typed: str, meant: str) -> None:
    assert spelled(typed) == meant


@pytest.mark.parametrize(
    ("typed", "where"),
    [
        ("--serve-metrics", ("127.0.0.1", 9809)),
        ("--serve-metrics=9000", ("127.0.0.1", 9000)),
        ("--serve-metrics=[::]:9000", ("::", 9000)),
    ],
)
def test_metrics_are_served_on_loopback_unless_an_address_is_named(
    typed: str, where: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(main.commands["record"], "callback", lambda **given: asked.append(given))
    done = runner().invoke(main, ["record", typed, ":8301", "-o", "x.jsonl"])
    assert done.exit_code == 0, done.stderr
    assert asked[0]["serve_metrics"] == where


@pytest.mark.parametrize("typed", ["--load --model nope", ":8301 --load", "--load --yes"])
def test_a_load_of_which_nothing_is_said_is_refused(typed: str) -> None:
    with pytest.raises(VtopError, match="how much load is not said; write --load c=64"):
        spelled(typed)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (":8301", "--url :8301"),
        ("8301", "--url 8301"),
        ("localhost:8301 --no-gpu", "--url localhost:8301 --no-gpu"),
        ("--window 1m :8301", "--window 1m --url :8301"),
        (":8301 gpu7.lan --once", "--url :8301 --url gpu7.lan --once"),
        ("http://h:8000/v1 [::1]:8000", "--url http://h:8000/v1 --url [::1]:8000"),
        ("--load c=64 in=512 out=64 :8301", "--load 'c=64 in=512 out=64' --url :8301"),
        ("--load c=64 --load rate=8 for=9s --yes", "--load c=64 --load 'rate=8 for=9s' --yes"),
        ("--url=h:1 --ascii", "--url=h:1 --ascii"),
        ("show :8301 --at 1", "show :8301 --at 1"),  # behind a verb nothing is touched
        ("", ""),
    ],
)
def test_bare_words_are_what_they_can_only_be(typed: str, meant: str) -> None:
    assert spelled(typed) == meant


@pytest.mark.parametrize(
    ("typed", "said"),
    [("recrod", "did you mean record?"), ("gpu7", "vtop --url gpu7"), ("run.jsonl.gz", "vtop replay run.jsonl.gz")],
)
def test_a_bare_word_that_is_neither_verb_nor_address_says_what_to_type(typed: str, said: str) -> None:
    with pytest.raises(VtopError, match=said):
        spelled(typed)


@pytest.mark.parametrize("name", [*main.commands, "gpu7", "nope", "run.jsonl", "c=64", "12345678"])
def test_no_verb_file_or_load_is_taken_for_an_address(name: str) -> None:
    assert not is_address(name)


@pytest.mark.parametrize(
    ("words", "specs"),
    [
        (("rate=8", "for=60s"), ("rate=8 for=60s",)),
        (("c=1", "n=4", "c=2", "n=8"), ("c=1 n=4", "c=2 n=8")),
        (("in=512", "c=4"), ("in=512 c=4",)),
        (("c=1 n=4", "c=2"), ("c=1 n=4", "c=2")),
        (("c=1,2,4", "out=9"), ("c=1,2,4 out=9",)),
    ],
)
def test_words_of_a_load_need_no_quotes(words: tuple[str, ...], specs: tuple[str, ...]) -> None:
    assert joined(words) == specs


# --- settings that stay ----------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("VTOP_CONFIG", raising=False)
    (tmp_path / "vtop").mkdir()
    return tmp_path / "vtop" / "config.toml"


def run(*words: str) -> Result:
    return runner().invoke(main, list(words))


def row(name: str, *words: str) -> list[str]:
    shown = run(*words, "config")
    assert shown.exit_code == 0, shown.output
    (line,) = [line for line in shown.stdout.splitlines() if line.split()[0] == name]
    return line.split()[1:]


def test_a_value_comes_from_the_file_or_the_environment_that_comes_before_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert row("window") == ["–", "default", "VTOP_WINDOW"]
    file.write_text('window = "1m"\nurl = ["gpu7:8000", "gpu8:8000"]\n[record]\ninterval = 5\n', encoding="utf-8")
    assert row("window") == ["60.0", "file", "VTOP_WINDOW"]
    assert row("url") == ["gpu7:8000,", "gpu8:8000", "file", "VTOP_URL"]
    assert row("interval") == ["1.0", "default", "VTOP_INTERVAL"]  # the table is of another verb
    monkeypatch.setenv("VTOP_WINDOW", "2m")
    assert row("window") == ["120.0", "environment", "VTOP_WINDOW"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('them = "dark"', "no option is called 'them'; did you mean 'theme'?"),
        ("[recrod]", "[recrod] is no verb of vtop; did you mean 'record'?"),
        ('[show]\nurl = "x"', "[show] has no option 'url'"),
        ("window = ", "cannot be read"),
        ("window = 2026-01-01", "window = 2026-01-01: write text in quotes, or a number"),
        ("a = " + "[" * 100_000 + "]" * 100_000, "cannot be read"),
        ('api-key = "secret"', "no option is called 'api-key'; did you mean 'api-key-file'?"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(file: Path, text: str, said: str) -> None:
    file.write_text(text, encoding="utf-8")
    result = run("--once")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert str(file) in line
    assert said in line
    assert "secret" not in line


def test_every_option_of_every_verb_can_be_set_but_those_of_one_call() -> None:
    for command in (main, *main.commands.values()):
        for option in command.params:
            names = {name.lstrip("-") for name in option.opts}
            if option.param_type_name == "option" and not names & {
                "help", "version", "output", "api-key", "header", "once", "json", "text", "force", "yes",
            }:  # fmt: skip
                assert getattr(option, "envvar", None), (command.name, option.opts)
