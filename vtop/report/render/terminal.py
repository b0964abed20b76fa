"""A report as text for a terminal or a pipe: tables by rich, charts by plotext."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from vtop.report.render.document import Advice, Block, Document, Drawing, Facts, Findings, Section, Table, Text, turned
from vtop.report.render.plots import plot

WIDTH: Final = 120
TURNED: Final = 8  # rows, up to which a table that is too wide is turned on its side
LONG: Final = 60  # characters
_STATES: Final = {
    "met": "green", "fine": "green", "partly": "yellow", "doubt": "yellow", "not met": "bold red",
    "not observable": "dim", "not known": "dim",
}  # fmt: skip


def text(document: Document, width: int = WIDTH) -> str:
    """Without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    show(document, console)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def show(document: Document, console: Console) -> None:
    console.print(RichText(_clean(document.title), style="bold"))
    for section in document.sections:
        console.print()
        if section.level == 2:
            console.rule(RichText(_clean(section.title), style="bold"), align="left", characters="─")
        else:
            console.print(RichText(_clean(section.title), style="bold underline"))
        for block in section.blocks:
            for part in _block(block, section, console.width):
                console.print(part)


def _block(block: Block, section: Section, width: int) -> Iterator[RenderableType]:
    match block:
        case Text(text):
            yield RichText(_clean(text))
        case Findings(items):
            for one in items:
                yield RichText("• " + _clean(one.sentence), style="bold")
                yield Padding(RichText(_clean(" · ".join(one.evidence)), style="dim"), (0, 0, 0, 2))
        case Facts(pairs):
            grid = RichTable.grid(padding=(0, 2))
            for name, value in pairs:
                grid.add_row(RichText(name, style="dim"), RichText(_clean(value)))
            yield Padding(grid, (1, 0))
        case Table():
            if block.title != section.title:
                yield RichText("\n" + _clean(block.title), style="bold")
            yield from _table(block, width)
            for note in block.notes:
                yield RichText(_clean(note), style="dim")
        case Advice(title, why, commands):
            yield RichText("\n" + _clean(title), style="bold")
            yield Padding(RichText(_clean(why)), (0, 0, 0, 2))
            for command in commands:
                yield Padding(RichText("$ " + _clean(command), no_wrap=False), (0, 0, 0, 2))
        case Drawing(figure):
            yield RichText("\n" + _clean(figure.title), style="bold")
            yield RichText(plot(figure, min(width, 110)), no_wrap=True)
            yield RichText(_clean(figure.caption), style="dim")


def _table(table: Table, width: int) -> Iterator[RenderableType]:
    """A last column of long words stands below as notes, by the number of the row, where the rest fills the width."""
    words: tuple[str, ...] = ()
    if natural_width(table) > width:
        if len(table.rows) <= TURNED and len(table.words) <= 2:
            table = turned(table)
        elif natural_width(_without_last(table)) > width / 2 and max(len(row[-1]) for row in table.rows) > LONG:
            words = tuple(row[-1] for row in table.rows)
            table = _without_last(table)
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    if words:
        made.add_column(justify="right")
    for at, title in enumerate(table.head):
        made.add_column(RichText(_clean(title)), justify="left" if at in table.words else "right", overflow="fold")
    for number, row in enumerate(table.rows, start=1):
        cells = [RichText(_clean(cell), style=_STATES.get(cell, "")) for cell in row]
        made.add_row(*([RichText(str(number))] if words else []), *cells)
    yield made
    for number, said in enumerate(words, start=1):
        yield RichText(f"{number:>2}  {_clean(said)}", style="dim")


def _without_last(table: Table) -> Table:
    return Table(table.title, table.head[:-1], tuple(row[:-1] for row in table.rows), table.notes, table.words)


def natural_width(table: Table) -> int:
    """Columns that it takes when nothing is broken into lines."""
    return sum(max(len(cell) for cell in column) + 3 for column in zip(table.head, *table.rows, strict=True))


def _clean(text: str) -> str:
    """No control character of a name or an error reaches the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)
