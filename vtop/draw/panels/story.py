"""Who is looked at and how that stands: the header, the sentence that matters most, and what happened."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.draw.panels.flow import fits
from vtop.draw.text import Line, Phrase, Piece, blank, fitting, line, padded, phrases, width_of
from vtop.draw.theme import Look
from vtop.server_kinds import registry
from vtop.session.bottleneck.verdict import TITLES
from vtop.session.frame.charts import LoggedEvent
from vtop.session.frame.frame import Frame
from vtop.session.frame.vocabulary import LoggedKind, StatusKind, VerdictLimit

# Kind of status -> sign, role. Red is for what needs a hand now.
STATES: Final[dict[StatusKind, tuple[str, str]]] = {
    "waiting": ("waiting", "warn"),
    "down": ("down", "bad"),
    "unhealthy": ("unhealthy", "bad"),
    "blind": ("blind", "warn"),
    "frozen": ("frozen", "bad"),
    "idle": ("idle", "dim"),
    "busy": ("busy", "good"),
}
# Of a verdict: what needs a hand is warn, red what needs it now.
_VERDICTS: Final[dict[VerdictLimit, str]] = {
    "none": "good",
    "idle": "dim",
    "waiting": "dim",
    "unknown": "dim",
    "stuck": "bad",
    "stale": "bad",
}
EVENT_ROLES: Final[dict[LoggedKind, str]] = {
    "start": "dim",
    "restart": "warn",
    "flags": "warn",
    "outage": "bad",
    "back": "good",
    "unhealthy": "bad",
    "preemption": "preemption",
    "mark": "mark",
    "note": "dim",
    "end": "dim",
}
_WORDS: Final[dict[LoggedKind, str]] = {"start": "attached ·"}


def header(frame: Frame, width: int, height: int, look: Look, state: str = "") -> list[Line]:
    """Who it is; at the right `state` (● rec 2:31, ‖ paused) and the age of the data."""
    return (
        [_identity(frame, width, look, state)]
        + ([_details(frame, width, look)] if height > 1 else [])
        + [blank(look, width) for _ in range(height - 2)]
    )


def _identity(frame: Frame, width: int, look: Look, state: str) -> Line:
    shown = [Phrase(0, ((_who(frame), "title"),))]
    if versions := _versions(frame):
        shown.append(Phrase(3, ((versions, "text"),)))
    if engines := sum(server.engines for server in frame.servers):
        shown.append(Phrase(6, ((f"{engines} engine" + ("s" if engines != 1 else ""), "dim"),)))
    cache = frame.kv
    if cache.pool_tokens is not None:
        size = () if cache.pool_bytes is None else ((f" {units.bytes_(cache.pool_bytes)}", "dim"),)
        shown.append(Phrase(4, (("KV ", "dim"), (f"{units.count(cache.pool_tokens)} tok", "text"), *size)))
    if cache.max_concurrency is not None:
        shown.append(Phrase(7, (("fits ", "dim"), (fits(frame), "text"))))
    if limits := _limits(frame):
        shown.append(Phrase(5, limits))
    ups = [server.uptime_s for server in frame.servers if server.uptime_s is not None]
    if ups:
        shown.append(Phrase(9, (("up ", "dim"), (units.uptime(min(ups)), "text"))))
    if gpu := _gpu(frame):
        shown.append(Phrase(8, ((gpu, "dim"),)))
    right = [Phrase(1, ((state, "mark"),))] if state else []
    right.append(Phrase(2, (_age(frame),)))
    return phrases(look, width, shown, right)


def _versions(frame: Frame) -> str:
    """Each kind of server with its versions: vLLM 0.26.0."""
    found: dict[str, set[str]] = {}
    for server in frame.servers:
        if server.version is not None:
            found.setdefault(registry.of(server.kind).title, set()).add(server.version)
    return ", ".join(f"{title} {', '.join(sorted(versions))}" for title, versions in found.items())


def _limits(frame: Frame) -> tuple[Piece, ...]:
    """Seats and token budget of an engine, where all servers have the same and both are known."""
    known = {
        (one.started.max_num_seqs, one.started.max_num_batched_tokens) if one.started is not None else (None, None)
        for one in frame.servers
    }
    limit, budget = known.pop() if len(known) == 1 else (None, None)
    said: list[Piece] = []
    if limit is not None:
        said += [("max-num-seqs ", "dim"), (units.count(limit), "text")]
    if budget is not None:
        said += [(" · " if said else "", "dim"), (f"{units.count(budget)} tok a step", "dim")]
    return tuple(said)


def _who(frame: Frame) -> str:
    models = list(dict.fromkeys(model for server in frame.servers for model in server.models))
    urls = [server.url.removeprefix("http://") for server in frame.servers]
    name = ", ".join(models[:2]) + (f" and {len(models) - 2} more" if len(models) > 2 else "")
    name = name or (urls[0] if len(urls) == 1 else registry.DEFAULT.title)
    return f"{len(urls)} servers · {name}" if len(urls) > 1 else name


def _age(frame: Frame) -> Piece:
    ages = [server.age_s for server in frame.servers if server.age_s is not None]
    if not ages:
        return ("no data yet", "warn")
    at = frame.status.server
    worst = frame.servers[at].age_s if at < len(frame.servers) and frame.servers[at].age_s is not None else max(ages)
    text = padded(units.ago(worst), 9, right=True)
    if frame.status.fresh:
        return (text, "dim")
    return (f"stale {text.strip()}" if frame.status.kind == "down" else f"scrape {text.strip()}", "warn")


def _gpu(frame: Frame) -> str:
    """The GPUs' name, when they may be the server's: 8 × NVIDIA H200."""
    devices = [device for device in frame.gpus.devices if device.serving] or list(frame.gpus.devices)
    names = {device.name for device in devices if device.name is not None}
    if not frame.gpus.local or len(names) != 1:
        return ""
    return names.pop() if len(devices) == 1 else f"{len(devices)} × {names.pop()}"


def _details(frame: Frame, width: int, look: Look) -> Line:
    shown = [Phrase(0, ((", ".join(server.url for server in frame.servers), "dim"),))]
    shown.append(Phrase(1, ((f"window {units.span(frame.window_s)}", "dim"),)))
    shown.append(Phrase(2, ((f"a scrape every {units.seconds(frame.interval_s)}", "dim"),)))
    if frame.origin is not None:
        shown.append(Phrase(1, ((frame.origin, "dim"),)))
    return phrases(look, width, shown)


def status(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """The one thing to know: a sign, which limit binds, and its evidence; and a flag to try where there is room."""
    sign, role = STATES.get(frame.status.kind, ("note", "dim"))
    found = frame.verdict
    role = verdict_role(found.limit) if frame.status.fresh else role
    head = (f"{look.glyphs.signs[sign]} {TITLES[found.limit]}  ", role)
    shown = [Phrase(at, ((text, "text"),)) for at, text in enumerate(found.evidence)]
    if found.flag is not None:
        shown.append(Phrase(len(shown), (("try ", "dim"), (found.flag, "mark"))))
    first = line(look, width, head, *fitting(look, width - width_of(head[0]), shown))
    return [first] + [blank(look, width)] * (height - 1)


def verdict_role(limit: VerdictLimit) -> str:
    return _VERDICTS.get(limit, "warn")


def events(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """What happened, the newest on top: session time, sign, word, text."""
    latest = frame.event_log[: -height - 1 : -1]
    lines = [_event(logged, width, look) for logged in latest]
    if frame.status.kind == "waiting" and frame.origin is None:  # a newcomer may have no server at all
        offer = line(
            look, width, ("no server at hand? ", "dim"), ("vtop demo", "mark"), (" brings a simulated one", "dim")
        )
        lines = [offer, *lines[: height - 1]]
    if not lines:
        lines = [line(look, width, ("nothing happened yet", "dim"))]
    return lines + [blank(look, width)] * (height - len(lines))


def _event(logged: LoggedEvent, width: int, look: Look) -> Line:
    role = EVENT_ROLES.get(logged.kind, "dim")
    sign = look.glyphs.signs.get(logged.kind, look.glyphs.signs["note"])
    word = "" if logged.text.startswith(logged.kind[:7]) else f"{_WORDS.get(logged.kind, logged.kind)} "
    return line(
        look, width, (f"{units.clock(logged.at_s):>7} ", "dim"), (f"{sign} {word}", role), (logged.text, "text")
    )
