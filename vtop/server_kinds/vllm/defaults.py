"""What bounds a step of a vLLM engine: by the flags on record, or by vLLM's own defaults of two that are not there.

max_num_seqs and the token budget of a step (max_num_batched_tokens) are on no scrape. Where the command does
not name them, vLLM's rule tells them from the GPU's memory; it is applied only for the versions that it was read in,
and where nothing else could set them: no file of further flags, a GPU of the server on record.
Source: vLLM engine/arg_utils.py (get_batch_defaults, _set_default_max_num_seqs_and_batched_tokens_args), the same in
0.26 and 0.32 but for GPUs of 160 GiB and more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from vtop.recording.events import FlagValue, Identity
from vtop.server_kinds.kind import Limits
from vtop.server_kinds.vllm.flags import FLAGS, NAMES, SIMULATED

SIMULATED_LIMITS: Final = (128, 8192)  # the defaults of vtop simulate
READ_IN: Final = ((0, 26), (0, 32))  # the first and the last version with this rule

_LARGE, _LARGEST = 70 * 2**30, 160 * 2**30  # bytes of a GPU, from which on defaults are larger


def limits(identity: Identity, device: str | None, memory_bytes: float | None) -> Limits:
    """device, memory_bytes: of the GPUs that the server uses, None where not known."""
    flags = identity.flags or {}
    seqs, budget = _whole(flags.get(NAMES.max_num_seqs)), _whole(flags.get(NAMES.max_num_batched_tokens))
    usual_seqs, usual_budget = _defaults(identity, flags, device, memory_bytes)
    if budget is None and usual_budget is not None and (limit := seqs or usual_seqs) is not None:
        budget = _bounded(usual_budget, limit, flags, identity.max_model_len)
    if seqs is None and usual_seqs is not None and budget is not None:
        seqs = min(usual_seqs, budget)
    return Limits(seqs, budget)


def _whole(value: FlagValue | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _defaults(
    identity: Identity, flags: Mapping[str, FlagValue], device: str | None, memory_bytes: float | None
) -> tuple[int | None, int | None]:
    """max_num_seqs and max_num_batched_tokens of an API server that is told neither."""
    if identity.command == SIMULATED:
        return SIMULATED_LIMITS
    version = _version(identity.version)
    if version is None or not READ_IN[0] <= version <= READ_IN[1] or FLAGS.file in flags or memory_bytes is None:
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


def _bounded(budget: int, seqs: int, flags: Mapping[str, FlagValue], max_model_len: int | None) -> int | None:
    """The default budget, as the length of the longest request bounds it."""
    if not max_model_len:
        return None
    if flags.get("enable-chunked-prefill") is False:
        budget = max(budget, max_model_len)
    return min(budget, seqs * max_model_len)


def _version(text: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(found[1]), int(found[2])) if found else None
