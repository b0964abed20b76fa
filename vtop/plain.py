"""Text that leaves for a terminal, made harmless in one place.

What a server, a file's name or a recording says may hold escapes, controls, half characters, and marks that turn the
direction of writing.
"""

from __future__ import annotations

import re

_HARMFUL = re.compile(r"[^\n\x20-\x7e]")
SIGN = "\N{REPLACEMENT CHARACTER}"


def line(text: str) -> str:
    """In one line: line ends and tabs become spaces, every other character that is not printable a sign."""
    return lines(text.replace("\r\n", " ").replace("\n", " "))


def lines(text: str) -> str:
    """The same for text of several lines, which keeps its line ends."""
    return _HARMFUL.sub(lambda found: _shown(found[0]), text)


def json(text: str) -> str:
    """A JSON document whose characters that are not printable are written as escapes: the same document."""
    return _HARMFUL.sub(lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character in "\t\r" else SIGN


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
