"""OpenMetrics text with timestamps, for backfilling a Prometheus: promtool tsdb create-blocks-from openmetrics.

Series stand under the server's own names, with `instance` as a Prometheus that scraped the server would say, and the
model's name put back. A page gives a sample of each of its series, also of those that did not change; where a series
was not on the page, or said NaN, there is none. Beside them stand `up` (0: no page could be had) and the readings of
the GPUs as vtop_gpu_*. The format wants all samples of a series together and a recording has them page by page, so they
pass through a temporary file as large as the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

from vtop.export.files import new_file
from vtop.export.series_spool import Spool
from vtop.recording import AnyEvent, Gpu, HistogramCounts, Identity, Outage, Recording, Scrape, TargetChange, events_of
from vtop.server_kinds import registry

# field of a reading, family, type
_DEVICE: Final = (
    ("util_ratio", "vtop_gpu_utilization_ratio", "gauge"),
    ("mem_used_bytes", "vtop_gpu_memory_used_bytes", "gauge"),
    ("mem_total_bytes", "vtop_gpu_memory_bytes", "gauge"),
    ("power_w", "vtop_gpu_power_watts", "gauge"),
    ("power_limit_w", "vtop_gpu_power_limit_watts", "gauge"),
    ("energy_j", "vtop_gpu_energy_joules", "counter"),
    ("temp_c", "vtop_gpu_temperature_celsius", "gauge"),
    ("sm_mhz", "vtop_gpu_sm_clock_megahertz", "gauge"),
    ("mem_mhz", "vtop_gpu_memory_clock_megahertz", "gauge"),
)
_SWITCH_TO_EXPONENT = 6  # digits before the point: as Prometheus' own clients write bounds


def write(recording: Recording, out: Path, *, every_s: float, force: bool) -> list[Path]:
    """Write the text, with a page at most every so many seconds; says where. Raises VtopError."""
    with new_file(out, force=force) as file:
        spool = Spool(out.parent if str(out) != "-" else None)
        try:
            for chunk in text(recording, spool, every_s):
                file.write(chunk)
        finally:
            spool.close()
    return [out]


def text(recording: Recording, spool: Spool, every_s: float) -> Iterator[bytes]:
    """The text, in pieces."""
    samples = Samples(recording, spool, every_s)
    for event in events_of(recording):
        samples.take(event)
    for family, series in samples.families.items():
        yield f"# TYPE {family} {samples.types[family]}\n".encode()
        for key in series:
            yield from spool.text(key)
    yield b"# EOF\n"


class Samples:
    """Takes the lines of a recording and puts a sample of each series of each page into a spool."""

    def __init__(self, recording: Recording, spool: Spool, every_s: float) -> None:
        self._unix_s = recording.start.unix_s
        self._spool = spool
        self._every_s = every_s
        self._servers = [Server(self, _instance(target.url)) for target in recording.start.servers]
        self._devices_ms = -1
        self.types: dict[str, str] = {}
        self.families: dict[str, list[str]] = {}  # keys of the spool

    def take(self, event: AnyEvent) -> None:
        match event:
            case TargetChange() if event.target is not None and event.server == len(self._servers):
                self._servers.append(Server(self, _instance(event.target.url)))
            case Identity() if 0 <= event.server < len(self._servers):
                self._servers[event.server].take_identity(event)
            case Scrape() if 0 <= event.server < len(self._servers):
                self._servers[event.server].take(event)
            case Outage() if 0 <= event.server < len(self._servers):
                self._servers[event.server].take_outage(event)
            case Gpu():
                self._take_devices(event)
            case _:
                pass

    def ms(self, at_s: float) -> int:
        return round((self._unix_s + at_s) * 1000)

    def due(self, now_ms: int, last_ms: int) -> bool:
        """Whether it is time for another sample; two of a series never share an instant."""
        return now_ms > last_ms and (last_ms < 0 or now_ms - last_ms >= (self._every_s - 0.05) * 1000)

    def add(self, family: str, kind: str, key: str, text: str) -> None:
        if family not in self.types:
            self.types[family] = kind
            self.families[family] = []
        if key not in self._spool:
            self.families[family].append(key)
        self._spool.add(key, text)

    def _take_devices(self, event: Gpu) -> None:
        now_ms = self.ms(event.at_s)
        if not self.due(now_ms, self._devices_ms):
            return
        self._devices_ms = now_ms
        for device in event.gpus:
            labels = f'{{gpu="{device.index}",uuid="{_escaped(device.uuid)}"}}'
            for field, family, kind in _DEVICE:
                value = getattr(device, field)
                if value is not None:
                    name = f"{family}_total" if kind == "counter" else family
                    sample = f"{name}{labels} {float(value)!r} {_seconds(now_ms)}\n"
                    self.add(family, kind, f"{name}{labels}", sample)


class Server:
    """The series on the latest page of one server, each as text that lacks only the timestamp."""

    def __init__(self, samples: Samples, instance: str) -> None:
        self._samples = samples
        self._instance = f'instance="{_escaped(instance)}"'
        self._kind = registry.DEFAULT
        self._model: str | None = None
        self._le: dict[str, list[str]] = {}  # bounds by family, as text
        self._numbers: dict[str, str] = {}
        self._hists: dict[str, list[str]] = {}
        self._labelled: dict[str, tuple[str, str]] = {}  # series as recorded: (name, labels)
        self._last_ms = -1

    def take(self, scrape: Scrape) -> None:
        self._update(scrape)
        now_ms = self._samples.ms(scrape.at_s)
        if not self._samples.due(now_ms, self._last_ms):
            return
        self._last_ms = now_ms
        ending = f" {_seconds(now_ms)}\n"
        add = self._samples.add
        add("up", "gauge", f"up{{{self._instance}}}", f"up{{{self._instance}}} 1.0{ending}")
        for series, sample in self._numbers.items():
            name = self._labelled[series][0]
            family = name.removesuffix("_total")
            add(family, "counter" if family != name else "gauge", sample.rpartition(" ")[0], sample + ending)
        for series, lines in self._hists.items():
            name, labels = self._labelled[series]
            add(name, "histogram", f"{name}{{{labels}}}", ending.join(lines) + ending)

    def take_identity(self, identity: Identity) -> None:
        if identity.kind != self._kind.name:
            self._kind = registry.of(identity.kind)
            self._labelled.clear()

    def take_outage(self, outage: Outage) -> None:
        now_ms = self._samples.ms(outage.at_s)
        if self._samples.due(now_ms, self._last_ms):
            self._last_ms = now_ms
            sample = f"up{{{self._instance}}} 0.0 {_seconds(now_ms)}\n"
            self._samples.add("up", "gauge", f"up{{{self._instance}}}", sample)

    def _update(self, scrape: Scrape) -> None:
        if scrape.full:
            if scrape.model != self._model:
                self._model = scrape.model
                self._labelled.clear()
            self._le = {family: [*map(_bound, bounds), "+Inf"] for family, bounds in scrape.le.items()}
            self._numbers.clear()
            self._hists.clear()
        for series, value in scrape.values.items():
            if value is None:
                self._numbers.pop(series, None)
                continue
            name, labels = self._named(series)
            self._numbers[series] = f"{name}{{{labels}}} {value!r}"
        for series, counts in scrape.hists.items():
            self._hists[series] = self._histogram(series, counts)

    def _histogram(self, series: str, counts: HistogramCounts) -> list[str]:
        name, labels = self._named(series)
        bounds = self._le.get(name, [])
        if len(bounds) != len(counts.n):
            return []
        below = list(accumulate(counts.n))
        lines = [
            f'{name}_bucket{{{labels},le="{bound}"}} {count}.0' for bound, count in zip(bounds, below, strict=True)
        ]
        if counts.sum is not None:  # a sum and a count come together or not at all
            lines += [f"{name}_count{{{labels}}} {below[-1]}.0", f"{name}_sum{{{labels}}} {counts.sum!r}"]
        return lines

    def _named(self, series: str) -> tuple[str, str]:
        """A series' name and labels, with what the server's page said and a scraper would add."""
        known = self._labelled.get(series)
        if known is None:
            name, _, labels = series.removesuffix("}").partition("{")
            all_labels = [labels] if labels else []
            of_model = (
                self._model is not None and self._kind.series.family(name) is not None and not name.endswith("_info")
            )
            if of_model and 'model_name="' not in labels:
                all_labels.append(f'model_name="{_escaped(self._model or "")}"')
            known = self._labelled[series] = name, ",".join([*all_labels, self._instance])
        return known


def _instance(url: str) -> str:
    return url.partition("://")[2] or url


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03}"


def _bound(value: float) -> str:
    """A bound as Prometheus' clients write it, so that backfilled buckets are those that were scraped: 1e+06."""
    text = repr(value)
    whole, point, rest = text.partition(".")
    if value <= 0 or len(whole) <= _SWITCH_TO_EXPONENT or not point:
        return text
    mantissa = f"{whole[0]}.{whole[1:]}{rest}".rstrip("0").rstrip(".")
    return f"{mantissa}e+{len(whole) - 1:02}"
