"""`vtop record --keep`: what does not go together is one line, and nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtop.cli.flight import check
from vtop.errors import VtopError

GIVEN: dict[str, Any] = {"keep_s": 7200.0, "trigger": "preemptions", "command": None, "webhook": None}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"keep_s": None}, "go with --keep 2h"),
        ({"trigger": None, "command": "true"}, "go with --on"),
        ({"command": "echo 'x"}, "--run echo 'x: no closing quotation"),
        ({"command": " "}, "no command in it"),
        ({"webhook": "http://example.org/x"}, "only this host is called"),
        ({"webhook": "http://[::1/x"}, "only this host is called"),
        ({"webhook": "http://127.0.0.1:abc/x"}, "only this host is called"),
        ({"webhook": "127.0.0.1:9000"}, "only this host is called"),
        ({"trigger": "mistakes"}, "nothing to wait for"),
    ],
)
def test_what_does_not_go_together_is_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(VtopError, match=said) as caught:
        check({**GIVEN, **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("webhook", ["http://127.0.0.1:9000/x", "http://localhost/x", "http://[::1]:80/"])
def test_this_host_may_be_called(webhook: str) -> None:
    assert check({**GIVEN, "webhook": webhook, "command": "logger -t vtop"}) is not None


def test_keeping_alone_waits_for_nothing(tmp_path: Path) -> None:
    assert check({**GIVEN, "trigger": None}) is None
