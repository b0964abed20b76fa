"""A report as one HTML file: nothing outside of it is needed or asked for, no script runs, it follows the reader's
light or dark preference, and prints.

Every text is escaped; what XML does not allow (control characters from a model's name or an error) becomes a sign. The
policy in its head forbids everything but the style and the figures in the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from vtop import __version__
from vtop.report.render import vega
from vtop.report.render.document import Advice, Block, Document, Drawing, Facts, Findings, Section, Table, Text, turned
from vtop.report.render.style import css

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|×|[mµ]?s|k?[WJ]|[GM]iB)(?!\w))")
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STATES: Final = ("met", "partly", "not met", "not observable", "fine", "doubt", "not known")
WIDE, TURNED = 12, 8  # a table of more columns and no more rows stands on its side
FOLDED: Final = 12  # rows: a longer table shows its title until it is asked for; on paper all of it
LONG: Final = 48  # characters of a cell, beyond which it may break into lines


def html(document: Document) -> str:
    title = _text(document.title)
    body = "\n".join(_section(section) for section in document.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{css()}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{_contents(document)}\n{body}\n<footer>Made by vtop {_text(__version__)} from the recording alone.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def _contents(document: Document) -> str:
    """A line for each recording, with its parts behind it."""
    lines: list[str] = []
    for section in document.sections:
        link = f'<a href="#{section.key}">{_text(section.title)}</a>'
        if section.level == 2 or not lines:
            lines.append(f"<b>{link}</b>")
        else:
            lines[-1] += f" {link}"
    return f'<nav aria-label="Contents">{"<br>".join(lines)}</nav>'


def _section(section: Section) -> str:
    level = section.level
    inside = "\n".join(part for block in section.blocks for part in _block(block, section))
    return f'<section id="{section.key}">\n<h{level}>{_text(section.title)}</h{level}>\n{inside}\n</section>'


def _block(block: Block, section: Section) -> Iterator[str]:
    match block:
        case Text(text):
            yield f"<p>{_text(text)}</p>"
        case Findings(items):
            yield '<ul class="findings">'
            for one in items:
                evidence = _whole(_text(" · ".join(one.evidence)))
                yield f'<li><strong>{_whole(_text(one.sentence))}</strong><span class="evidence">{evidence}</span></li>'
            yield "</ul>"
        case Facts(pairs):
            yield "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in pairs) + "</dl>"
        case Table():
            yield from _table(block, section)
        case Advice(title, why, commands):
            yield f"<h4>{_text(title)}</h4><p>{_text(why)}</p>"
            yield "<pre>" + _text("\n".join(commands)) + "</pre>"
        case Drawing(figure):
            yield f"<figure><h4>{_text(figure.title)}</h4>{vega.svg(figure)}"
            yield f"<figcaption>{_text(figure.caption)}</figcaption>"
            yield f"<details><summary>In words</summary><p>{_text(figure.alt)}</p></details></figure>"


def _table(table: Table, section: Section) -> Iterator[str]:
    if len(table.head) > WIDE and len(table.rows) <= TURNED:
        table = turned(table)
    folded = table.folded or len(table.rows) > FOLDED
    if folded:
        rows = "1 row" if len(table.rows) == 1 else f"{len(table.rows)} rows"
        yield f'<details class="table"><summary>{_text(table.title)} ({rows})</summary>'
    titled = f"<caption>{_text(table.title)}</caption>" if table.title != section.title and not folded else ""
    yield f'<div class="wide"><table>{titled}<thead><tr>{"".join(_head(table))}</tr></thead><tbody>'
    for row in table.rows:
        yield "<tr>" + "".join(_cell(at, cell, table.words) for at, cell in enumerate(row)) + "</tr>"
    yield "</tbody></table></div>"
    for note in table.notes:
        yield f'<p class="note">{_text(note)}</p>'
    if folded:
        yield "</details>"


def _head(table: Table) -> Iterator[str]:
    for at, title in enumerate(table.head):
        yield f'<th scope="col"{_class(at, "", table.words)}>{_text(title)}</th>'


def _cell(at: int, cell: str, words: Sequence[int]) -> str:
    if at == 0:
        return f'<th scope="row"{_class(at, cell, words)}>{_text(cell)}</th>'
    return f"<td{_class(at, cell, words)}>{_text(cell)}</td>"


def _class(at: int, cell: str, words: Sequence[int]) -> str:
    names = ["w"] if at in words else []
    if len(cell) > LONG:
        names.append("long")
    if cell in _STATES:
        names.append(cell.replace(" ", "-"))
    return f' class="{" ".join(names)}"' if names else ""


def _whole(text: str) -> str:
    """No line ends between a number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))
