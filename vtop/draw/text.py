"""Lines of a screen: text by role in, segments of exactly so many cells out.

Text is never markup. What does not fit is left out whole, the least important first; a number is never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment

from vtop.draw.theme import Look

Line = tuple[Segment, ...]
Piece = tuple[str, str]  # text, role

_NUMBER_AT_END: Final = re.compile(r"[<>≤≥≈~^↑−–-]*\d[\d.,:–-]*$")


_BETWEEN: Final = (", ", "; ", " (")  # clauses


class Phrase(NamedTuple):
    """Pieces that stand or go together. Rank 0 stays longest; of the same rank the last goes first."""

    rank: int
    pieces: tuple[Piece, ...]


def width_of(text: str) -> int:
    """Cells that a text takes in a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def line(look: Look, width: int, *pieces: Piece) -> Line:
    """The pieces in one line of exactly `width` cells: filled with blanks, or shortened at a word's end."""
    styles, left = look.styles, width
    segments: list[Segment] = []
    for raw, role in pieces:
        text = raw if raw.isascii() and raw.isprintable() else look.say(raw)
        cells = len(text) if text.isascii() else cell_len(text)
        if cells > left:
            text = shorten(text, left, look.glyphs.ellipsis)
            cells = width_of(text)
            segments.append(Segment(text, styles[role]))
            left -= cells
            break
        if text:
            segments.append(Segment(text, styles[role]))
            left -= cells
    if left and segments and not (style := segments[-1].style or styles["text"]).reverse:
        segments[-1] = Segment(segments[-1].text + " " * left, style)  # blanks need no colour change of their own
    elif left:
        segments.append(Segment(" " * left, styles["text"]))
    return tuple(segments)


def blank(look: Look, width: int) -> Line:
    """A line with nothing on it."""
    return (Segment(" " * width, look.styles["text"]),) if width > 0 else ()


def phrases(
    look: Look, width: int, items: Sequence[Phrase], right: Sequence[Phrase] = (), between: str = " · "
) -> Line:
    """Phrases side by side, those at the `right` flush with the end; whole phrases go until the rest fits."""
    gap = width_of(look.say(between))
    sizes = [sum(width_of(look.say(text)) for text, _ in item.pieces) for item in (*items, *right)]
    kept = set(range(len(sizes)))
    order = sorted(kept, key=lambda at: (-(items[at].rank if at < len(items) else right[at - len(items)].rank), -at))
    while len(kept) > 1 and _needed(kept, sizes, len(items), gap) > width:
        kept.discard(order.pop(0))
    pieces, ends = _joined(items, kept, 0, between), _joined(right, kept, len(items), "  ")
    if not ends:
        return line(look, width, *pieces)
    used = sum(width_of(look.say(text)) for text, _ in (*pieces, *ends))
    return line(look, width, *pieces, (" " * max(0, width - used), "text"), *ends)


def fitting(look: Look, width: int, items: Sequence[Phrase], between: str = " · ") -> list[Piece]:
    """The pieces of the phrases that fit side by side, for a line that begins otherwise."""
    sizes = [sum(width_of(look.say(text)) for text, _ in item.pieces) for item in items]
    gap = width_of(look.say(between))
    kept = set(range(len(sizes)))
    for at in sorted(kept, key=lambda at: (-items[at].rank, -at)):
        if len(kept) < 2 or _needed(kept, sizes, len(items), gap) <= width:
            break
        kept.discard(at)
    return _joined(items, kept, 0, between)


def either(look: Look, width: int, *forms: Sequence[Phrase]) -> Sequence[Phrase]:
    """The first of several ways to say a line that fits whole; the last when none does."""
    return next((items for items in forms if fits(look, width, items)), forms[-1])


def fits(look: Look, width: int, items: Sequence[Phrase], between: str = " · ") -> bool:
    """Whether all of the phrases have room side by side."""
    sizes = [sum(width_of(look.say(text)) for text, _ in item.pieces) for item in items]
    return sum(sizes) + width_of(look.say(between)) * (len(sizes) - 1) <= width


def side_by_side(items: Sequence[Phrase], between: str = " · ") -> list[Piece]:
    """The pieces of all of the phrases."""
    return _joined(items, set(range(len(items))), 0, between)


def wrapped(look: Look, width: int, rows: int, items: Sequence[Phrase], between: str = " · ") -> list[list[Piece]]:
    """The phrases in at most so many lines: broken between phrases, and in one only where it is longer than a line.
    Whole phrases go, the least important first, until the rest fits; what is left of the last one `line` shortens."""
    kept = set(range(len(items)))
    order = sorted(kept, key=lambda at: (-items[at].rank, -at))
    while True:
        laid = _laid(look, width, [items[at] for at in sorted(kept)], between)
        if len(laid) <= rows:
            return laid
        if len(kept) < 2:
            rest = [piece for one in laid[rows - 1 :] for piece in (*one, (" ", "dim"))]
            return [*laid[: rows - 1], _merged(rest[:-1])]
        kept.discard(order.pop(0))


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for text, role in pieces:
        if merged and (merged[-1][1] == role or not text.strip()):
            merged[-1] = (merged[-1][0] + text, merged[-1][1])
        else:
            merged.append((text, role))
    return merged


def _laid(look: Look, width: int, items: Sequence[Phrase], between: str) -> list[list[Piece]]:
    """The phrases one after another, in as many lines as they take."""
    laid: list[list[Piece]] = [[]]
    used, gap = 0, width_of(look.say(between))
    for item in items:
        size = sum(width_of(look.say(text)) for text, _ in item.pieces)
        if laid[-1] and used + gap + size <= width:
            laid[-1] += [(between, "dim"), *item.pieces]
            used += gap + size
            continue
        if laid[-1]:
            laid.append([])
        if size <= width:
            laid[-1] += item.pieces
            used = size
            continue
        used = 0
        for text, role in item.pieces:
            for word in re.findall(r" *[^ ]+ *$| *[^ ]+", text):
                if laid[-1] and used + width_of(look.say(word)) > width:
                    laid.append([])
                    used = 0
                shown = word if laid[-1] else word.lstrip()
                laid[-1].append((shown, role))
                used += width_of(look.say(shown))
    return laid


def _needed(kept: set[int], sizes: Sequence[int], lefts: int, gap: int) -> int:
    left, right = [at for at in kept if at < lefts], [at for at in kept if at >= lefts]
    cells = sum(sizes[at] for at in kept) + gap * max(0, len(left) - 1) + 2 * max(0, len(right) - 1)
    return cells + (2 if left and right else 0)


def _joined(items: Sequence[Phrase], kept: set[int], offset: int, between: str) -> list[Piece]:
    pieces: list[Piece] = []
    for at, item in enumerate(items):
        if at + offset in kept:
            if pieces:
                pieces.append((between, "dim"))
            pieces += item.pieces
    return pieces


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """At most `width` cells of the text, with an ellipsis for the rest, cut at a word's end and never in a number."""
    if width_of(text) <= width:
        return text
    mark = width_of(ellipsis)
    if width < mark:
        return ""
    head, left = "", width - mark
    for character in text:
        left -= get_character_cell_size(character)
        if left < 0:
            break
        head += character
    following = text[len(head)]
    whole = head if following == " " else head[: head.rfind(" ") + 1].rstrip()
    if following != " " and len(whole) < len(head) // 2:  # one long word: better its beginning than nothing
        whole = _NUMBER_AT_END.sub("", head) if following.isdecimal() or following in ".,:" else head
    return whole.rstrip(" ·|-=×→(") + ellipsis


def clauses(text: str, room: int) -> str:
    """As many of a sentence's clauses as there is room for; of one that is too long `line` shortens the end."""
    kept = text
    while width_of(kept) > room and (ends := [at for between in _BETWEEN if (at := kept.rfind(between)) > 0]):
        kept = kept[: max(ends)]
    return kept if width_of(kept) <= room else text


def padded(text: str, width: int, right: bool = False) -> str:
    """A text in a field: blanks on its right, or on its left when it stands at the `right`."""
    fill = " " * (width - width_of(text))
    return fill + text if right else text + fill


class Column(NamedTuple):
    """A column of a table. Columns of the highest rank go first when there is no room."""

    title: str
    width: int
    right: bool = True
    rank: int = 0


def kept_of(columns: Sequence[Column], width: int) -> list[int]:
    """Which of the columns a table of this width has."""
    kept = list(range(len(columns)))
    while len(kept) > 1 and sum(columns[at].width + 2 for at in kept) - 2 > width:
        kept.remove(max(kept, key=lambda at: (columns[at].rank, at)))
    return kept


def table(
    look: Look, width: int, columns: Sequence[Column], rows: Iterable[Sequence[Piece]], titles: bool = True
) -> list[Line]:
    """One line of titles and one a row, in columns two cells apart; the last column takes what room is left."""
    kept = kept_of(columns, width)
    lines = [line(look, width, *_cells(look, columns, kept, [(c.title, "dim") for c in columns]))] if titles else []
    return lines + [line(look, width, *_cells(look, columns, kept, row)) for row in rows]


def _cells(look: Look, columns: Sequence[Column], kept: Sequence[int], row: Sequence[Piece]) -> Iterable[Piece]:
    for at in kept:
        column, (text, role) = columns[at], row[at]
        shown = look.say(text)
        if at != kept[-1] or column.right:
            shown = padded(shorten(shown, column.width, look.glyphs.ellipsis), column.width, column.right)
        yield (shown if at == kept[-1] else shown + "  ", role)


def heading(
    look: Look, width: int, title: str, notes: Sequence[str] = (), *, role: str = "", binds: bool = False
) -> Line:
    """A rule with a title in it, and near its end as many notes, from the first on, as there is room for.

    `role`: its colour, one of theme.EDGES; of what `binds` the rule is heavy.
    """
    rule = look.glyphs.heavy if binds else look.glyphs.rule
    edge, head = (f"{role} title" if binds else f"{role} edge", f"{role} title") if role else ("border", "title")
    title = shorten(look.say(title), max(0, width - 4), look.glyphs.ellipsis)
    note = ""
    for upto in range(len(notes), 0, -1):
        note = look.say(" · ".join(notes[:upto]))
        if width_of(title) + width_of(note) + 8 <= width:
            break
        note = ""
    used = width_of(title) + 3 + (width_of(note) + 3 if note else 0)
    pieces: list[Piece] = [(rule + " ", edge), (title, head), (" " + rule * (width - used), edge)]
    if note:
        pieces += [(" ", edge), (note, "dim"), (" " + rule, edge)]
    return line(look, width, *pieces)
