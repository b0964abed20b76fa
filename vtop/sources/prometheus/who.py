"""Who is who in a Prometheus: its label sets become servers, each once.

A server's own labels (its model, its engines) are on its page; whatever else tells two series of one family apart says
where they came from. An address is not enough: a node's page may hold several replicas, two jobs may scrape one server,
and a pair of Prometheus stores everything twice. Label sets are one server where the start of their process is the same
and their counters, laid together by time, never fall: those of two processes would.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from vtop.errors import VtopError
from vtop.metrics.quantity import Quantity
from vtop.server_kinds import registry
from vtop.server_kinds.kind import ServerKind
from vtop.sources.prometheus.api import PrometheusApi, quoted

PROBE_S: Final = 300.0  # of samples, by which duplicates and the interval are told
STEPS: Final = 120  # in which it is looked up who was there when
SHORTEST_STEP_S: Final = 15.0
MOST_PROBES: Final = 20  # instants; beyond them nobody was there together
_OFF: Final = 0.15  # of a whole second or more: still that interval
_MARK: Final = Quantity.RUNNING  # its series names a server
_COUNTERS: Final = (Quantity.PROMPT_TOKENS, Quantity.GENERATION_TOKENS, Quantity.PROCESS_CPU)
_NAMES: Final = ("instance", "pod", "exported_pod", "host", "job")  # by what a server is called, the first there is
_RELABELLED: Final = "exported_"  # before a label of the page whose name the target has too

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Where one copy of a server's series is found."""

    labels: Labels  # sorted by name, without those of its engines
    absent: tuple[str, ...]  # labels that others have and this one has not
    kind: ServerKind
    prefix: str  # of the series' names
    models: tuple[str, ...] = ()
    up: Labels | None = None  # the labels of its `up`, where there is one

    def selector(self, names: str) -> str:
        """names: a regular expression."""
        return _selector(names, self.labels, self.absent, f"__name__!~{quoted('.+_created')}")

    @property
    def with_up(self) -> bool:
        """Whether one selector finds its series and its `up`."""
        return self.up == self.labels

    def up_selector(self) -> str | None:
        return _selector("up|scrape_duration_seconds", self.up) if self.up is not None else None


@dataclass(frozen=True, slots=True)
class FoundTarget:
    """A server: copies are the same scrapes, or the same server scraped by somebody else; the first is preferred."""

    name: str
    copies: tuple[LabelSet, ...]
    interval_s: float | None


@dataclass(slots=True)
class _Probe:
    """What is known of a label set at one time: start of its process, counters and scrapes."""

    start: set[float] = field(default_factory=set)
    counters: dict[tuple[str, Labels], list[tuple[float, float]]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)


_Probes = dict[Labels, _Probe]


def servers(
    api: PrometheusApi, match: Sequence[str], begin_s: float, end_s: float, by: Sequence[str] = ()
) -> tuple[list[FoundTarget], list[str]]:
    """Whoever was scraped between two instants, and what there is to say about it.

    match: PromQL matchers, all of which hold. by: labels that alone tell servers apart, in place of the rule. Raises
    VtopError where there is none.
    """
    told: list[str] = []
    found: list[LabelSet] = []
    given = matchers(match)
    for kind in (one for one in registry.KINDS.values() if one.reads):
        base = kind.series.bare(_MARK)
        if base is not None:
            rows = api.series(_selector(f"(.*[:_])?{re.escape(base)}", (), given=given), begin_s, end_s)
            found += _label_sets(kind, base, rows, told)
    if not found:
        among = f" with {given}" if given else ""
        raise VtopError(
            f"{api.url}: no {registry.readable()} server{among} in that time (no series …{_MARK_NAMES}); "
            "see --match, --from and --to"
        )
    found = _with_up(api, found, begin_s, end_s)
    if by:
        clusters = _by_labels(found, by)
        probes = _probes(api, found, begin_s, end_s, given)
    else:
        probes = _probes(api, found, begin_s, end_s, given)
        clusters = _same(found, probes)
    named = _named(clusters)
    told += _said(clusters, named, by)
    result = []
    for name, cluster in zip(named, clusters, strict=True):
        cluster.sort(key=lambda one: (_interval_s(probes.get(one.labels)) or math.inf, one.labels))
        result.append(FoundTarget(name, tuple(cluster), _interval_s(probes.get(cluster[0].labels))))
    return sorted(result, key=lambda one: one.name), told


def matchers(match: Sequence[str]) -> str:
    """`job="llm"`, `{job="llm"}` or several of them, as they stand between braces. Raises VtopError."""
    parts = []
    for one in match:
        inside = one.strip().removeprefix("{").removesuffix("}").strip().strip(",")
        if not re.match(r'[a-zA-Z_]\w*\s*(=|!=|=~|!~)\s*"', inside):
            raise VtopError(f"--match {one}: expected a PromQL matcher such as 'job=\"llm\"'")
        parts.append(inside)
    return ",".join(parts)


def _selector(names: str, labels: Labels, absent: Iterable[str] = (), given: str = "") -> str:
    parts = [f"__name__=~{quoted(names)}", *(f"{label}={quoted(value)}" for label, value in labels)]
    parts += [f'{label}=""' for label in absent]
    return "{" + ",".join([*parts, *([given] if given else [])]) + "}"


def _label_sets(kind: ServerKind, base: str, rows: Sequence[Mapping[str, str]], told: list[str]) -> list[LabelSet]:
    """The label sets of a kind's servers: one for each set of labels that are not its engines'."""
    prefixes: dict[Labels, set[str]] = {}
    models: dict[Labels, set[str]] = {}
    for row in rows:
        prefix = row["__name__"].removesuffix(base)
        if ":" in prefix and prefix not in kind.series.prefixes:
            _tell(told, f"{row['__name__']} is a recording rule by its name: left out")
            continue
        own = own_labels(kind, row)
        key = tuple(sorted((label, value) for label, value in row.items() if label != "__name__" and label not in own))
        prefixes.setdefault(key, set()).add(prefix)
        models.setdefault(key, set()).update(value for label, value in row.items() if own.get(label) == "model_name")
    every = {label for key in prefixes for label, _ in key}
    found = []
    for key, known in prefixes.items():
        order = {prefix: place for place, prefix in enumerate(kind.series.prefixes)}
        prefix, *others = sorted(known, key=lambda one: (order.get(one, len(order)), one))
        if others:
            _tell(told, f"one server has {base} as {prefix}… and as {others[0]}…: the first is read")
        if prefix not in order:
            today = kind.series.prefixes[0]
            _tell(told, f"series {prefix}… are read as {today}…")
        absent = tuple(sorted(every - {label for label, _ in key}))
        found.append(LabelSet(key, absent, kind, prefix, tuple(sorted(models[key]))))
    return found


def own_labels(kind: ServerKind, row: Mapping[str, str]) -> dict[str, str]:
    """The labels of a row that differ within one server, and what the page calls them: a target's label of the same
    name has pushed the page's own one aside."""
    names = ((label, _RELABELLED + label) for label in kind.series.engine_labels)
    return {aside if aside in row else label: label for label, aside in names if label in row or aside in row}


def _with_up(api: PrometheusApi, found: Sequence[LabelSet], begin_s: float, end_s: float) -> list[LabelSet]:
    """Each with the labels of its `up`: of the target that its series came from."""
    jobs = sorted({value for one in found for label, value in one.labels if label == "job"})
    among = (("job", "|".join(map(re.escape, jobs))),) if jobs else ()
    given = ",".join(f"{label}=~{quoted(value)}" for label, value in among)
    rows = api.series(_selector("up", (), given=given), begin_s, end_s)
    targets = [tuple(sorted((label, value) for label, value in row.items() if label != "__name__")) for row in rows]
    result = []
    for one in found:
        own = [target for target in targets if target and set(target) <= set(one.labels)]
        up = max(own, key=len, default=None)
        result.append(LabelSet(one.labels, one.absent, one.kind, one.prefix, one.models, up))
    return result


def _probes(
    api: PrometheusApi, found: Sequence[LabelSet], begin_s: float, end_s: float, given: str
) -> dict[Labels, _Probe]:
    """Of each label set, what its last minutes say."""
    probes: dict[Labels, _Probe] = {}
    instants = [end_s]
    while instants and len(probes) < len(found):
        for at_s in instants[:MOST_PROBES]:
            length_s = min(PROBE_S, max(at_s - begin_s, 1.0))
            for kind, prefix in sorted({(one.kind.name, one.prefix) for one in found}):
                own = {one.labels: one for one in found if (one.kind.name, one.prefix) == (kind, prefix)}
                _probe(api, own, (at_s - length_s, at_s), given, probes)
        missing = [one for one in found if one.labels not in probes]
        instants = _last_seen(api, missing, begin_s, end_s) if missing and instants == [end_s] else []
    return probes


def _probe(
    api: PrometheusApi, found: Mapping[Labels, LabelSet], stretch: tuple[float, float], given: str, probes: _Probes
) -> None:
    """stretch: from and to."""
    one = next(iter(found.values()))
    names = one.kind.series
    start, mark = names.exported_as(Quantity.PROCESS_START), f"{one.prefix}{names.bare(_MARK)}"
    counters = [
        name if names.family(name) is None else f"{one.prefix}{names.bare(quantity)}"
        for quantity in _COUNTERS
        if (name := names.exported_as(quantity)) is not None
    ]
    # a label of the series themselves (a model's name) would leave out those of the process
    among = given if all(label not in given for label in names.engine_labels) else ""
    asked = "|".join(re.escape(name) for name in (mark, *counters, *([start] if start else [])))
    for _, piece in api.samples(_selector(asked, (), given=among), *stretch):
        for series in piece:
            name, row = series.metric["__name__"], series.metric
            times, values = series.columns()
            own = own_labels(one.kind, row)
            key = tuple(sorted((k, v) for k, v in row.items() if k != "__name__" and k not in own))
            if key not in found:
                continue
            probe = probes.setdefault(key, _Probe())
            if name == start:
                probe.start.update(values)
            elif name == mark:
                probe.times += times
            else:
                engine = tuple(sorted((own[k], v) for k, v in row.items() if k in own))
                counts = probe.counters.setdefault((name, engine), [])
                counts += zip(times, values, strict=True)


def _last_seen(api: PrometheusApi, missing: Sequence[LabelSet], begin_s: float, end_s: float) -> list[float]:
    """When those that are not there at the end were last there, to a few steps."""
    step_s = max((end_s - begin_s) / STEPS, SHORTEST_STEP_S)
    instants: set[float] = set()
    for one in missing:
        query = f"count({one.selector(re.escape(one.prefix + (one.kind.series.bare(_MARK) or '')))})"
        rows = api.presence(query, begin_s, end_s, step_s)
        instants |= {at for row in rows for at in row.columns()[0][-1:]}
        if len(instants) >= MOST_PROBES:
            break
    return sorted(instants, reverse=True)


def _same(found: Sequence[LabelSet], probes: Mapping[Labels, _Probe]) -> list[list[LabelSet]]:
    clusters: list[list[LabelSet]] = []
    for one in found:
        own = probes.get(one.labels)
        for cluster in clusters:
            other = probes.get(cluster[0].labels)
            alike = cluster[0].models == one.models and cluster[0].kind is one.kind
            near = _one_address(one, cluster[0])
            if alike and own is not None and other is not None and _one_process(own, other, one_address=near):
                cluster.append(one)
                break
        else:
            clusters.append([one])
    return clusters


def _one_address(first: LabelSet, other: LabelSet) -> bool:
    return dict(first.labels).get("instance") == dict(other.labels).get("instance")


def _one_process(first: _Probe, other: _Probe, *, one_address: bool) -> bool:
    """Whether two label sets hold the counters of one process: they grow, and as one. Of two addresses only where the
    start of the process is stored and the same."""
    if ((first.start and other.start) or not one_address) and first.start.isdisjoint(other.start):
        return False
    shared = first.counters.keys() & other.counters.keys()
    grew = False
    for key in shared:
        mine, its = first.counters[key], other.counters[key]
        if not mine or not its:
            continue
        together = sorted({*mine, *its})
        if any(b[1] < a[1] for a, b in pairwise(together)) and not _restarts(mine, its):
            return False
        overlap = min(mine[-1][0], its[-1][0]) >= max(mine[0][0], its[0][0])
        grew = grew or (overlap and together[-1][1] > together[0][1])
    return grew


def _restarts(mine: Sequence[tuple[float, float]], its: Sequence[tuple[float, float]]) -> bool:
    """Whether both fall as often as they do together: a restart that both saw."""
    falls = [sum(b[1] < a[1] for a, b in pairwise(one)) for one in (mine, its, sorted({*mine, *its}))]
    return falls[0] == falls[1] == falls[2]


def _by_labels(found: Sequence[LabelSet], by: Sequence[str]) -> list[list[LabelSet]]:
    clusters: dict[tuple[str | None, ...], list[LabelSet]] = {}
    for one in found:
        labels = dict(one.labels)
        clusters.setdefault(tuple(labels.get(label) for label in by), []).append(one)
    if list(clusters) == [(None,) * len(by)]:
        there = sorted({label for one in found for label, _ in one.labels})
        raise VtopError(f"--by {','.join(by)}: no server has that label; there are {', '.join(there)}")
    return list(clusters.values())


def _named(clusters: Sequence[Sequence[LabelSet]]) -> list[str]:
    """What each is called: its instance, and the labels that tell it from others of the same one."""
    common = [_common(cluster) for cluster in clusters]
    firsts = [next((labels[name] for name in _NAMES if name in labels), "server") for labels in common]
    names = []
    for labels, first in zip(common, firsts, strict=True):
        namesakes = [other for other, its in zip(common, firsts, strict=True) if its == first]
        every = sorted({label for other in namesakes for label in other})
        telling = [label for label in every if len({other.get(label) for other in namesakes}) > 1]
        words = [f"{label}={labels[label]}" for label in telling if label in labels]
        names.append(f"{first} {{{','.join(words)}}}" if len(namesakes) > 1 and words else first)
    for place, name in enumerate(names):
        if name in names[:place]:
            names[place] = f"{name}#{names[:place].count(name) + 1}"
    return names


def _common(cluster: Sequence[LabelSet]) -> dict[str, str]:
    shared = set(cluster[0].labels)
    for one in cluster[1:]:
        shared &= set(one.labels)
    return dict(sorted(shared))


def _said(clusters: Sequence[Sequence[LabelSet]], names: Sequence[str], by: Sequence[str]) -> list[str]:
    told: list[str] = []
    for name, cluster in zip(names, clusters, strict=True):
        if len(cluster) > 1:
            differ = sorted({label for one in cluster for label, _ in set(one.labels) ^ set(cluster[0].labels)})
            how = f"by --by {','.join(by)}" if by else "by its counters"
            told.append(f"{name} is stored {len(cluster)} times ({', '.join(differ)} differ), {how}: read once")
    if not by:
        told += _unsure(clusters, names)
    return told


def _unsure(clusters: Sequence[Sequence[LabelSet]], names: Sequence[str]) -> list[str]:
    """Label sets of one address and model that were not shown to be one server."""
    seen: dict[tuple[str, tuple[str, ...]], str] = {}
    told = []
    for name, cluster in zip(names, clusters, strict=True):
        instance = dict(cluster[0].labels).get("instance")
        if instance is None:
            continue
        key = (instance, cluster[0].models)
        if key in seen:
            told.append(f"{seen[key]} and {name} may be one server: their counters do not show it; see --by")
        seen.setdefault(key, name)
    return told


def _interval_s(probe: _Probe | None) -> float | None:
    """How far apart its scrapes lie, by its own times."""
    times = sorted(set(probe.times)) if probe is not None else []
    apart = [b - a for a, b in pairwise(times)]
    if not apart:
        return None
    usual_s = median(apart)
    whole_s = round(usual_s)  # as people set it; a few scrapes of a busy machine are off it
    return float(whole_s) if whole_s and abs(usual_s - whole_s) < _OFF * whole_s else round(usual_s, 3)


def _tell(told: list[str], text: str) -> None:
    if text not in told:
        told.append(text)


_MARK_NAMES: Final = " or …".join(kind.series.bare(_MARK) or "" for kind in registry.KINDS.values() if kind.reads)
