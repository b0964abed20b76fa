"""Which series of a server mean what: the names and labels of one kind of server, and what they are read as.

A recording holds series under the server's own names; their meaning is given here, afterwards, so that a corrected
reading repairs old recordings. What a kind of server calls its series stands in its folder (vtop/server_kinds/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from vtop.metrics.exposition import Parser, SeriesKey
from vtop.metrics.quantity import Quantity, SeriesKind

_SAMPLE_SUFFIX: Final = re.compile("_(total|bucket|sum|count)$")
_parser = Parser()


@dataclass(frozen=True, slots=True)
class FamilyMeaning:
    """What one family means. rank: of two families for one quantity, the lower rank is the one to read.

    total: the family's name ends in _total on /metrics, as a counter's does. part: which part of the quantity the whole
    family is, where no label says it.
    """

    quantity: Quantity
    kind: SeriesKind
    part_label: str | None = None
    rank: int = 0
    total: bool = False
    part: str = ""


@dataclass(frozen=True, slots=True)
class SeriesMeaning:
    """What one series means: whose (`engine`) and which part ("" for the whole)."""

    quantity: Quantity
    kind: SeriesKind
    engine: str
    part: str
    rank: int


# what any server of Python's Prometheus client exports beside its own families
PROCESS: Final[Mapping[str, FamilyMeaning]] = {
    "process_start_time_seconds": FamilyMeaning(Quantity.PROCESS_START, SeriesKind.GAUGE),
    "process_cpu_seconds": FamilyMeaning(Quantity.PROCESS_CPU, SeriesKind.COUNTER),
    "http_request_duration_seconds": FamilyMeaning(Quantity.HTTP_DURATION, SeriesKind.HISTOGRAM, "handler"),
}


@dataclass(frozen=True, slots=True, eq=False)
class PoolLabels:
    """The labels of a kind's CACHE_CONFIG series that say how large the KV pool of an engine is."""

    tokens: str = ""
    block_size: str = ""
    blocks: str = ""  # of all engines together
    max_concurrency: str = ""  # requests of full length that fit
    prefix_caching: str = ""  # "True" or "False"
    cache_dtype: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AdapterLabels:
    """The labels of a kind's LORA series: adapters by name, with commas between them, and how many may run at once."""

    running: str = ""
    waiting: str = ""
    most: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SeriesNames:
    """The series of one kind of server. Families are named without prefix and without _total."""

    prefixes: tuple[str, ...] = ()  # the first is today's
    families: Mapping[str, FamilyMeaning] = field(default_factory=dict)
    foreign: Mapping[str, FamilyMeaning] = field(default_factory=lambda: PROCESS)  # read beside its own
    owner_labels: tuple[tuple[str, ...], ...] = ()  # who a series belongs to: of each group the first label there is
    kept_labels: frozenset[str] = frozenset()  # further labels that may be recorded; all others are dropped
    engine_labels: tuple[str, ...] = ()  # that differ within one server
    largest: tuple[str, ...] = ()  # name endings: of series that coincide, the largest is kept, not the sum
    pool: PoolLabels = PoolLabels()
    adapters: AdapterLabels = AdapterLabels()

    def family(self, name: str) -> str | None:
        """The family's name without its prefix, or None when it is none of the server's own."""
        for prefix in self.prefixes:
            if name.startswith(prefix):
                return name[len(prefix) :]
        return None

    def exported_as(self, quantity: Quantity) -> str | None:
        """The name of the family that a quantity is read from, as the server exports it today; None: it does not."""
        for table, prefix in ((self.families, self.prefixes[0] if self.prefixes else ""), (self.foreign, "")):
            for name, found in table.items():
                if found.quantity is quantity and found.rank == 0:
                    total = "_total" if found.kind is SeriesKind.COUNTER or found.total else ""
                    return f"{prefix}{name}{total}"
        return None

    def bare(self, quantity: Quantity) -> str | None:
        """The same name without its prefix."""
        name = self.exported_as(quantity)
        return name if name is None else self.family(name) or name

    def kind_of(self, name: str) -> SeriesKind | None:
        """What the samples of a name are read as; of a histogram those of its sums, counts and buckets. None: vtop does
        not read it."""
        base = self.family(name)
        table, base = (self.families, base) if base is not None else (self.foreign, name)
        family = _SAMPLE_SUFFIX.sub("", base)
        for one in (base, family, family.removesuffix("_total")):
            if (found := table.get(one)) is not None:
                return found.kind
        return None

    def recorded(self, name: str) -> bool:
        """Whether a sample of this family belongs in a recording."""
        if name.endswith("_created"):
            return False
        return self.family(name) is not None or _SAMPLE_SUFFIX.sub("", name) in self.foreign

    def keeps_label(self, label: str) -> bool:
        """Whether a label's value may be written to a recording."""
        return label in self.kept_labels

    def never_summed(self, name: str) -> bool:
        """Whether two series of this family that differ only in dropped labels keep the larger value."""
        return name.endswith(self.largest)

    def meaning(self, series: str) -> SeriesMeaning | None:
        """What a recorded series means; None when vtop does not read it."""
        samples = list(_parser.parse(series + " 0").samples)
        return self._meaning(samples[0][0]) if samples else None

    def _meaning(self, series: SeriesKey) -> SeriesMeaning | None:
        base = self.family(series.name)
        table = self.families if base is not None else self.foreign
        name = base if base is not None else series.name
        found = table.get(name) or table.get(name.removesuffix("_total"))
        if found is None:
            return None
        labels = dict(series.labels)
        owners = (next(filter(None, map(labels.get, alike)), None) for alike in self.owner_labels)
        owner = "/".join(one for one in owners if one)
        part = labels.get(found.part_label, "") if found.part_label else found.part
        return SeriesMeaning(found.quantity, found.kind, owner, part, found.rank)


def labels_of(series: str) -> dict[str, str]:
    """The labels of a recorded series; the value "None" (a field that is not set) is left out."""
    samples = list(_parser.parse(series + " 0").samples)
    return {key: value for key, value in samples[0][0].labels if value != "None"} if samples else {}
