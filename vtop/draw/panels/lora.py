"""The panel LoRA adapters: which are in use, how many a step may have, and who waits."""

from __future__ import annotations

from vtop import units
from vtop.draw.grid import Block, fixed, seen, stacked
from vtop.draw.panels.sizes import Rows
from vtop.draw.text import Line, Phrase, line, phrases, wrapped
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame


def lora(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The limits in one line, the adapters by name in as many as there are."""
    look, of = seen(frame, look), frame.lora
    if of is None:
        return stacked(look, width, height, [fixed(0, [line(look, width, ("no adapters", "dim"))])])
    shown = [
        Phrase(0, (("adapters ", "dim"), (units.count(len(of.adapters)), "number"), (" in use lately", "dim"))),
        Phrase(1, (("at most ", "dim"), (units.count(of.most), "text"), (" in a step", "dim"))),
    ]
    if of.deferred:
        shown.append(Phrase(0, ((f"{units.count(of.deferred)} deferred", "warn"),)))
    names = [Phrase(at, ((name, "text"),)) for at, name in enumerate(of.adapters)]

    def named(rows: int) -> list[Line]:
        return [line(look, width, *pieces) for pieces in wrapped(look, width, rows, names)]

    blocks = [Block(0, lambda _: [phrases(look, width, shown)])]
    if names:
        blocks.append(Block(1, named, 1, len(wrapped(look, width, len(names), names))))
    return stacked(look, width, height, blocks)


def rows_wide(frame: Frame) -> Rows | None:
    return None if frame.lora is None else Rows(3, 3 + len(frame.lora.adapters) // 8)


def rows_narrow(frame: Frame) -> Rows | None:
    return None if frame.lora is None else Rows(1, 2)
