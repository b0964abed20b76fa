"""Expectations: conditions on the numbers of a report, kept in a TOML file, and whether they were met.

    [no-preemption]
    that = "preemptions == 0"

    [kv-has-room]
    that = "kv.peak_ratio <= 0.95"
    tolerance = "5%"                # beyond the bound by this much at most: partly

    [first-token]
    that = "ttft.p99_ms < 800"
    phase = "c=64"                  # a phase by its label; "*": each of them; without it the run as a whole
    part = "steady"                 # of the phase; "whole" without it
    note = "what users feel"

A field is named as in the JSON report, below `run` or below a phase's `whole` and `steady`. Its last word may be asked
in another unit: `_ms` and `_us` of `_s`, `_percent` of `_ratio`, `_gib` of `_bytes`. A number that is known
to lie in a bucket meets a condition only if the whole bucket does, and fails it only if the whole bucket fails.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgspec

from vtop import small_file, units
from vtop.errors import VtopError
from vtop.metrics.histogram import Range
from vtop.report.model import Report
from vtop.report.numbers import Numbers

MET, PARTLY, NOT_MET, NOT_OBSERVABLE = "met", "partly", "not met", "not observable"
CODES: Final = {MET: 0, PARTLY: 0, NOT_MET: 1, NOT_OBSERVABLE: 1}

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION: Final = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(==|!=|<=|>=|<|>)\s*(-?[\d_]*\.?\d+(?:[eE][+-]?\d+)?)\s*")
_UNITS: Final = {
    "_ms": ("_s", 1e3),
    "_us": ("_s", 1e6),
    "_percent": ("_ratio", 100.0),
    "_gib": ("_bytes", 2.0**-30),
}
_KEYS: Final = {"that", "tolerance", "phase", "part", "note"}


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    condition: str
    field: str
    sign: str
    bound: float
    tolerance: float  # absolute, in the unit of the bound
    phase: str | None
    part: str
    note: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`found`: the number in words; `result`: met, partly, not met, not observable."""

    file: str
    name: str
    condition: str
    where: str
    result: str
    found: str
    note: str


def read(path: Path) -> tuple[Rule, ...]:
    """The rules of a file. Raises VtopError that names the file, the rule and what was expected."""
    try:
        content = tomllib.loads(small_file.read_text(path))
    except OSError as error:
        raise VtopError(f"--expect {path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise VtopError(f"--expect {path}: not TOML ({error})") from error
    if not content:
        raise VtopError(f'--expect {path}: it holds no expectation; write [name] and that = "preemptions == 0"')
    return tuple(_rule(path, name, table) for name, table in content.items())


def judge(report: Report, rules: Sequence[Rule]) -> tuple[Outcome, ...]:
    """Each rule on the run or on the phases that it names. Raises VtopError for a field that no report has."""
    return tuple(outcome for rule in rules for outcome in _judge(report, rule))


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 where everything is met or within its tolerance, else 1."""
    return max((CODES[outcome.result] for outcome in outcomes), default=0)


def _rule(path: Path, name: str, table: Any) -> Rule:
    where = f"--expect {path}: [{name}]"
    if not isinstance(table, dict) or not isinstance(table.get("that"), str):
        raise VtopError(f'{where} has no condition; write that = "preemptions == 0"')
    if unknown := sorted(set(table) - _KEYS):
        raise VtopError(f"{where} {unknown[0]}: no such key; there are {', '.join(sorted(_KEYS))}")
    if wrong := next((key for key in ("phase", "part", "note") if not isinstance(table.get(key, ""), str)), None):
        raise VtopError(f"{where} {wrong}: expected text in quotes")
    found = _CONDITION.fullmatch(table["that"])
    if found is None:
        raise VtopError(f"{where} that = {table['that']!r}: write FIELD, one of == != < <= > >=, and a number")
    field, sign, number = found.groups()
    part = table.get("part", "whole")
    if part not in ("whole", "steady"):
        raise VtopError(f"{where} part = {part!r}: whole or steady")
    if part == "steady" and "phase" not in table:
        raise VtopError(f'{where} part = "steady" is of a phase: add phase = "*" or its label')
    bound = float(number)
    return Rule(
        name=name,
        condition=" ".join((field, sign, number)),
        field=field,
        sign=sign,
        bound=bound,
        tolerance=_tolerance(where, table.get("tolerance", 0), bound),
        phase=table.get("phase"),
        part=part,
        note=table.get("note", ""),
    )


def _tolerance(where: str, given: Any, bound: float) -> float:
    """A number in the unit of the bound, or per cent of it."""
    text = str(given).strip()
    try:
        value = abs(bound) * float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if isinstance(given, bool) or not 0 <= value < float("inf"):
        raise VtopError(f'{where} tolerance = {given!r}: write a number of 0 or more, or "5%"')
    return value


def _judge(report: Report, rule: Rule) -> list[Outcome]:
    _check_field(rule)
    if rule.phase is None:
        return [_outcome(report, rule, "run", report.run)]
    phases = [phase for phase in report.phases if rule.phase in ("*", phase.label, phase.name)]
    if not phases:
        return [_outcome(report, rule, rule.phase, None)]
    return [
        _outcome(report, rule, _where(phase.label, rule), phase.steady if rule.part == "steady" else phase.whole)
        for phase in phases
    ]


def _where(label: str, rule: Rule) -> str:
    return label if rule.part == "whole" else f"{label}, steady part"


def _outcome(report: Report, rule: Rule, where: str, numbers: Numbers | None) -> Outcome:
    plain = msgspec.to_builtins(numbers) if numbers is not None else None
    value = _value(plain, rule.field)
    result, found = _result(value, rule)
    if value is None and "." in rule.field and (n := _value(plain, rule.field.rpartition(".")[0] + ".n")) is not None:
        found = f"– (n {n:,.0f})"  # as of a percentile of too few requests
    return Outcome(report.file, rule.name, rule.condition, where, result, found, rule.note)


def _result(value: Any, rule: Rule) -> tuple[str, str]:
    holds = _OPERATORS[rule.sign]
    if value == "failed":  # longer than everything
        met = holds(float("inf"), rule.bound)
        return (MET if met else NOT_MET), "a failed request stands there"
    if isinstance(value, Mapping):
        return _of_bucket(value["low"], value["high"], rule)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOT_OBSERVABLE, units.UNKNOWN
    found = f"{value:.6g}"
    if holds(value, rule.bound):
        return MET, found
    return (PARTLY if abs(value - rule.bound) <= rule.tolerance and rule.sign != "!=" else NOT_MET), found


def _of_bucket(low: float, high: float | None, rule: Rule) -> tuple[str, str]:
    """A value above `low` and at most `high`."""
    top = float("inf") if high is None else high
    found = f"in {low:g}–{high:g}" if high is not None else f"above {low:g}"
    holds = _OPERATORS[rule.sign]
    if rule.sign in ("==", "!="):
        outside = not low < rule.bound <= top
        return (NOT_OBSERVABLE if not outside else MET if rule.sign == "!=" else NOT_MET), found
    if rule.sign in ("<", "<="):
        if holds(top, rule.bound):
            return MET, found
        if low < rule.bound:
            return NOT_OBSERVABLE, found
        return (PARTLY if top <= rule.bound + rule.tolerance else NOT_MET), found
    if low >= rule.bound:
        return MET, found
    if holds(top, rule.bound):
        return NOT_OBSERVABLE, found
    return (PARTLY if low >= rule.bound - rule.tolerance else NOT_MET), found


def _value(numbers: Any, field: str) -> Any:
    """The number under a dotted name, in the unit that the name asks for; None where there is none."""
    here = numbers
    *way, last = field.split(".")
    for word in way:
        here = here.get(word) if isinstance(here, Mapping) else None
    if not isinstance(here, Mapping):
        return None
    if last in here:
        return here[last]
    for suffix, (known, factor) in _UNITS.items():
        if last.endswith(suffix):
            return _scaled(here.get(last.removesuffix(suffix) + known), factor)
    return None


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, Mapping):
        high = value["high"]
        return {"low": value["low"] * factor, "high": high * factor if high is not None else None}
    return value * factor if isinstance(value, int | float) and not isinstance(value, bool) else value


def _check_field(rule: Rule) -> None:
    """A name that no report has is a mistake, not something that was not observed."""
    if not known(rule.field):
        raise VtopError(f"--expect [{rule.name}] {rule.field}: no such number in a report; see docs/report.md")


def known(field: str) -> bool:
    """Whether a number of that name stands in a report's numbers, in its own unit or one that can be asked for."""
    here: Any = Numbers
    *way, last = field.split(".")
    for word in way:
        here = _record(get_type_hints(here).get(word))
        if here is None:
            return False
    numbers = {name for name, hint in get_type_hints(here).items() if {int, float} & {hint, *get_args(hint)}}
    return last in numbers or any(
        last.endswith(suffix) and last.removesuffix(suffix) + unit in numbers for suffix, (unit, _) in _UNITS.items()
    )


def _record(hint: Any) -> Any:
    """The record that a field holds, also where it may hold none."""
    return next((one for one in (hint, *get_args(hint)) if is_dataclass(one) and one is not Range), None)
