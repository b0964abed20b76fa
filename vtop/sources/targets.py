"""A list of servers in a file: Prometheus' file_sd as JSON, or an address a line.

Source: Prometheus' documentation of file_sd_config: [{"targets": ["host:port"], "labels": {"__scheme__": "https"}}].
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from vtop import small_file
from vtop.errors import VtopError

_EXPECTED: Final = 'expected file_sd as JSON, [{"targets": ["gpu7:8000"]}], or an address a line'


class _Group(msgspec.Struct):
    targets: list[str]
    labels: dict[str, str] = {}


_groups = msgspec.json.Decoder(list[_Group])


def urls_in(file: Path) -> list[str]:
    """The servers of a file, each once, as `address.target` takes them. Raises VtopError."""
    try:
        text = small_file.read_bytes(file).decode("utf-8-sig")
    except OSError as error:
        raise VtopError(f"--targets {file}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise VtopError(f"--targets {file}: no text; {_EXPECTED}") from None
    urls = _of_groups(file, text) if text.lstrip().startswith(("[", "{")) else _of_lines(file, text)
    if not urls:
        raise VtopError(f"--targets {file}: no server in it; {_EXPECTED}")
    return list(dict.fromkeys(urls))


def _of_groups(file: Path, text: str) -> list[str]:
    try:
        groups = _groups.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise VtopError(f"--targets {file}: {error}; {_EXPECTED}") from None
    return [_url(one, group.labels) for group in groups for one in group.targets]


def _url(address: str, labels: dict[str, str]) -> str:
    if "://" in address:
        return address
    path = labels.get("__metrics_path__", "/metrics")
    return f"{labels.get('__scheme__', 'http')}://{address}{path if path.startswith('/') else f'/{path}'}"


def _of_lines(file: Path, text: str) -> list[str]:
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        if " " in line or line.startswith("-") or line.endswith(":"):
            raise VtopError(f"--targets {file}: line {number} is no address (YAML is not read); {_EXPECTED}")
    return [line for line in lines if line]
