"""A report as a document: sections of plain text, tables, figures. What every writer renders, so that all say the same.

All text is plain: a writer escapes it. A cell is text that has been formatted already, once, for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtop.report.figures.figure import Figure


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class FindingBlock:
    """A sentence, and what it rests on."""

    sentence: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    items: tuple[FindingBlock, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, in the order in which they are read."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """`words`: columns that hold words, by number; the others hold numbers and stand to the right. `folded`: a page
    may show its title only, until it is asked for."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: tuple[int, ...] = (0,)
    folded: bool = False


def turned(table: Table) -> Table:
    """The same on its side: a row becomes a column, for a page that is not wide enough."""
    head, *rows = zip(table.head, *table.rows, strict=True)
    return Table(table.title, tuple(head), tuple(tuple(row) for row in rows), table.notes, folded=table.folded)


@dataclass(frozen=True, slots=True)
class Advice:
    """A hypothesis: what to try, why, and the commands that would test it."""

    title: str
    why: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    figure: Figure


Block = Text | Findings | Facts | Table | Advice | Drawing


@dataclass(frozen=True, slots=True)
class Section:
    """`level`: 2 for a recording or what stands beside it, 3 for a part of one. `key` is unique in the document."""

    key: str
    title: str
    level: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    sections: tuple[Section, ...]
