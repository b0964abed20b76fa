"""The first line: who is looked at; at its right end what the screen does and how old the data are."""

from __future__ import annotations

from vtop import units
from vtop.draw.panels.kv import fits
from vtop.draw.text import Line, Phrase, Piece, blank, padded, phrases, shorten, width_of
from vtop.draw.theme import Look
from vtop.server_kinds import registry
from vtop.session.frame.frame import Frame
from vtop.session.frame.gpus import counted_of


def header(frame: Frame, width: int, height: int, look: Look, state: str = "") -> list[Line]:
    """Who it is; at the right `state` (● rec 2:31, ‖ paused) and the age of the data."""
    return (
        [_identity(frame, width, look, state)]
        + ([_details(frame, width, look)] if height > 1 else [])
        + [blank(look, width) for _ in range(height - 2)]
    )


def _identity(frame: Frame, width: int, look: Look, state: str) -> Line:
    right = [Phrase(0, ((state, "mark"),))] if state else []
    right.append(Phrase(0, (_age(frame),)))
    taken = sum(width_of(look.say(text)) for one in right for text, _ in one.pieces) + 2 * len(right)
    shown = [Phrase(1, ((_shorter(_who(frame), max(8, width - taken), look), "title"),))]
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
    return phrases(look, width, shown, right)


def _shorter(who: str, room: int, look: Look) -> str:
    """A name that has room. vLLM's default name is the model's path: of one its end says most."""
    who, more = look.say(who), look.glyphs.ellipsis
    while width_of(who) > room and "/" in who.removeprefix(more).strip("/"):
        who = f"{more}/{who.removeprefix(more).lstrip('/').partition('/')[2]}"
    return shorten(who, room, more)


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
        said += [(" · " if said else "", "dim"), (f"{units.count(budget)} tok per step", "dim")]
    return tuple(said)


def _who(frame: Frame) -> str:
    watched = [server for server in frame.servers if server.watched]
    models = list(dict.fromkeys(model for server in watched for model in server.models))
    urls = [server.url.removeprefix("http://") for server in watched]
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
    devices = counted_of(frame.gpus.devices)
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
