"""A comparison as JSON: all that the other forms say, under the names that `--on` and the report's JSON use."""

from __future__ import annotations

from typing import Final

import msgspec

from vtop.report.compare.parts import Comparison
from vtop.report.render.json import rounded

FORMAT: Final = 2


def json(comparison: Comparison) -> bytes:
    """Seconds, ratios, counts; null is not known. A bucket is {"low", "high"}, an upper bound that none has null."""
    content = {"format": FORMAT, **msgspec.to_builtins(comparison)}
    return msgspec.json.format(msgspec.json.encode(rounded(content)), indent=1) + b"\n"
