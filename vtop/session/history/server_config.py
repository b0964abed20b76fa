"""What a server was started with: the flags of its command on record, and vLLM's own defaults of two that it lacks.

max_num_seqs and the token budget of a step (max_num_batched_tokens) are on no scrape. Where the command does
not name them, vLLM's rule tells them from the GPU's memory; it is applied only for the versions that it was read in,
and where nothing else could set them: no file of further flags, a GPU of the server on record.
Source: vLLM engine/arg_utils.py (get_batch_defaults, _set_default_max_num_seqs_and_batched_tokens_args), the same in
0.26 and 0.32 but for GPUs of 160 GiB and more.
"""

from __future__ import annotations

import re
from typing import Final

from vtop.recording import Identity
from vtop.session.frame.servers import FlagValue, StartedWith, typed
from vtop.session.history.server import ServerHistory

SEQS: Final = "max-num-seqs"
BUDGET: Final = "max-num-batched-tokens"
SIMULATED: Final = ("vtop simulate", 128, 8192)  # its defaults
READ_IN: Final = ((0, 26), (0, 32))  # the first and the last version with this rule

_LARGE, _LARGEST = 70 * 2**30, 160 * 2**30  # bytes of a GPU, from which on defaults are larger
_FILE: Final = "config"  # the command names a file of further flags


def started_with(identity: Identity | None, device: str | None, memory_bytes: float | None) -> StartedWith | None:
    """What an identity says. GPU, memory_bytes: of the GPUs that the server uses, None where not known."""
    if identity is None or identity.flags is None:
        return None
    flags = identity.flags
    seqs, budget = _whole(flags.get(SEQS)), _whole(flags.get(BUDGET))
    usual_seqs, usual_budget = _defaults(identity, flags, device, memory_bytes)
    if budget is None and usual_budget is not None and (limit := seqs or usual_seqs) is not None:
        budget = _bounded(usual_budget, limit, flags, identity.max_model_len)
    if seqs is None and usual_seqs is not None and budget is not None:
        seqs = min(usual_seqs, budget)
    return StartedWith(
        command=identity.command or "",
        flags=flags,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        defaults=tuple(
            name for name, known in ((SEQS, seqs), (BUDGET, budget)) if known is not None and name not in flags
        ),
    )


def changed(before: Identity, now: Identity) -> tuple[str, ...]:
    """How two commands on record differ, a flag each: --max-num-seqs 128 → 10, new --enforce-eager."""
    was, flags = before.flags, now.flags
    if was is None or flags is None:
        return ()
    said = [
        f"--{name} {flag_value(was[name])} → {flag_value(value)}" if name in was else f"new {typed(name, value)}"
        for name, value in flags.items()
        if was.get(name) != value
    ]
    said += [f"without {typed(name, value)}" for name, value in was.items() if name not in flags]
    if before.command != now.command:
        said.append(f"{before.command} → {now.command}")
    return tuple(said)


def max_num_seqs(
    server: ServerHistory, begin_s: float, now_s: float, started: StartedWith | None, engines: int
) -> int | None:
    """How many requests may run at once on all engines of a server; None where it was another number since begin_s."""
    if started is None or started.max_num_seqs is None:
        return None
    known = [one for one in server.identities if one.t <= now_s and one.flags is not None]
    since = [one for at, one in enumerate(known) if at + 1 == len(known) or known[at + 1].t > begin_s]
    if len({(one.flags or {}).get(SEQS) for one in since}) > 1:
        return None
    return started.max_num_seqs * max(1, engines)


def flag_value(value: FlagValue) -> str:
    """A flag's value in words: on and off of a switch."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _whole(value: FlagValue | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _defaults(
    identity: Identity, flags: dict[str, FlagValue], device: str | None, memory_bytes: float | None
) -> tuple[int | None, int | None]:
    """max_num_seqs and max_num_batched_tokens of an API server that is told neither."""
    if identity.command == SIMULATED[0]:
        return SIMULATED[1:]
    version = _version(identity.version)
    if version is None or not READ_IN[0] <= version <= READ_IN[1] or _FILE in flags or memory_bytes is None:
        return None, None
    if memory_bytes >= _LARGEST and version not in READ_IN:
        return None, None  # it changed somewhere in between
    large = memory_bytes >= _LARGE and "a100" not in (device or "").lower()
    seqs, budget = (1024, 8192) if large else (256, 2048)
    if memory_bytes >= _LARGEST and version == READ_IN[1]:
        budget = 16384
    times = 2 if flags.get("performance-mode") == "throughput" else 1
    # of mixture-of-experts models in data parallel it is another one
    return seqs * times, budget * times if flags.get("data-parallel-size", 1) == 1 else None


def _bounded(budget: int, seqs: int, flags: dict[str, FlagValue], max_model_len: int | None) -> int | None:
    """The default budget, as the length of the longest request bounds it."""
    if not max_model_len:
        return None
    if flags.get("enable-chunked-prefill") is False:
        budget = max(budget, max_model_len)
    return min(budget, seqs * max_model_len)


def _version(text: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(found[1]), int(found[2])) if found else None
