"""The words of --fault."""

from __future__ import annotations

import pytest

from vtop.engine.server.faults import FOREVER_S, Fault, Faults, faults
from vtop.errors import VtopError


def test_the_words_say_what_how_long_and_when() -> None:
    assert faults("stall=5s@30, restart@60,nan,freeze=20s@1m30s").all == (
        Fault("nan", 0.0, FOREVER_S),
        Fault("stall", 30.0, 5.0),
        Fault("restart", 60.0, 2.0),
        Fault("freeze", 90.0, 20.0),
    )
    assert faults("") == Faults()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("fire@3", "there are stall, restart, nan, freeze"),
        ("stall=5s", "at which second"),
        ("restart", "at which second"),
        ("stall=soon@3", "write 90, 90s"),
        ("stall=0@3", "how long"),
        ("stall=5@nan", "is not a time"),
        ("stall=nan@5", "is not a time"),
        ("nan=5s@", "is not a time"),
        ("=5@3", "there are stall"),
    ],
)
def test_what_cannot_be_understood_is_one_line(words: str, hint: str) -> None:
    with pytest.raises(VtopError, match=hint) as error:
        faults(words)
    assert len(str(error.value).splitlines()) == 1


def test_a_fault_is_on_from_its_beginning_to_its_end() -> None:
    several = faults("stall=5s@30,stall=1s@40")
    assert [several.silent_until_s(at_s) for at_s in (29.9, 30.0, 34.9, 35.0, 40.5, 41.0)] == [
        None, 35.0, 35.0, None, 41.0, None,
    ]  # fmt: skip
    assert several.during("nan", 30.0) is None
