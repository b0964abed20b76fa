"""Fleets of pretended replicas: scrapes that say what a router sent them and how fast they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from vtop.recording import Identity, Outage, Scrape, Start, Target
from vtop.recording.events import FORMAT, Event, HistogramCounts
from vtop.session.session import Session

LE = (0.1,)
OUTPUT = 100  # tokens of a request
PROMPT = 500


@dataclass
class Replica:
    """rate_per_s: of requests; itl_s: between tokens; `side`: of a deployment that divides them."""

    rate_per_s: float = 4.0
    itl_s: float = 0.02
    waiting: float = 0.0
    model: str = "m"
    side: str | None = None
    kind: str = "vllm"
    labels: tuple[tuple[str, str], ...] = ()


def hist(total: float, count: float) -> HistogramCounts:
    return HistogramCounts(sum=total, count=count, n=(int(count), 0))


def start(replicas: Sequence[Replica]) -> Start:
    targets = tuple(Target(url=f"http://r{at}:8000", labels=dict(one.labels)) for at, one in enumerate(replicas))
    return Start(format=FORMAT, vtop="test", unix_s=0.0, servers=targets, interval_s=1.0)


def events(
    replicas: Sequence[Replica], seconds: int, seed: int = 0, down: Callable[[int, int], bool] = lambda _at, _t: False
) -> list[Event]:
    """Scrapes a second apart, requests that come by chance; down: whether a replica does not answer at a second."""
    chance = Random(seed)
    begun = [0.0] * len(replicas)
    spent_s = [0.0] * len(replicas)
    found: list[Event] = []
    for at, one in enumerate(replicas):
        found.append(Identity(t=0.0, server=at, kind=one.kind, models=(one.model,) if one.kind == "vllm" else ()))
    for second in range(seconds):
        for at, one in enumerate(replicas):
            came = sum(chance.random() < one.rate_per_s / 20 for _ in range(20))
            begun[at] += came
            spent_s[at] += came * OUTPUT * one.itl_s * chance.gauss(1.0, 0.03)
            t = second + at / len(replicas)
            if down(at, second):
                found.append(Outage(t=t, server=at, at_s=t, took_s=0.0, reason="refused", detail="refused"))
            elif one.kind != "vllm":
                found.append(Scrape(t=t, server=at, at_s=t, took_s=0.001, full=True, values={}, hists={}, health=200))
            else:
                found.append(scrape(one, at, t, begun[at], spent_s[at]))
    return found


def scrape(one: Replica, server: int, t: float, begun: float, spent_s: float) -> Scrape:
    tokens = begun * (1 if one.side == "prefill" else OUTPUT)
    prompt = begun * PROMPT
    running = one.rate_per_s * OUTPUT * one.itl_s
    return Scrape(
        t=t,
        server=server,
        at_s=t,
        took_s=0.001,
        full=True,
        health=200,
        model=one.model,
        values={
            "vllm:num_requests_running": running,
            "vllm:num_requests_waiting": one.waiting,
            "vllm:kv_cache_usage_perc": min(1.0, 0.5 + one.waiting / 100),
            "vllm:generation_tokens_total": tokens,
            "vllm:prompt_tokens_total": prompt,
            'vllm:prompt_tokens_by_source_total{source="local_compute"}': 0.0 if one.side == "decode" else prompt,
            'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': prompt
            if one.side == "decode"
            else 0.0,
            'vllm:request_success_total{finished_reason="length"}': begun,
        },
        hists={
            "vllm:time_to_first_token_seconds": hist(0.1 * begun, begun),
            "vllm:inter_token_latency_seconds": hist(spent_s, tokens if one.side != "prefill" else 0.0),
            "vllm:request_prefill_time_seconds": hist(spent_s / 10, begun),
            "vllm:request_prompt_tokens": hist(prompt, begun),
            "vllm:request_generation_tokens": hist(tokens, begun),
        },
        le=dict.fromkeys(FAMILIES, LE),
    )


FAMILIES = (
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
)


def session(
    replicas: Sequence[Replica], seconds: int = 75, seed: int = 0, **more: Callable[[int, int], bool]
) -> Session:
    made = Session(start(replicas))
    for event in events(replicas, seconds, seed, **more):
        made.apply(event)
    return made
