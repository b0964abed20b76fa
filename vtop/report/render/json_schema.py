"""The JSON Schema of a JSON report, made of the records that it is written from (docs/report.schema.json)."""

from __future__ import annotations

import json
from inspect import cleandoc
from typing import Any

import msgspec

from vtop.report.expectations import Outcome
from vtop.report.findings.counters import CounterPair
from vtop.report.findings.findings import Finding
from vtop.report.findings.next_steps import NextStep
from vtop.report.findings.validity import ValidityCheck
from vtop.report.model import Phase, Report
from vtop.report.numbers import Times
from vtop.report.render.json import DRAWN_ONLY, FORMAT
from vtop.session.frame.charts import Charts
from vtop.session.frame.prices import Prices
from vtop.session.load.distribution import Distribution

_RECORDS = (Report, Finding, ValidityCheck, CounterPair, NextStep, Outcome, Times, Prices)
_ADDED = {"findings": Finding, "validity": ValidityCheck, "counters": CounterPair, "steps": NextStep, "prices": Prices}


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. Every record is closed: a field that it does not name is an error."""
    _, records = msgspec.json.schema_components(_RECORDS, ref_template="#/$defs/{name}")
    for record in records.values():
        if "description" in record:  # a docstring, which msgspec takes as it is indented before 0.23
            record["description"] = cleandoc(record["description"])
        if record.get("type") == "object":
            record["additionalProperties"] = False
            record["required"] = sorted(record.get("properties", {}))
            for about in record.get("properties", {}).values():
                about.pop("default", None)
    for name in (Report.__name__, Phase.__name__):
        for field in DRAWN_ONLY:
            if field in records[name]["properties"]:
                del records[name]["properties"][field]
                records[name]["required"].remove(field)
    for name in (Charts.__name__, Distribution.__name__):
        del records[name]
    for field, kind in _ADDED.items():
        _add(records["Report"], field, {"type": "array", "items": _of(kind)})
    _add(records[CounterPair.__name__], "difference", {"type": "number", "description": "other_value - one_value"})
    records["Numbers"]["properties"]["server"] = {"type": "object", "additionalProperties": _of(Times)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A report of vtop",
        "description": "Seconds, bytes, tokens, ratios; null is not known. Made by vtop/report/render/json_schema.py.",
        "type": "object",
        "additionalProperties": False,
        "required": ["format", "recordings", "expectations"],
        "properties": {
            "format": {"const": FORMAT},
            "recordings": {"type": "array", "items": _of(Report)},
            "expectations": {"type": "array", "items": _of(Outcome)},
        },
        "$defs": dict(sorted(records.items())),
    }


def text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False, sort_keys=False) + "\n"


def _of(kind: type) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _add(record: dict[str, Any], field: str, about: dict[str, Any]) -> None:
    record["properties"][field] = about
    record["required"] = sorted({*record["required"], field})
