"""An answer of what-if as JSON: everything the document says, each number as it is, in seconds and ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from vtop.engine.core.flags import Flags
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import RunNumbers
from vtop.engine.whatif.flag_search import FlagSearch
from vtop.engine.whatif.whatif import Row, WhatIf
from vtop.report.prices import Priced
from vtop.report.render.json import rounded


def json(file: str, profile: Profile, answers: Sequence[WhatIf | FlagSearch], taken: Sequence[str]) -> bytes:
    """`taken`: flags that are not on record and were taken for granted."""
    content = {
        "file": file,
        "profile": {"name": profile.name, "origin": profile.origin},
        "taken": list(taken),
        "runs": [_json(answer) for answer in answers],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def prices_json(file: str, profile: Profile, priced: Priced, taken: Sequence[str]) -> bytes:
    """The price of each limit, of each load: changes as shares of the value, with their 90 % intervals."""
    content = {
        "file": file,
        "profile": {"name": profile.name, "origin": profile.origin},
        "taken": list(taken),
        "missing": list(priced.missing),
        "runs": [
            rounded(asdict(one)) | {"binds": one.binding.limit if one.binding is not None else None}
            for one in priced.prices
        ],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _json(answer: WhatIf | FlagSearch) -> dict[str, Any]:
    load = answer.run.load
    found: dict[str, Any] = {
        "name": answer.run.name,
        "requests": len(load.asks),
        "concurrency": load.concurrency,
        "recorded_flags": _flags_json(answer.run.flags),
        "flags_from": dict(answer.run.whence),
        "host_factors": asdict(answer.factors),
        "remarks": list(answer.remarks),
    }
    if isinstance(answer, WhatIf):
        return found | {"flags": _flags_json(answer.flags), "numbers": [_row_json(row) for row in answer.rows]}
    return found | {
        "search": f"--{answer.name}",
        "criterion": {"name": answer.number.name, "better": answer.number.better, "error_ratio": answer.error},
        "as_recorded": _measured_json(answer.recorded.measured),
        "tried": [
            {
                "value": one.value,
                "verdict": one.verdict or None,
                "why": one.why,
                "numbers": _measured_json(one.simulated.measured) if one.simulated is not None else None,
            }
            for one in answer.tried
        ],
    }


def _flags_json(flags: Flags) -> dict[str, int]:
    return {
        "max_num_seqs": flags.max_num_seqs,
        "kv_tokens": flags.kv_tokens,
        "max_num_batched_tokens": flags.max_num_batched_tokens,
    }


def _row_json(row: Row) -> dict[str, Any]:
    number = row.number
    return {
        "name": number.name,
        "label": number.label,
        "unit": number.unit,
        "better": number.better,
        "recorded": row.recorded,
        "by_profile_alone": row.alone,
        "by_profile_alone_error_ratio": row.alone_ratio,
        "simulated": row.before,
        "error_ratio": row.error_ratio,
        "predicted": row.after,
        "low": row.interval.low if row.interval is not None else None,
        "high": row.interval.high if row.interval is not None else None,
        "difference": row.difference,
        "doubt": row.doubt,
        "verdict": row.verdict,
    }


def _measured_json(measured: RunNumbers) -> dict[str, float]:
    return {name: value for name, value in asdict(measured).items() if value is not None}
