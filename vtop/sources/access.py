"""The way into a server as the command line and the environment say it: key, headers, certificates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from vtop import small_file
from vtop.access import Access
from vtop.errors import VtopError
from vtop.sources.connection import check


def access_of(
    *,
    api_key: str | None = None,
    api_key_file: Path | None = None,
    headers: Sequence[str] = (),
    ca_file: Path | None = None,
    insecure: bool = False,
    proxy: str | None = None,
    basic: tuple[str, str] | None = None,
) -> Access:
    """What the command line and VTOP_API_KEY say. Raises VtopError; no message repeats a key or a value."""
    if api_key is None and api_key_file is not None:
        try:
            api_key = small_file.read_text(api_key_file, 1 << 16).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise VtopError(f"--api-key-file {api_key_file}: cannot be read") from error
    api_key = (api_key or os.environ.get("VTOP_API_KEY") or "").strip() or None
    pairs = []
    for header in headers:
        name, found, value = header.partition(":")
        if not found or not name.strip():
            raise VtopError("--header: expected 'NAME: VALUE'")
        pairs.append((name.strip(), value.strip()))
    access = Access(
        api_key=api_key,
        headers=tuple(pairs),
        ca_file=str(ca_file) if ca_file is not None else None,
        insecure=insecure,
        basic=basic,
        proxy=proxy,
    )
    check(access)  # before anything is made because of it
    return access
