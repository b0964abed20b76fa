"""How well a server is being read, in one word and one sentence.

waiting    no scrape yet                    down   it answered before and does not now
unhealthy  /metrics answers, /health does not say 200: the numbers may be those of a dead engine
blind      a scrape without series to read   frozen requests run and no counter has moved for a while
idle       no request runs or waits       busy   requests run or wait, or ran since the scrape before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtop import units
from vtop.metrics.quantity import Quantity
from vtop.recording.vocabulary import OutageReason
from vtop.server_kinds import registry
from vtop.session.frame.servers import ServerPart, Status
from vtop.session.frame.vocabulary import StatusKind
from vtop.session.history.server import ServerHistory

FROZEN_AFTER_S = 5.0  # vLLM's gauges stand still after a mass abort; a long prefill also looks like this

# which server's status speaks for the session, gravest first
GRAVITY: tuple[StatusKind, ...] = ("down", "unhealthy", "blind", "frozen", "waiting", "busy", "idle")
_GONE: tuple[StatusKind, ...] = ("down", "unhealthy", "waiting")  # of these others need not wait

HINTS: dict[OutageReason, str] = {
    "refused": "nothing listens there yet; vtop goes on trying",
    "timeout": "it listens and does not answer",
    "dns": "check the host name",
    "tls": "see --ca-file and --insecure",
    "status": "",
    "parse": f"is this the port of a {registry.readable()} server?",
    "reset": "the connection was cut",
    "size": "the scrape is larger than vtop reads",
    "fault": "",
    "scrape_failed": "",
}


def status(server: ServerHistory, index: int, now_s: float, *, over: bool = False) -> Status:
    """over: nothing more will be recorded, so a server without a scrape or an outage was never asked."""
    scrapes, outages = server.visible(now_s), server.outages_by(now_s)
    latest_scrape_t = server.t[scrapes - 1] if scrapes else None
    latest = server.outages[outages - 1] if outages else None
    failing = latest is not None and (latest_scrape_t is None or latest.t > latest_scrape_t)
    url = server.target.url
    if latest_scrape_t is None:
        if over and not server.t and not server.outages:
            return Status("blind", "no scrape is on record: all numbers are of vtop's own requests", index)
        if latest is None:
            return Status("waiting", f"asking {url} …", index, fresh=False)
        hint = HINTS.get(latest.reason, "")
        why = f"{latest.detail or latest.reason}" + (f" ({hint})" if hint else "")
        return Status("waiting", f"waiting for {url}: try {outages}, {why}", index, fresh=False)
    last = scrapes - 1
    age_s = now_s - server.at_s[last]
    if failing and latest is not None:
        tries = tries_since(server, now_s)
        what = "no scrape" if latest.reason in ("fault", "scrape_failed") else "no answer"
        said = f"{what} for {units.seconds(age_s)}: {latest.detail or latest.reason} (try {tries})"
        return Status("down", said, index, fresh=False)
    if age_s > server.patience_s(last):
        return Status("down", f"no answer for {units.seconds(age_s)}", index, fresh=False)
    if not server.kind_at(now_s).reads:
        return Status("blind", _why_blind(server, last, now_s), index)
    if server.alternates(now_s):
        said = "several processes answer here in turn, so no number is one server's: give each its own --url"
        return Status("blind", said, index)
    health = server.health.at(last)
    if health not in (None, 200):
        word = "no answer" if health == 0 else str(health)
        said = f"/health says {word}: the engine may be dead, these are its last values"
        return Status("unhealthy", said, index, fresh=False)
    if not server.has_own_series(last):
        return Status("blind", _why_blind(server, last, now_s), index)
    return _at_work(server, index, last)


def of_session(servers: Sequence[ServerPart]) -> Status:
    """The status of the session: the gravest; where some of several servers do not answer, that of those that do."""
    watched = [server for server in servers if server.watched]
    gone = [server for server in watched if server.status.kind in _GONE]
    living = [server for server in watched if server.status.kind not in _GONE]
    if not gone or not living:
        return _gravest(watched)
    kinds = {server.status.kind for server in gone}
    word = kinds.pop() if len(kinds) == 1 else "not answering"
    names = _short_names(servers)
    absent = f"{len(gone)} of {len(watched)} {word}: {', '.join(names[server.index] for server in gone)}"
    return replace(_gravest(living), absent=absent)


def _short_names(servers: Sequence[ServerPart]) -> list[str]:
    """host:port of each; of servers on one host only :port."""
    where = [server.url.partition("://")[2].partition("/")[0].rpartition("@")[2] or server.url for server in servers]
    hosts = {name.rpartition(":")[0] for name in where}
    return [f":{name.rpartition(':')[2]}" for name in where] if len(hosts) == 1 and "" not in hosts else where


def _gravest(servers: Sequence[ServerPart]) -> Status:
    if not servers:
        return Status("waiting", "no server to watch", fresh=False)
    if all(server.status.kind == "waiting" for server in servers):
        return servers[0].status
    return min((server.status for server in servers), key=lambda one: GRAVITY.index(one.kind))


def tries_since(server: ServerHistory, now_s: float) -> int:
    """Attempts that failed since the latest scrape."""
    scrapes, outages = server.visible(now_s), server.outages_by(now_s)
    since = server.t[scrapes - 1] if scrapes else -1.0
    return outages - server.outages_by(since)


def _at_work(server: ServerHistory, index: int, last: int) -> Status:
    running = server.value(Quantity.RUNNING, last)
    waiting = server.value(Quantity.WAITING, last)
    moved = server.last_progress(last)
    if not running and not waiting:
        if last > 0 and moved == last:  # short requests, one after another: none runs while the scrape is made
            return Status("busy", "no request runs at this instant, tokens came since the scrape before", index)
        said = "no request runs or waits" if running is not None else "no request since the server started"
        return Status("idle", f"idle: {said}", index)
    still_s = server.at_s[last] - server.at_s[moved if moved is not None else 0]
    if still_s >= FROZEN_AFTER_S:
        said = (
            f"no token for {units.seconds(still_s)} with {units.count(running)} running: "
            "a long prefill, or gauges that froze when all requests were aborted"
        )
        return Status("frozen", said, index, fresh=False)
    used = server.value(Quantity.KV_USED, last)
    said = f"{units.count(running)} running, {units.count(waiting)} waiting"
    return Status("busy", said + (f", KV {units.percent(used)}" if used is not None else ""), index)


def _why_blind(server: ServerHistory, last: int, now_s: float) -> str:
    identity, kind = server.identity(now_s), server.kind_at(now_s)
    if not kind.reads:
        version = f" {identity.version}" if identity is not None and identity.version is not None else ""
        said = f"this is {kind.title}{version}: vtop reads {registry.readable()}"
        return f"{said}; {kind.behind}" if kind.behind else said
    flag = kind.flag_names.no_series
    without = f"with --{flag}" if flag else "without its metrics"
    if identity is not None and identity.version is not None:
        return f"no {kind.title} series on /metrics: the server runs {without}"
    if server.total(Quantity.PROCESS_START) is not None:
        return f"/metrics answers without {kind.title} series: not a {kind.title} server, or one {without}"
    return f"/metrics answers without {kind.title} series: not a {kind.title} server's port?"
