"""The flags of a command line that decide how the server performs, by its kind's list of those that are let through:

no other word of the line is looked at, so no key, path, name or address can come out of it. A value is a number, a
switch, or one short word of a dtype's or a policy's kind; one that is none of these is left out with its flag.
Source: vLLM utils/argparse_utils.py, how a value is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from vtop.recording.events import FlagValue
from vtop.server_kinds.kind import FlagList

_SUFFIXES: Final = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}
_SCALED: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,31}")
_SIZES: Final = re.compile(r"\d+(,\d+)*")
_NEGATIVE: Final = re.compile(r"-\d+(\.\d+)?")


def _number(text: str) -> FlagValue | None:
    """A whole number or a fraction, as vLLM reads it: 8k is 8000, 8K is 8192, auto stays a word."""
    if text.lower() == "auto":
        return "auto"
    if scaled := _SCALED.fullmatch(text):
        return int(float(scaled[1]) * _SUFFIXES[scaled[2]])
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None  # also not inf, not nan


def _word(text: str) -> FlagValue | None:
    return text if _WORD.fullmatch(text) else None


def _sizes(text: str) -> FlagValue | None:
    return joined if _SIZES.fullmatch(joined := re.sub(r"[\[\]\s]", "", text)) else None


def _setting(text: str) -> FlagValue | None:
    """A value inside a JSON flag: a number, a word or a list of sizes."""
    for read in (_number, _word, _sizes):
        if (value := read(text)) is not None:
            return value
    return None


def _read(allowed: FlagList, name: str, text: str) -> FlagValue | None:
    """The value of a flag that takes one, if both may be recorded."""
    head, dot, key = name.partition(".")
    if dot and key in allowed.objects.get(head, ()):
        return _setting(text)
    if name in allowed.numbers:
        return _number(text)
    if name in allowed.words:
        return _word(text)
    return _sizes(text) if name in allowed.sizes else None


def flags_of(words: Sequence[str], allowed: FlagList) -> dict[str, FlagValue]:
    """By name, without dashes in front: {"max-num-seqs": 128, "enable-prefix-caching": False}; the last of a name
    counts. A flag of a JSON flag stands as it may be typed too: "speculative-config.method"."""
    found: dict[str, FlagValue] = {}
    for at, word in enumerate(words):
        name, own = _named(word, allowed)
        if name and (name in allowed.switches or name == allowed.file):
            found[name] = True
        elif name.removeprefix("no-") in allowed.switches:
            found[name.removeprefix("no-")] = False
        elif name in allowed.objects:
            found |= _object(name, own if own is not None else " ".join(_following(words, at)[:1]), allowed)
        elif name:
            after = _following(words, at)
            many = ",".join(after) if name in allowed.sizes else " ".join(after[:1])
            value = _read(allowed, name, own if own is not None else many)
            if value is not None:
                found[name] = value
    return found


def _named(word: str, allowed: FlagList) -> tuple[str, str | None]:
    """The flag that a word names and the value behind its = ; "" for what names none."""
    name, equals, value = word.partition("=")
    own = value if equals else None
    if name.startswith("--"):
        head, dot, tail = name[2:].partition(".")
        return head.replace("_", "-") + dot + tail, own
    short, dot, tail = name.partition(".")
    if short in allowed.short:
        return allowed.short[short] + dot + tail, own
    level = allowed.level
    if level is not None and name.startswith(level) and name[len(level) :].isdecimal():
        return allowed.short[level], name[len(level) :]
    return "", None


def _following(words: Sequence[str], at: int) -> list[str]:
    """The values behind a flag: all words up to the next flag."""
    found: list[str] = []
    for word in words[at + 1 :]:
        if word.startswith("-") and not _NEGATIVE.fullmatch(word):
            break
        found.append(word)
    return found


def _object(name: str, text: str, allowed: FlagList) -> dict[str, FlagValue]:
    """What is let through of a JSON flag; older servers also take a level alone: --compilation-config 3."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {f"{name}.level": content} if type(content) is int else {}
    read = {key: _setting(json.dumps(content[key]).strip('"')) for key in allowed.objects[name] if key in content}
    return {f"{name}.{key}": value for key, value in read.items() if value is not None}
