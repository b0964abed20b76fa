"""The verb man: the manual page, made from the same options and sentences that --help shows."""

from __future__ import annotations

from collections.abc import Iterator

import click

from vtop import __version__
from vtop.cli import config
from vtop.cli.common import echo


@click.command()
@click.pass_context
def man(ctx: click.Context) -> None:
    """Print the manual page: vtop man | man -l -, or save it as ~/.local/share/man/man1/vtop.1."""
    parent = ctx.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    for line in page(parent.command):
        echo(line)


def page(group: click.Group) -> Iterator[str]:
    """The page in roff, line by line."""
    from vtop.load.workload.spec import WORDS
    from vtop.ui.keys import KEYS

    yield f'.TH VTOP 1 "" "vtop {__version__}" "vtop"'
    yield from (".SH NAME", f"vtop \\- {_plain((group.help or '').splitlines()[0].rstrip('.'))}")
    yield from (".SH SYNOPSIS", ".B vtop", "[\\fIURL\\fR ...] [\\fIoptions\\fR]", ".br")
    yield from (".B vtop", "\\fIverb\\fR [\\fIarguments\\fR] [\\fIoptions\\fR]")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(group.help or "")
    yield ".SH OPTIONS"
    yield from _options(group)
    yield ".SH VERBS"
    yield from _verbs(group, "vtop")
    yield ".SH WORDS OF A LOAD"
    for example, asks in WORDS.values():
        yield from (".TP", f".B {_plain(example)}", _plain(asks))
    yield ".SH KEYS"
    for key in KEYS:
        yield from (".TP", f".B {_plain(key.face)}", f"{_plain(key.does)} ({key.id})")
    yield ".SH FILES"
    yield from (".TP", ".I ~/.config/vtop/config.toml", "Settings: options, and [keys]. See vtop config.")
    yield from (".TP", ".I ~/.config/vtop/themes/", "Themes of one's own.")
    yield from (".TP", ".I ~/.local/state/vtop/", "What a screen looked like when it was left, and faults.log.")
    yield ".SH ENVIRONMENT"
    for option in config.settable(group):
        yield from (".TP", f".B {config.variable_of(option)}", f"as {max(option.opts, key=len)}")


def _verbs(group: click.Group, above: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        arguments = " ".join(piece for one in command.params for piece in one.get_usage_pieces(click.Context(command)))
        yield f".SS {_plain(f'{above} {name} {arguments}'.rstrip())}"
        yield from _paragraphs(command.help or "")
        yield from _options(command)
        if isinstance(command, click.Group):
            yield from _verbs(command, f"{above} {name}")


def _options(command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    for option in command.params:
        if isinstance(option, click.Option) and (record := option.get_help_record(context)) is not None:
            yield from (".TP", f".B {_plain(record[0])}", _plain(record[1]) or "\\&")


def _paragraphs(text: str) -> Iterator[str]:
    r"""click's help as roff: blank lines part paragraphs, \b keeps the lines of one as they are."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        kept = bool(lines) and lines[0].strip() == "\b"
        yield ".PP"
        if kept:
            yield from (".nf", *(_plain(line) for line in lines[1:]), ".fi")
        else:
            yield " ".join(_plain(line.strip()) for line in lines)


def _plain(text: str) -> str:
    """A text that roff takes as it stands."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
