"""Small recordings made by hand: pretended servers, their scrapes folded as a live scrape folds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from vtop.metrics.page import Folder
from vtop.recording import AnyEvent, Event, FileRecording, Gpu, GpuReading, Outage, Start, Target, decode, encode
from vtop.recording.events import FORMAT
from vtop.recording.vocabulary import OutageReason
from vtop.server_kinds.registry import series_names
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.jsonl*"))
SMALL = sorted((Path(__file__).parents[1] / "recordings").glob("*.jsonl*"))

# numbers of a frame that say on which side of another they lie
SIGNED = frozenset({"peak_error_ratio", "mean_error_ratio", "residual_ratio", "apart_ratio", "slope_per_s"})

TTFT_LE = (0.01, 0.1, 1.0, 10.0)
SLOW_LE = (0.3, 1.0, 60.0)  # of queue, prefill, decode, inference and e2e
HISTOGRAMS = {
    "time_to_first_token_seconds": TTFT_LE,
    "inter_token_latency_seconds": TTFT_LE,
    "e2e_request_latency_seconds": SLOW_LE,
    "request_queue_time_seconds": SLOW_LE,
    "request_prefill_time_seconds": SLOW_LE,
    "request_decode_time_seconds": SLOW_LE,
    "request_inference_time_seconds": SLOW_LE,
    "request_prompt_tokens": (10.0, 1000.0),
    "request_generation_tokens": (10.0, 1000.0),
    "request_num_preemptions": (1.0, 2.0, 5.0, 10.0),
    "iteration_tokens_total": (1.0, 8.0, 64.0),
}
COUNTERS: tuple[str, ...] = (
    "prompt_tokens",
    "generation_tokens",
    "num_preemptions",
    "prefix_cache_queries",
    "prefix_cache_hits",
)
COUNTERS += ("estimated_flops_per_gpu", "estimated_read_bytes_per_gpu", "estimated_write_bytes_per_gpu")


class Engine:
    """What one engine has counted, and what it does now."""

    def __init__(self) -> None:
        self.running = 0.0
        self.waiting = 0.0
        self.kv = 0.0
        self.counted: dict[str, float] = dict.fromkeys(COUNTERS, 0.0)
        self.finished = {"stop": 0.0, "length": 0.0}
        self.observed: dict[str, list[float]] = {name: [] for name in HISTOGRAMS}

    def count(self, **grown: float) -> None:
        for name, amount in grown.items():
            self.counted[name] += amount

    def observe(self, **values: float) -> None:
        """Observations by a beginning of the histogram's name, e.g. request_queue=0.2."""
        for short, value in values.items():
            (name,) = [name for name in HISTOGRAMS if name.startswith(short)]
            self.observed[name].append(value)

    def finish(
        self,
        *,
        queue: float = 0.0,
        prefill: float = 0.1,
        decode: float = 1.0,
        frontend: float = 0.01,
        prompt: float = 100.0,
        output: float = 20.0,
        preemptions: float = 0.0,
    ) -> None:
        """One request ends; all times in seconds, lengths in tokens."""
        self.finished["stop"] += 1
        self.observe(
            request_queue=queue,
            request_prefill=prefill,
            request_decode=decode,
            request_inference=prefill + decode,
            e2e=queue + prefill + decode + frontend,
            request_prompt=prompt,
            request_generation=output,
            request_num=preemptions,
        )


class Server:
    """A pretended vLLM server and its /metrics page."""

    def __init__(self, engines: Iterable[str] = ("0",), *, started_s: float = 1000.0, model: str = "m") -> None:
        self.model = model
        self.pool_tokens: int | None = None  # of each engine, in blocks of 16
        self.started_s = started_s
        self.engines = {name: Engine() for name in engines}
        self.without: set[str] = set()  # families that the scrape lacks

    @property
    def engine(self) -> Engine:
        return next(iter(self.engines.values()))

    def restart(self, engines: Iterable[str] | None = None) -> None:
        names = list(self.engines) if engines is None else list(engines)
        self.started_s += 500.0
        self.engines = {name: Engine() for name in names}

    def exposition(self, extra: str = "") -> str:
        lines = []

        def family(name: str, kind: str, samples: Mapping[str, float]) -> None:
            if name not in self.without:
                lines.append(f"# TYPE {name} {kind}")
                lines.extend(f"{series} {value!r}" for series, value in samples.items())

        def labels(engine: str, **more: object) -> str:
            written = [
                f'{label}="{value}"' for label, value in {"engine": engine, "model_name": self.model, **more}.items()
            ]
            return "{" + ",".join(written) + "}"

        for name, attribute in (
            ("num_requests_running", "running"),
            ("num_requests_waiting", "waiting"),
            ("kv_cache_usage_perc", "kv"),
        ):
            values = {f"vllm:{name}{labels(e)}": getattr(one, attribute) for e, one in self.engines.items()}
            family(f"vllm:{name}", "gauge", values)
        for name in COUNTERS:
            values = {f"vllm:{name}_total{labels(e)}": one.counted[name] for e, one in self.engines.items()}
            family(f"vllm:{name}_total", "counter", values)
        values = {
            f"vllm:request_success_total{labels(e, finished_reason=reason)}": number
            for e, one in self.engines.items()
            for reason, number in one.finished.items()
        }
        family("vllm:request_success_total", "counter", values)
        for name, le in HISTOGRAMS.items():
            values = {}
            for e, one in self.engines.items():
                seen = one.observed[name]
                for bound in le:
                    key = f"vllm:{name}_bucket{labels(e, le=bound)}"
                    values[key] = float(sum(value <= bound for value in seen))
                values[f"vllm:{name}_bucket{labels(e, le='+Inf')}"] = float(len(seen))
                values[f"vllm:{name}_count{labels(e)}"] = float(len(seen))
                values[f"vllm:{name}_sum{labels(e)}"] = float(sum(seen))
            family(f"vllm:{name}", "histogram", values)
        if self.pool_tokens is not None:
            sizes = {"block_size": 16, "kv_cache_size_tokens": self.pool_tokens}
            values = {f"vllm:cache_config_info{labels(e, **sizes)}": 1.0 for e in self.engines}
            family("vllm:cache_config_info", "gauge", values)
        family("process_start_time_seconds", "gauge", {"process_start_time_seconds": self.started_s})
        return "\n".join(lines) + "\n" + extra


class Log:
    """The lines of a recording, as a writer would have stamped them."""

    def __init__(self, servers: int = 1, interval_s: float = 1.0) -> None:
        self.start = Start(
            format=FORMAT,
            vtop="test",
            unix_s=10_000.0,
            servers=tuple(Target(url=f"http://host{number}:8000") for number in range(servers)),
            interval_s=interval_s,
        )
        self.events: list[AnyEvent] = []
        self.folders = [Folder(series_names) for _ in range(servers)]
        self._t = 0.0

    def add(self, event: Event, t: float) -> None:
        self._t = max(self._t, t)
        self.events.append(decode(encode(msgspec.structs.replace(event, t=self._t))))

    def scrape(
        self, at_s: float, text: str | Server, *, server: int = 0, took_s: float = 0.01, health: int | None = 200
    ) -> None:
        text = text.exposition() if isinstance(text, Server) else text
        folder = self.folders[server]
        scrape = folder.scrape(text, server=server, at_s=at_s, took_s=took_s, bytes=len(text), health=health)
        self.add(scrape, at_s + took_s)

    def outage(self, at_s: float, reason: OutageReason = "refused", *, server: int = 0, detail: str = "") -> None:
        self.folders[server].forget()
        self.add(Outage(server=server, at_s=at_s, took_s=0.0, reason=reason, detail=detail), at_s)

    def gpu(self, at_s: float, *readings: GpuReading) -> None:
        self.add(Gpu(at_s=at_s, took_s=0.001, gpus=readings), at_s + 0.001)

    def session(self) -> Session:
        return fold(self.start, self.events)

    def frame(self, now_s: float | None = None, view: View = View()) -> Frame:  # noqa: B008 - frozen
        session = self.session()
        return session.frame(session.end_s if now_s is None else now_s, view)


def fold(start: Start, events: Iterable[AnyEvent], until: float = float("inf")) -> Session:
    """A session of the lines up to an instant."""
    session = Session(start)
    for event in events:
        if event.t <= until:
            session.apply(event)
    return session


def recorded(name: str) -> Session:
    """A recording that comes with vtop, or one for the tests only, read to its end."""
    (path,) = [path for path in (*RECORDINGS, *SMALL) if path.name.partition(".")[0] == name]
    return fold(*read(path))


def read(path: Path) -> tuple[Start, list[AnyEvent]]:
    recording = FileRecording(path)
    events = recording.take()
    recording.close()
    return recording.start, events


def device(index: int = 0, *, power_w: float | None = 500.0, serving: bool | None = None) -> GpuReading:
    return GpuReading(index=index, uuid=f"GPU-{index}", power_w=power_w, sm_mhz=1980.0, serving=serving)
