"""Settings that stay: a TOML file in XDG's place and the environment, both under the options' own names.

An option's value is, in this order: what is typed, its environment variable (`--window` is VTOP_WINDOW), the file, its
default. In the file a key at the top is for every verb that has this option, a table such as [record] for one verb.
[keys] is for the screen: what is pressed for what (vtop/ui/keys.py).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from vtop import small_file, xdg
from vtop.cli.common import echo
from vtop.errors import VtopError

# Options whose value is for one call alone, or belongs in no file and no listing of the environment
_ONCE: Final = frozenset(
    {"help", "version", "output", "api-key", "token", "header", "once", "json", "text", "force", "yes"}
)
_SOURCES: Final = {
    click.core.ParameterSource.COMMANDLINE: "typed",
    click.core.ParameterSource.ENVIRONMENT: "environment",
    click.core.ParameterSource.DEFAULT_MAP: "file",
    click.core.ParameterSource.DEFAULT: "default",
    click.core.ParameterSource.PROMPT: "typed",
}


def path() -> Path:
    """Where the file is, whether or not there is one: VTOP_CONFIG, else vtop/config.toml in XDG_CONFIG_HOME."""
    if named := os.environ.get("VTOP_CONFIG"):
        return Path(named)
    return xdg.config_folder() / "config.toml"


def name_of(option: click.Option) -> str:
    """The option's longest name without dashes: window."""
    return max(option.opts, key=len).lstrip("-")


def variable_of(option: click.Option) -> str:
    """Its environment variable: VTOP_WINDOW."""
    return f"VTOP_{name_of(option).upper().replace('-', '_')}"


def settable(command: click.Command) -> Iterator[click.Option]:
    """The options of a command that the file and the environment can set."""
    for one in command.params:
        if isinstance(one, click.Option) and name_of(one) not in _ONCE:
            yield one


def listen_to_environment(*commands: click.Command) -> None:
    """Gives each option of these commands its variable."""
    for command in commands:
        for option in settable(command):
            if option.envvar is None:
                option.envvar = variable_of(option)


def said_in_file() -> dict[str, Any]:
    """The file as it stands; {} where there is none. Raises VtopError where it cannot be read."""
    file = path()
    try:
        return tomllib.loads(small_file.read_own(file))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise VtopError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def own_keys() -> dict[str, Any]:
    """The table [keys]: ids of keys (vtop/ui/keys.py) and what a person wants to press for them."""
    found = said_in_file().get("keys", {})
    if not isinstance(found, dict):
        raise VtopError(f'{path()}: keys is a table: [keys], and a line such as mark = "M"')
    return found


def defaults(group: click.Group) -> dict[str, Any]:
    """What the file says, as click's default_map for `group` and its verbs. Raises VtopError for a wrong key."""
    file, said = path(), said_in_file()
    said.pop("keys", None)
    tables = {key: value for key, value in said.items() if isinstance(value, dict)}
    common = {key: value for key, value in said.items() if key not in tables}
    commands: dict[str, click.Command] = {"": group, **group.commands}
    for verb in tables.keys() - commands.keys():
        raise VtopError(f"{file}: [{verb}] is no verb of vtop{_near(verb, commands)}")
    every = {name_of(option) for command in commands.values() for option in settable(command)}
    for key in common.keys() - every:
        raise VtopError(f"{file}: no option is called {key!r}{_near(key, every)}")
    found: dict[str, Any] = {}
    for verb, command in commands.items():
        own = _values(file, command, common | _checked(file, command, tables.get(verb, {})))
        found |= own if not verb else {verb: own}
    return found


def _checked(file: Path, command: click.Command, table: Mapping[str, Any]) -> dict[str, Any]:
    known = {name_of(option) for option in settable(command)}
    for key in table.keys() - known:
        raise VtopError(f"{file}: [{command.name}] has no option {key!r}{_near(key, known)}")
    return dict(table)


def _values(file: Path, command: click.Command, said: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for option in settable(command):
        if (value := said.get(name_of(option))) is not None:
            if not all(isinstance(one, str | int | float) for one in (value if isinstance(value, list) else [value])):
                raise VtopError(f"{file}: {name_of(option)} = {str(value)[:60]}: write text in quotes, or a number")
            values[option.name or ""] = [value] if option.multiple and not isinstance(value, list) else value
    return values


def _near(name: str, known: Any) -> str:
    near = get_close_matches(name, [one for one in known if one], 1)
    return f"; did you mean {near[0]!r}?" if near else ""


@click.command()
@click.pass_context
def config(ctx: click.Context) -> None:
    """Show every setting, its value and its source; the first line is the path of the configuration file."""
    file, parent = path(), ctx.parent
    assert parent is not None
    echo(f"{file}{'' if file.exists() else '  (not there)'}")
    rows = []
    for option in settable(parent.command):
        name = option.name or ""
        source = parent.get_parameter_source(name) or click.core.ParameterSource.DEFAULT
        rows.append((name_of(option), _shown(parent.params.get(name)), _SOURCES[source], variable_of(option)))
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    for row in rows:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for name, pressed in own_keys().items():
        echo(f"key {name}  {_shown(pressed)}  file")


def _shown(value: Any) -> str:
    if value in (None, (), ""):
        return "–"
    if isinstance(value, tuple | list):
        return ", ".join(str(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
