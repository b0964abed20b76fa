"""vLLM as vtop knows it."""

from __future__ import annotations

from typing import Final

from vtop.server_kinds.kind import ServerKind
from vtop.server_kinds.vllm import suggestions
from vtop.server_kinds.vllm.defaults import limits
from vtop.server_kinds.vllm.flags import COMMANDS, FLAGS, NAMES
from vtop.server_kinds.vllm.series import SERIES

VLLM: Final = ServerKind(
    name="vllm",
    title="vLLM",
    marks=SERIES.prefixes,
    reads=True,
    series=SERIES,
    commands=COMMANDS,
    flags=FLAGS,
    flag_names=NAMES,
    limits=limits,
    suggest=suggestions,
)
