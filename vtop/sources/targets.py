"""A list of servers in a file: Prometheus' file_sd as JSON or YAML, or an address a line.

Source: Prometheus' documentation of file_sd_config: [{"targets": ["host:port"], "labels": {"__scheme__": "https"}}].
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from vtop import plain, small_file
from vtop.errors import VtopError

_LONGEST: Final = 2000  # letters of an address
MOST_SERVERS: Final = 1000  # each is asked by a thread of its own
_EXPECTED: Final = 'expected file_sd as JSON or YAML, [{"targets": ["gpu7:8000"]}], or an address a line'
_YAML: Final = re.compile(r"\s*(#.*\n\s*|---\s*\n\s*)*(-\s|[\w\"']+:(\s|$))")  # how a list or a mapping begins
MOST_LABELS: Final = 64  # of a server
LONGEST_LABEL: Final = 200


class Listed(NamedTuple):
    """A server as `address.target` takes it, and its labels but for those that begin with __."""

    url: str
    labels: dict[str, str]


class _Group(msgspec.Struct):
    targets: list[str]
    labels: dict[str, str] = {}


_groups = msgspec.json.Decoder(list[_Group])


def listed_in(file: Path) -> list[Listed]:
    """The servers of a file, each once. Raises VtopError."""
    try:
        text = small_file.read_bytes(file).decode("utf-8-sig")
    except OSError as error:
        raise VtopError(f"--targets {file}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise VtopError(f"--targets {file}: no text; {_EXPECTED}") from None
    if text.lstrip().startswith(("[", "{")):
        found = _of_groups(file, lambda: _groups.decode(text))
    elif file.suffix in (".yml", ".yaml") or _YAML.match(text):
        found = _of_groups(file, lambda: _of_yaml(file, text))
    else:
        found = [Listed(url, {}) for url in _of_lines(file, text)]
    if not found:
        raise VtopError(f"--targets {file}: no server in it; {_EXPECTED}")
    first: dict[str, Listed] = {}
    for one in found:
        first.setdefault(one.url, one)
    if len(first) > MOST_SERVERS:
        raise VtopError(f"--targets {file}: {len(first):,} servers; at most {MOST_SERVERS:,} are watched at once")
    return list(first.values())


def _of_groups(file: Path, read: Callable[[], list[_Group]]) -> list[Listed]:
    try:
        groups = read()
    except (msgspec.DecodeError, RecursionError) as error:
        raise VtopError(f"--targets {file}: {error}; {_EXPECTED}") from None
    return [Listed(_url(one, group.labels), _shown(group.labels)) for group in groups for one in group.targets]


def _of_yaml(file: Path, text: str) -> list[_Group]:
    try:
        return msgspec.yaml.decode(text, type=list[_Group])
    except ImportError:
        needed = "YAML needs the package PyYAML (pip install pyyaml), which vtop installs with itself; JSON needs none"
        raise VtopError(f"--targets {file}: {needed}") from None


def _shown(labels: dict[str, str]) -> dict[str, str]:
    own = [(name, value) for name, value in sorted(labels.items()) if not name.startswith("__")]
    return {name: plain.line(value)[:LONGEST_LABEL] for name, value in own[:MOST_LABELS]}


def _url(address: str, labels: dict[str, str]) -> str:
    if "://" in address:
        return address
    path = labels.get("__metrics_path__", "/metrics")
    return f"{labels.get('__scheme__', 'http')}://{address}{path if path.startswith('/') else f'/{path}'}"


def _of_lines(file: Path, text: str) -> list[str]:
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        odd = len(line) > _LONGEST or not line.isprintable() or "<" in line
        if odd or " " in line or line.startswith("-") or line.endswith(":"):
            raise VtopError(f"--targets {file}: line {number} is no address; {_EXPECTED}")
    return [line for line in lines if line]
