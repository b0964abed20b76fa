"""A report as Markdown: tables of GitHub's kind; a figure is its title, its caption and its text alternative."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from vtop.report.render.document import Advice, Block, Document, Drawing, Facts, Findings, Section, Table, Text

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~])")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def markdown(document: Document) -> str:
    parts = [f"# {_text(document.title)}"]
    for section in document.sections:
        parts.append(f"{'#' * section.level} {_text(section.title)}")
        parts += [written for block in section.blocks for written in _block(block, section)]
    return "\n\n".join(parts) + "\n"


def _evidence(of: tuple[str, ...]) -> str:
    return f" ({_text('; '.join(of))})" if of else ""


def _block(block: Block, section: Section) -> Iterator[str]:
    match block:
        case Text(text):
            yield _text(text)
        case Findings(items):
            yield "\n".join(f"- **{_text(one.sentence)}**{_evidence(one.evidence)}" for one in items)
        case Facts(pairs):
            yield _table(("", ""), pairs, (0, 1))
        case Table(title, head, rows, notes, words):
            if title != section.title:
                yield f"**{_text(title)}**"
            yield _table(head, rows, words)
            yield from (_text(note) for note in notes)
        case Advice(title, why, commands):
            yield f"**{_text(title)}**: {_text(why)}"
            yield "\n".join(("```sh", *(_line(command) for command in commands), "```"))
        case Drawing(figure):
            yield f"**{_text(figure.title)}.** {_text(figure.caption)} In words: {_text(figure.alt)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int]) -> str:
    rule = ("---" if at in words else "---:" for at in range(len(head)))
    lines = [head, *rows]
    written = ["| " + " | ".join(_text(cell) or " " for cell in line) + " |" for line in lines]
    return "\n".join((written[0], "| " + " | ".join(rule) + " |", *written[1:]))


def _text(text: str) -> str:
    """Nothing in it is Markdown, HTML, or the end of a line."""
    return _SPECIAL.sub(r"\\\1", _line(text))


def _line(text: str) -> str:
    return _CONTROL.sub(" ", text).replace("```", "'''")
