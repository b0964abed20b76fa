"""What a server says when it says no: its message made fit for a recording, and the field that it would not take.

A message may quote the request. Nothing of a prompt and no key gets through.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

PARSED: Final = 2**18  # characters of an error that are looked at
LIMIT: Final = 200  # characters of a message
QUOTED: Final = 12  # so many characters of the prompt in a row are a quotation
DROPPABLE: Final = (  # fields that a load can do without
    "return_token_ids",
    "continuous_usage_stats",
    "include_usage",
    "stream_options",
    "ignore_eos",
    "min_tokens",
    "add_special_tokens",
    "cache_salt",
    "request_id",
    "priority",
    "temperature",
    "seed",
)
_FIELD = re.compile(r"(?<![A-Za-z0-9_])(" + "|".join(DROPPABLE) + r")(?![A-Za-z0-9_])")
_REFUSED = re.compile(
    r"extra_forbidden|extra (?:inputs|fields)|unrecogni[sz]ed|unknown|unexpected|unsupported|additional propert"
    r"|not (?:supported|permitted|allowed|recogni[sz]ed)|does not support|no such (?:field|parameter)"
    r"|invalid (?:field|argument)",
    re.IGNORECASE,
)
_INPUT = re.compile(r"""(['"]?input(?:_value)?['"]?\s*[:=]\s*).*""", re.DOTALL)  # pydantic quotes what it was given
_NUMBERS = re.compile(r"\d+(?:\s*,\s*\d+){3,}")  # token ids
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


def message_of(body: bytes) -> str:
    """What the body of an error says to people, as long as it is; "" when it says nothing."""
    text = body[:PARSED].decode("utf-8", "replace").strip()
    text = text.removeprefix("data:").strip() if text.startswith("data:") else text
    try:
        said = json.JSONDecoder().raw_decode(text[:PARSED])[0]  # an event stream may go on after it
    except (ValueError, RecursionError):
        title = _TITLE.search(text[:4000])
        return title[1] if title else re.sub(r"<[^>]*>", " ", text[:4000])
    return _said(said) or text[:4000]


def clean(message: str, payload: bytes = b"", secrets: tuple[str, ...] = ()) -> str:
    """The message in one line of at most LIMIT characters, without secrets and without the prompt of `payload`."""
    message = message[: 40 * LIMIT]
    for secret in secrets:
        message = message.replace(secret, "***")
    message = _INPUT.sub(r"\1…", message)
    message = _NUMBERS.sub("…", message)
    message = _without_quotations(message, _prompts(payload))
    message = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    return message if len(message) <= LIMIT else f"{message[: LIMIT - 1]}…"


def refused_field(body: bytes) -> str | None:
    """The optional field of the request that this error says the server will not take; None when it is no such error.

    Of several fields named, as in serde's "unknown field `a`, expected one of `b`, `c`", it is the one nearest to the
    words of refusal; of a field within a field the inner one.
    """
    text = body[:PARSED].decode("utf-8", "replace").replace("\\", "")
    refusals = [(match.start(), match.end()) for match in _REFUSED.finditer(text)]
    fields = [(match.start(), match.end(), match[1]) for match in _FIELD.finditer(text)]
    if not refusals or not fields:
        return None
    _, end, name = min(fields, key=lambda field: min(_apart(field, refusal) for refusal in refusals))
    if name == "stream_options":
        inner = [f for f in fields if f[2] in ("continuous_usage_stats", "include_usage") and 0 < f[0] - end < 6]
        name = inner[0][2] if inner else name
    return name


def _apart(field: tuple[int, int, str], refusal: tuple[int, int]) -> int:
    return max(field[0] - refusal[1], refusal[0] - field[1], 0)


def _said(said: Any) -> str:
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        return "; ".join(filter(None, (_said(part) for part in said[:3])))
    if not isinstance(said, dict):
        return ""
    where = said.get("loc")  # FastAPI's list of what is wrong; its "input" is left out
    place = ".".join(str(part) for part in where if not isinstance(part, int)) if isinstance(where, list) else ""
    for key in ("error", "message", "msg", "detail", "errors", "error_msg", "title"):
        text = _said(said.get(key))
        if text:
            return f"{place}: {text}" if place else text
    return ""


def _prompts(payload: bytes) -> str:
    """All text of the request's prompts."""
    try:
        request = json.loads(payload)
    except (ValueError, RecursionError):
        return payload.decode("utf-8", "replace")
    if not isinstance(request, dict):
        return ""
    return "\0".join(_texts([request.get(key) for key in ("prompt", "messages", "input", "suffix")]))


def _texts(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    if isinstance(part, dict):
        part = [value for key, value in part.items() if key != "role"]
    return [text for inner in part for text in _texts(inner)] if isinstance(part, list) else []


def _without_quotations(message: str, prompts: str) -> str:
    """The message with each run of QUOTED characters or more that stands in the prompts replaced by an ellipsis."""
    kept: list[str] = []
    at = 0
    while at < len(message):
        if len(message) - at >= QUOTED and message[at : at + QUOTED] in prompts:
            end = at + QUOTED
            while end < len(message) and message[end - QUOTED + 1 : end + 1] in prompts:
                end += 1
            kept.append("…")
            at = end
        else:
            kept.append(message[at])
            at += 1
    return "".join(kept)
