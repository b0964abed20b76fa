"""A file of servers is read as Prometheus writes it, or as a person does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vtop.access import Access
from vtop.errors import VtopError
from vtop.recording import Note, Target, TargetChange
from vtop.sources.address import target
from vtop.sources.attach import Attachment
from vtop.sources.targets import listed_in


def urls(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "targets"
    file.write_text(text, encoding="utf-8")
    return [target(one.url).url for one in listed_in(file)]


def test_file_sd_is_read_with_its_scheme_and_path(tmp_path: Path) -> None:
    text = """[{"targets": ["a:8000", "b:8000"], "labels": {"env": "prod"}},
      {"targets": ["c", "a:8000"], "labels": {"__scheme__": "https", "__metrics_path__": "/llm/metrics"}}]"""
    assert urls(tmp_path, text) == ["http://a:8000", "http://b:8000", "https://c/llm", "https://a:8000/llm"]


def test_an_address_a_line_is_read_and_each_once(tmp_path: Path) -> None:
    text = "# of rack 7\n\ngpu1:8000\n:8301  # here\ngpu1:8000\nhttps://h/v1\n"
    assert urls(tmp_path, text) == ["http://gpu1:8000", "http://localhost:8301", "https://h"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no server in it"),
        ("[]", "no server in it"),
        ('[{"labels": {}}]', r"missing required field `targets`"),
        ('{"targets": ["a"]}', "Expected `array`"),
        ("gpu1 gpu2", "line 1 is no address"),
        ("<html>hi</html>\n", "line 1 is no address"),
        ("a:1\n\x1b]0;pwn\x07:80\n", "line 2 is no address"),
        ("x" * 3000, "line 1 is no address"),
    ],
)
def test_what_is_no_list_of_servers_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(VtopError, match=said):
        urls(tmp_path, text)


def test_more_servers_than_threads_can_ask_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(VtopError, match="1,001 servers; at most 1,000 are watched at once"):
        urls(tmp_path, "\n".join(f"gpu{number}:8000" for number in range(1001)))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(VtopError, match=r"cannot be read \(No such file"):
        listed_in(tmp_path / "nope")


def test_labels_are_kept_but_for_those_that_are_of_prometheus_itself(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    file.write_text(
        '[{"targets": ["a:1", "b:1"], "labels": {"job": "chat", "__scheme__": "https"}}, {"targets": ["c"]}]'
    )
    assert [one.labels for one in listed_in(file)] == [{"job": "chat"}, {"job": "chat"}, {}]


YAML = "# of rack 7\n- targets: ['a:8000', b:8000]\n  labels:\n    env: prod\n- targets:\n  - c\n"


def test_file_sd_is_read_as_yaml(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    file = tmp_path / "targets.yml"
    file.write_text(YAML)
    assert [tuple(one) for one in listed_in(file)] == [
        ("http://a:8000/metrics", {"env": "prod"}),
        ("http://b:8000/metrics", {"env": "prod"}),
        ("http://c/metrics", {}),
    ]
    file.write_text("targets: [a]\n")
    with pytest.raises(VtopError, match="Expected `array`"):
        listed_in(file)


def test_yaml_without_its_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    file = tmp_path / "targets"
    file.write_text(YAML)
    with pytest.raises(VtopError, match="YAML needs the package PyYAML"):
        listed_in(file)


def test_a_list_that_changes_is_followed_and_what_is_wrong_with_it_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "targets"
    file.write_text(":1\n:2\n")
    attachment = Attachment(*read(file), gpus=False)
    attachment.follow(file, lambda: read(file))
    watched = attachment._list
    assert watched is not None
    for text in (":2\n:3\n", "no server here\n", ":1\n:2\n:3\n"):
        file.unlink()
        watched.look()  # gone for the moment
        file.write_text(text)
        watched.look()
        watched.look()
    events = attachment.recording.take()
    attachment.stop("test")
    changes = [(one.server, one.target and one.target.url) for one in events if isinstance(one, TargetChange)]
    assert changes == [(0, None), (2, "http://localhost:3"), (0, "http://localhost:1")]
    (said,) = [one.text for one in events if isinstance(one, Note) and one.source == "vtop"]
    assert said.endswith("the servers watched stay as they were")


def read(file: Path) -> tuple[list[Target], list[Access]]:
    targets = [target(one.url) for one in listed_in(file)]
    return targets, [Access() for _ in targets]
