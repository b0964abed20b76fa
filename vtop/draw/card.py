"""How a server stands in ten lines of plain text, to be pasted into a message."""

from __future__ import annotations

from datetime import UTC, datetime

from vtop import units
from vtop.draw.grid import range_text
from vtop.draw.theme import clean
from vtop.session.bottleneck.verdict import TITLES
from vtop.session.frame.frame import Frame

NAMES = ("TTFT", "ITL", "e2e")  # of the latencies, those a card has


def card(frame: Frame, recording: str | None = None) -> list[str]:
    """Ten lines: who, what binds, what to try, the load, KV, tokens, three latencies, when and of what."""
    models = ", ".join(dict.fromkeys(model for server in frame.servers for model in server.models)) or "no model known"
    versions = ", ".join(dict.fromkeys(server.version for server in frame.servers if server.version)) or units.UNKNOWN
    verdict, running, waiting = frame.verdict, frame.requests.running, frame.requests.waiting
    latencies = {one.name: one for one in frame.latencies}
    at = datetime.fromtimestamp(frame.unix_s, UTC)
    where = frame.servers[0].url if len(frame.servers) == 1 else f"{len(frame.servers)} servers"
    shown = [
        f"{models} · {where} · {versions}",
        " · ".join((TITLES[verdict.limit], *verdict.evidence)) if frame.status.fresh else frame.status.sentence,
        f"try {verdict.flag}" + (f": {verdict.why}" if verdict.why else "") if verdict.flag else "nothing to try",
        f"running {units.count(running.now)} (median {units.count(running.median)}) · waiting "
        f"{units.count(waiting.now)} (median {units.count(waiting.median)}) · finished "
        f"{units.number(frame.requests.finished.per_s)} /s · preempted {units.count(frame.preemption.count.in_window)}",
        f"KV used {units.percent(frame.kv.used.now)} (median {units.percent(frame.kv.used.median)}) of "
        f"{units.count(frame.kv.pool_tokens)} tok",
        f"tokens out {units.number(frame.generation_tokens.per_s)} /s · "
        f"in {units.number(frame.prompt_tokens.per_s)} /s",
    ]
    for name in NAMES:
        if (one := latencies.get(name)) is None:
            shown.append(f"{name} {units.UNKNOWN}")
        else:
            spread = f"p50 {range_text(one.p50)} · p99 {range_text(one.p99)}"
            shown.append(f"{name} mean {units.seconds(one.mean_s)} · {spread} · n {units.count(one.n)}")
    of = f" of {recording}" if recording is not None else ""
    shown.append(f"{at:%Y-%m-%d %H:%M:%S} UTC, at {units.clock(frame.now_s)}{of}, last {units.span(frame.window_s)}")
    return [clean(line) for line in shown]
