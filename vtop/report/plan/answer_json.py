"""An answer of `vtop plan` as JSON: one document with every number of it. Seconds, bytes, ratios; null is not known."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vtop.report.render.json import rounded

FORMAT: Final = 1


def json(verb: str, answer: Any) -> bytes:
    content = {"format": FORMAT, "plan": verb, **rounded(msgspec.to_builtins(answer))}
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
