"""Every panel's drawing by name: those of the table, and the fixed lines above and between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vtop.draw.panels.axis import axis
from vtop.draw.panels.header import header
from vtop.draw.panels.registry import PANELS, Draw
from vtop.draw.panels.verdict_line import status
from vtop.draw.text import Line

DRAW: Final[dict[str, Draw]] = {
    "header": header, "status": status, "axis": axis, **{name: panel.draw for name, panel in PANELS.items()},
}  # fmt: skip


def text(lines: Iterable[Line]) -> str:
    """The characters of lines."""
    return "\n".join("".join(segment.text for segment in line) for line in lines)
