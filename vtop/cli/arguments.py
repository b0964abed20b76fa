"""Arguments as people type them: an address without --url, the words of a load without quotes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import click

from vtop.errors import VtopError

_ADDRESS = re.compile(
    r"(https?://.*|localhost|\d{2,5}|\[?[0-9a-fA-F:]*:[0-9a-fA-F:.]*\]?(:\d+)?|[\w.-]*:\d+(/.*)?|[\w-]+(\.[\w-]+)+(:\d+)?(/.*)?)"
)
_RECORDING = re.compile(r"\.jsonl?(\.gz|\.zst)?$", re.IGNORECASE)
_LOAD_WORD = re.compile(r"[a-z]+=\S+")


def is_address(word: str) -> bool:
    """Whether a bare word can only be a server's: :8301, 8301, localhost, gpu7:8000, gpu7.lan, http://…, ::1."""
    return _ADDRESS.fullmatch(word) is not None and _RECORDING.search(word) is None


def spelled_out(arguments: Sequence[str], options: Collection[click.Parameter], verbs: Collection[str]) -> list[str]:
    """The arguments with --url before each bare address, and the words behind --load as one.

    `options`: those of the command that the arguments are for; `verbs`: its subcommands, after which nothing is
    touched. Raises VtopError for a bare word that is neither a verb nor an address.
    """
    with_value = {
        name for one in options if isinstance(one, click.Option) and not one.is_flag and not one.count
        for name in (*one.opts, *one.secondary_opts)
    }  # fmt: skip
    by_itself = {  # an option that may stand without a value takes one only behind =, since a server may come next
        name: str(one.flag_value)
        for one in options if isinstance(one, click.Option) and not one.is_flag and isinstance(one.flag_value, str)
        for name in one.opts
    }  # fmt: skip
    found: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--load" and (not rest or rest[0].startswith("-")):
            raise VtopError("--load: how much load is not said; write --load c=64, or --load rate=8")
        if word in by_itself:
            found.append(f"{word}={by_itself[word]}")
        elif word in with_value and rest:
            value = rest.pop(0)
            while word == "--load" and rest and _LOAD_WORD.fullmatch(rest[0]):
                value += f" {rest.pop(0)}"
            found += [word, value]
        elif word.startswith("-"):
            found.append(word)
        elif word in verbs:
            return [*found, word, *rest]
        elif is_address(word):
            found += ["--url", word]
        elif verbs:
            raise VtopError(_no_verb(word, verbs))
        else:
            return [*found, word, *rest]
    return found


class OfServers(click.Command):
    """A verb that watches servers: of it, too, a bare address is a --url, and the words of a load need no quotes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spelled_out(args, self.params, ()))


def joined(words: Sequence[str], targets: Collection[str] = ("c", "rate", "trace")) -> tuple[str, ...]:
    """The words of a load as SPECs: a second c=, rate= or trace= begins the next one."""
    specs: list[list[str]] = []
    aimed = False
    for word in words:
        parts = {part.partition("=")[0] for part in word.replace(",", " ").split() if "=" in part}
        if not specs or (aimed and parts & set(targets)):
            specs.append([])
            aimed = False
        specs[-1].append(word)
        aimed = aimed or bool(parts & set(targets))
    return tuple(" ".join(spec) for spec in specs)


def _no_verb(word: str, verbs: Collection[str]) -> str:
    from difflib import get_close_matches

    if _RECORDING.search(word):
        return f"{word} is a recording: vtop replay {word}, or vtop report {word}"
    near = get_close_matches(word, verbs, 1)
    said = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(verbs))}."
    return f"no such command {word!r}; {said} A server is named so: vtop --url {word}"
