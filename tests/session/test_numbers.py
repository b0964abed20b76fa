"""The table of numbers is about numbers that exist."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from vtop.server_kinds.vllm.kind import VLLM
from vtop.session.frame import gpus
from vtop.session.frame.frame import Frame
from vtop.session.glossary.number import Number
from vtop.session.glossary.numbers import NUMBERS


def _parts(hint: object) -> list[type]:
    """The dataclasses that a field may hold, alone or in a tuple."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return [hint]
    return [part for inner in typing.get_args(hint) for part in _parts(inner)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number.panel} {number.name}")
def test_every_number_stands_in_the_frame(number: Number) -> None:
    # GPUs are the one list inside a part: their numbers are named without it
    inside: list[type] = [Frame]
    for name in number.field.split("."):
        hints = [typing.get_type_hints(kind) for kind in inside]
        hints += [typing.get_type_hints(gpus.GpuPart)] if gpus.Gpus in inside else []
        found = [hint[name] for hint in hints if name in hint]
        assert found, f"{number.field}: there is no {name}"
        inside = [part for hint in found for part in _parts(hint)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number.panel} {number.name}")
def test_every_number_says_what_it_is_and_is_made_of(number: Number) -> None:
    assert number.formula
    assert number.unit
    assert number.source()
    for quantity in number.reads:
        exported = VLLM.series.exported_as(quantity)
        assert exported is not None
        assert exported in number.source()


def test_no_number_is_told_twice() -> None:
    assert len({(number.panel, number.name) for number in NUMBERS}) == len(NUMBERS)
