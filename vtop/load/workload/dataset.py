"""The requests in a file that a person brings: prompts, or only their lengths, or a trace with its instants.

JSON lines, or one JSON array. A line has `prompt` (text, or token ids), or `conversations` (ShareGPT's), or `input`
(tokens; also input_length, input_tokens, prompt_tokens), and `output` (also output_length, output_tokens). A trace's
line has both lengths and its instant: `timestamp` in milliseconds, as Mooncake's traces and what is converted to them
have it, or `timestamp_s` or `arrival_s` in seconds; and, if it likes, `hash_ids`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from vtop import small_file
from vtop.errors import VtopError
from vtop.load.workload.phase import PlannedPhase


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a file: its prompt, or only its lengths. None: the file does not say."""

    text: str | None = None
    ids: tuple[int, ...] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    hash_ids: tuple[int | str, ...] = ()  # blocks of the prompt; equal ones have equal tokens
    at_s: float | None = None


class _Turn(msgspec.Struct):
    speaker: str = msgspec.field(name="from", default="")
    value: str = ""


class _Line(msgspec.Struct):
    prompt: str | list[int] | None = None
    prompt_tokens: int | None = None
    input: int | None = None
    input_tokens: int | None = None
    input_length: int | None = None
    output: int | None = None
    output_tokens: int | None = None
    output_length: int | None = None
    timestamp: float | str | None = None  # ms
    timestamp_s: float | None = None
    arrival_s: float | None = None
    hash_ids: list[int | str] | None = None
    conversations: list[_Turn] | None = None


LIMIT_BYTES: Final = 1 << 30
_line = msgspec.json.Decoder(_Line)
_DATASET = 'such as {"prompt": "…"} or {"input": 1024, "output": 256}'
_TRACE = 'such as {"timestamp_s": 1.5, "input_length": 1024, "output_length": 256}'


def look_for(phases: Sequence[PlannedPhase]) -> None:
    """Raises VtopError for the first file of the phases that cannot be opened; reads none of them."""
    for path in {path: None for phase in phases if (path := phase.trace or phase.dataset) is not None}:
        try:
            open(os.open(Path(path).expanduser(), os.O_RDONLY | os.O_NONBLOCK), "rb").close()  # waits at no pipe
        except OSError as error:
            raise _unreadable(path, error) from None


def read(phase: PlannedPhase) -> tuple[Item, ...]:
    """The requests of the phase's dataset or trace; () where it has neither. Raises VtopError."""
    path = phase.trace or phase.dataset
    if path is None:
        return ()
    try:
        text = small_file.read_bytes(Path(path).expanduser(), LIMIT_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    return parse(text, phase, Path(path).name)


def parse(text: bytes, phase: PlannedPhase, name: str) -> tuple[Item, ...]:
    """The requests in the text of a file called `name`; a trace's in the order of their instants. Raises VtopError."""
    text = text.removeprefix(b"\xef\xbb\xbf").strip()
    lines = _TRACE if phase.trace is not None else _DATASET
    if text and text[:1] not in b"[{":
        raise VtopError(f"{name}: its first line is not JSON (a CSV file?); write lines {lines}")
    items = []
    for where, line in _lines(text, name):
        try:
            item = _request(_line.decode(line), phase)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise VtopError(f"{where}: {error}") from None  # msgspec speaks of $.input: as good a name as any
        if item is not None:
            items.append(item)
    if not items:
        raise VtopError(f"{name}: no request in it; write lines {lines}")
    return tuple(sorted(items, key=lambda item: item.at_s or 0.0) if phase.trace else items)


def _lines(text: bytes, name: str) -> Iterator[tuple[str, bytes | msgspec.Raw]]:
    if text.startswith(b"["):
        try:
            entries = msgspec.json.decode(text, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError) as error:
            raise VtopError(f"{name}: {error}; expected a JSON array or one JSON object a line") from None
        yield from ((f"{name} entry {number}", entry) for number, entry in enumerate(entries, 1))
        return
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            yield f"{name} line {number}", line


def _request(line: _Line, phase: PlannedPhase) -> Item | None:
    """None for a conversation that nobody opened. Raises ValueError."""
    prompt: str | list[int] | None = line.prompt
    if line.conversations is not None:
        prompt = next((turn.value for turn in line.conversations if turn.speaker in ("human", "user")), "")
        if not prompt.strip():
            return None
    input_tokens = _first(line.prompt_tokens, line.input, line.input_tokens, line.input_length)
    output_tokens = _first(line.output, line.output_tokens, line.output_length)
    if output_tokens is not None and output_tokens < 1:
        raise ValueError(f"an output of {output_tokens} tokens; write 1 or more")
    at_s = None
    if phase.trace is not None:
        at_s = _instant_s(line)
        if at_s is None or input_tokens is None or output_tokens is None:
            raise ValueError(f"a trace's line has timestamp (ms) or timestamp_s, and both lengths, {_TRACE}")
    elif prompt is not None:
        if not prompt:
            raise ValueError("the prompt is empty")
        if isinstance(prompt, str):
            return Item(text=prompt, output_tokens=output_tokens)
        return Item(ids=tuple(prompt), input_tokens=len(prompt), output_tokens=output_tokens)
    if input_tokens is None:
        raise ValueError('neither "prompt" nor "input" (tokens)')
    if input_tokens < 1:
        raise ValueError(f"a prompt of {input_tokens} tokens; write 1 or more")
    hash_ids, size = tuple(line.hash_ids or ()), phase.hash_tokens
    if len(hash_ids) > -(-input_tokens // size):
        raise ValueError(f"{len(hash_ids)} hash_ids of {size} tokens are more than {input_tokens} tokens; write block=")
    return Item(input_tokens=input_tokens, output_tokens=output_tokens, hash_ids=hash_ids, at_s=at_s)


def _instant_s(line: _Line) -> float | None:
    """Raises ValueError for an instant that is no number."""
    if line.timestamp_s is not None:
        return line.timestamp_s
    if line.arrival_s is not None:
        return line.arrival_s
    if isinstance(line.timestamp, str):
        raise ValueError("the timestamp is a text; write timestamp_s, seconds from any beginning")
    return None if line.timestamp is None else line.timestamp / 1000


def _unreadable(path: str, error: OSError) -> VtopError:
    why = error.strerror or str(error)
    return VtopError(f"{path}: {why[:1].lower()}{why[1:]}; expected a file of requests")


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
