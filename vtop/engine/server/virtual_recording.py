"""A recording of a simulated server under a closed loop of load, made on virtual time: the same bytes every time.

Pages and requests stand in it as if vtop had watched and loaded the server; only no time passes while it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import msgspec

from vtop import __version__
from vtop.engine.core.model_shape import numbers
from vtop.engine.server.metric_families import SIMULATED
from vtop.engine.server.request_parsing import ParsedRequest
from vtop.engine.server.simulated import Served, Settings, SimulatedServer
from vtop.metrics.page import Folder
from vtop.recording import Identity, LiveRecording, Load, Request, Start, Target
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names

ORIGIN: Final = "simulated"
URL: Final = "http://simulated"
INTERVAL_S: Final = 1.0
APART_S: Final = 1e-3  # between the first requests


@dataclass(slots=True)
class _Client:
    """One of so many in flight: its request, and when its tokens came."""

    id: int
    served: Served
    sent_s: float
    at_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    ended: bool = False

    def look(self, now_s: float) -> bool:
        """Take what has come; True when it is all."""
        stream = self.served.choices[0].stream
        if new := stream.take():
            self.at_s.append(now_s)
            self.tokens.append(new)
        self.ended = stream.finished
        return self.ended

    def line(self, end_s: float | None, asked: ParsedRequest) -> Request:
        begun = Request(
            id=self.id,
            phase=0,
            sent_s=self.sent_s,
            first_s=self.at_s[0] if self.at_s else None,
            status=200,
            asked_prompt_tokens=len(asked.prompts[0]),
            asked_output_tokens=asked.max_tokens,
        )
        if end_s is None:
            return begun
        return msgspec.structs.replace(
            begun,
            end_s=end_s,
            last_s=self.at_s[-1],
            gaps_us=tuple(round((b - a) * 1e6) for a, b in pairwise(self.at_s)),
            chunks=len(self.at_s),
            prompt_tokens=len(asked.prompts[0]),
            output_tokens=sum(self.tokens),
            tokens_from="ids",
            finish="length",
        )


def tape(
    settings: Settings,
    asked: ParsedRequest,
    concurrency: int,
    for_s: float,
    *,
    unix_s: float = 0.0,
    arrivals_s: Sequence[float] | None = None,
) -> LiveRecording:
    """So many seconds of a server with so many of these requests in flight, or with one sent at each of some instants.
    unix_s: when it begins.

    Raises VtopError for settings that vLLM would refuse, Refusal for a request that the server does not take.
    """

    def process(born_unix_s: float) -> Iterator[str]:
        yield f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {born_unix_s!r}"

    server = SimulatedServer(settings, unix_s, process)
    now_s = 0.0
    start = Start(
        format=FORMAT,
        vtop=__version__,
        unix_s=unix_s,
        servers=(Target(url=URL),),
        interval_s=INTERVAL_S,
        origin=ORIGIN,
    )
    recording = LiveRecording(start, lambda: now_s)
    folder = Folder(series_names)
    recording.append(
        Identity(
            server=0,
            version=SIMULATED,
            models=(settings.model,),
            max_model_len=settings.flags.max_model_len,
            shape=numbers(server.shape),
        )
    )
    recording.append(_begin(asked, concurrency if arrivals_s is None else None, for_s, arrivals_s or ()))
    clients: list[_Client] = []
    page_s = 0.0
    sends = list(arrivals_s) if arrivals_s is not None else [number * APART_S for number in range(concurrency)]
    while now_s < for_s:
        now_s = min(server.next_s(), page_s, sends[0] if sends else for_s, for_s)
        server.go_to(now_s)
        if now_s >= page_s:
            text = server.page(now_s)
            recording.append(folder.scrape(text, server=0, at_s=now_s, took_s=0.0, bytes=len(text), health=200))
            page_s += INTERVAL_S
        for place, client in enumerate(list(clients)):
            first = not client.at_s
            if client.look(now_s):
                recording.append(client.line(now_s, asked))
                if arrivals_s is None:
                    clients[place] = _send(server, recording, asked, now_s)
            elif first and client.at_s:
                recording.append(client.line(None, asked))
        if sends and now_s >= sends[0]:
            sends.pop(0)
            clients.append(_send(server, recording, asked, now_s))
        clients = [client for client in clients if not client.ended]
    return recording


def _send(server: SimulatedServer, recording: LiveRecording, asked: ParsedRequest, now_s: float) -> _Client:
    client = _Client(server.requests, server.submit(asked, now_s), now_s)
    recording.append(client.line(None, asked))
    return client


def _begin(asked: ParsedRequest, concurrency: int | None, for_s: float, arrivals_s: Sequence[float]) -> Load:
    prompt, output = len(asked.prompts[0]), asked.max_tokens or 0
    rate_per_s = None if concurrency is not None else len(arrivals_s) / for_s
    much = f"c={concurrency}" if rate_per_s is None else f"rate={rate_per_s:g}"
    return Load(
        phase=0,
        state="begin",
        spec=f"{much} in={prompt} out={output}",
        shape="closed" if rate_per_s is None else "open",
        concurrency=concurrency,
        rate_per_s=rate_per_s,
        input_tokens=(prompt, prompt),
        output_tokens=(output, output),
    )
