"""One server being watched: asks it for its page once an interval and tells the recording what came back.

Its page tells which kind of server it is, by the names on it; where /metrics has no page, the paths of other kinds are
tried.

Everything happens on a thread of its own, so that neither drawing nor another server's silence delays a tick.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from vtop import faults
from vtop.access import Access
from vtop.metrics.page import Folder, NotMetrics
from vtop.metrics.page_layout import MOST_VALUES, OTHER
from vtop.metrics.series_names import SeriesNames
from vtop.recording.events import Event, Identity, Note, Outage, Scrape, Target
from vtop.server_kinds import registry
from vtop.sources import command, proxy
from vtop.sources.connection import Failure, HttpAnswer, ServerConnection
from vtop.sources.health import Health
from vtop.sources.shape import fits, shape_of

__all__ = ["ServerSource"]

PAGE_LIMIT_BYTES = 32 * 2**20
SMALL_LIMIT_BYTES = 2**20
SMALL_TIMEOUT_S = 2.0  # for all but the page
ASK_AGAIN_S = 60.0  # who answers, when a server was too busy to say
SEVERAL = 3  # slow, or fast, pages in a row that change the pace
SLOWEST = 8  # times the interval
ELSEWHERE = ("status", "parse")  # /metrics may be another path with another kind of server
LONGEST_WAIT_S = 60.0  # for a server that asks for patience, or answers with too much
MOST_LINES = 500_000  # of a scrape, many times what a large server prints
NOT_REACHED = ("refused", "dns", "tls")  # where /health would fail alike


class _Model(msgspec.Struct):
    id: str
    max_model_len: Any = None  # null for a LoRA adapter
    root: Any = None  # where the model lies: a path on the server's host, or a name on a hub


class _Models(msgspec.Struct):
    data: list[_Model]


_Reply = TypeVar("_Reply", dict[str, object], _Models)


class ServerSource:
    """Emits Scrape or Outage per tick, Identity when a server (re)appears, Note when the pace changes.

    clock: seconds since the session's start. wait: sleeps so many seconds, True when the source was stopped.
    health_every_s: how long a good answer of /health stands; 0: it is asked with every page.
    started_by: finds the command that started it, in tens of milliseconds; asked with who answers, not every tick.
    Raises VtopError when `access` cannot be used.
    """

    def __init__(
        self,
        index: int,
        target: Target,
        access: Access,
        append: Callable[[Event], None],
        clock: Callable[[], float],
        *,
        interval_s: float = 1.0,
        timeout_s: float = 10.0,
        wait: Callable[[float], bool] | None = None,
        transport: httpx.BaseTransport | None = None,
        shape: Mapping[str, int | str] | None = None,
        started_by: Callable[[], command.Command | None] = lambda: None,
        health_every_s: float = 0.0,
    ) -> None:
        self._index = index
        self._started_by = started_by
        self._command: command.Command | None = None
        self._given_shape = dict(shape) if shape is not None else None
        self._append = append
        self._clock = clock
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._small_timeout_s = min(SMALL_TIMEOUT_S, timeout_s)
        self._local = target.local
        self._stopped = threading.Event()
        self._writing = threading.RLock()
        self._wait = wait or self._stopped.wait
        self._route = proxy.choose(target, access.proxy)
        self._connection = ServerConnection(target, access, self._route, transport)
        self._beside = ServerConnection(target, access, self._route, transport)  # for a /health that hangs
        self._health = Health(
            partial(self._ask_health, self._connection),
            partial(self._ask_health, self._beside),
            patience_s=self._small_timeout_s,
            name=f"vtop health {index}",
            every_s=health_every_s,
        )
        self._kind = registry.DEFAULT  # as the latest page says
        self._told_kind = registry.DEFAULT.name  # as the recording says
        self._path = registry.DEFAULT.endpoints.metrics  # on which the latest page was found
        self._looked = False  # since then: whether another kind answers on another path
        self._folder = Folder(self._names_of)
        self._known = False  # who answers has been asked since the server was last out of reach
        self._ask_again_s = math.inf
        self._down = False
        self._stride = 1  # ticks from one page to the next
        self._slow = 0
        self._fast = 0
        self._who: tuple[str | None, float | None] | None = None  # model and start of the process, by its scrapes
        self._full_labels: set[str] = set()  # with too many values, as noted
        self._too_large = 0  # answers in a row
        self._patient_why = ""  # as noted
        self._not_before_s = -math.inf  # the server, or the size of its answers, asks for patience

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"vtop server {self._index}", daemon=True).start()

    def stop(self) -> None:
        """No event comes after this. Returns at once, whatever the server does."""
        with self._writing:
            self._stopped.set()
        self._connection.hang_up()
        self._beside.hang_up()

    def once(self) -> bool:
        """Two pages an interval apart, on the calling thread; False when the server gave none."""
        try:
            self._begin()
            started_s = self._clock()
            if not self._tick():
                return False
            self._wait(max(0.0, started_s + self._interval_s - self._clock()))
            self._tick()
            return True
        finally:
            self._close()

    def _run(self) -> None:
        try:
            self._begin()
            first_s, tick = self._clock(), 0
            while not self._stopped.is_set():
                self._tick()
                passed_s = self._clock() - first_s
                tick = max(tick + self._stride, math.ceil(passed_s / self._interval_s))  # missed ticks are skipped
                if self._not_before_s > first_s + tick * self._interval_s:
                    tick = math.ceil((self._not_before_s - first_s) / self._interval_s)
                if self._wait(max(0.0, tick * self._interval_s - passed_s)):
                    break
        finally:
            self._close()

    def _close(self) -> None:
        self._connection.close()
        self._beside.hang_up()
        self._health.wait(0.5)
        self._beside.close()

    def _begin(self) -> None:
        if self._route.trouble is not None:
            self._note(self._route.trouble)

    def _tick(self) -> bool:
        """One scrape; whatever goes wrong in it, the next tick tries again."""
        at_s = self._clock()
        try:
            return self._ask(at_s)
        except Exception as error:
            self._folder = Folder(self._names_of)  # what it holds may be what it failed at
            self._down = True
            said = faults.put_down(error, "reading what the server answered")
            self._say(Outage(server=self._index, at_s=at_s, took_s=self._clock() - at_s, reason="fault", detail=said))
            return False

    def _ask(self, at_s: float) -> bool:
        try:
            scrape = self._scrape(at_s)
        except Failure as failure:
            self._fail(failure, at_s, self._clock() - at_s)
            return False
        self._too_large = 0
        busy_s = self._clock() - at_s  # reading it counts as well
        health = self._health.status() if self._kind.endpoints.health is not None else None
        if self._kind.name != self._told_kind:  # before the scrape, which is read by it
            self._identify()
            self._down = False
        self._say(msgspec.structs.replace(scrape, health=health))
        for label in self._folder.values.full - self._full_labels:
            self._full_labels.add(label)
            self._note(f"/metrics: {label} has more than {MOST_VALUES} values; the rest is taken together as {OTHER}")
        self._pace(busy_s)
        if self._down or not self._known or at_s >= self._ask_again_s or (scrape.full and self._another(scrape)):
            self._identify()
        self._down = False
        return True

    def _names_of(self, names: Iterable[str]) -> SeriesNames:
        """What the server calls its series: it stays what it was while its page has nobody's."""
        self._kind = registry.recognised(names) or self._kind
        return self._kind.series

    def _scrape(self, at_s: float) -> Scrape:
        try:
            return self._page(self._path, at_s)
        except Failure as failure:
            if failure.reason not in ELSEWHERE or self._looked:
                raise
            self._looked = True
            for path in registry.metrics_paths():
                if path != self._path:
                    with contextlib.suppress(Failure):
                        return self._page(path, self._clock())
            raise

    def _page(self, path: str, at_s: float) -> Scrape:
        page = self._connection.get(path, timeout_s=self._timeout_s, limit_bytes=PAGE_LIMIT_BYTES)
        took_s = self._clock() - at_s
        if page.status != 200:
            if page.retry_after_s is not None:
                self._be_patient(page.retry_after_s, "the server asks for it (Retry-After)")
            raise Failure("status", self._refusal(path, page))
        if page.body.count(b"\n") > MOST_LINES:
            raise Failure("size", f"{path}: more than {MOST_LINES:,} lines, not read")
        try:
            scrape = self._folder.scrape(
                page.body.decode("utf-8", "replace"),
                server=self._index,
                at_s=at_s,
                took_s=took_s,
                bytes=len(page.body),
                health=None,
            )
        except NotMetrics as error:
            raise Failure("parse", self._connection.clean(f"{path}: {error}")) from None
        self._path, self._looked = path, False
        return scrape

    def _fail(self, failure: Failure, at_s: float, took_s: float) -> None:
        self._folder.forget()
        self._down = True
        if failure.reason == "size":
            self._too_large += 1
            wait_s = min(LONGEST_WAIT_S, self._interval_s * 2.0**self._too_large)
            self._be_patient(wait_s, "its answer is too large to be read each time")
        detail = failure.detail
        reached = False
        if failure.reason not in NOT_REACHED and not self._stopped.is_set():
            health = self._health.status() if self._kind.endpoints.health is not None else None
            reached = health not in (None, 0)
            detail += f"; /health: {health or ('no answer' if health == 0 else 'no answer yet')}"
        if self._route.shown:
            detail += f" (via proxy {self._route.shown})"
        self._say(Outage(server=self._index, at_s=at_s, took_s=took_s, reason=failure.reason, detail=detail))
        if not reached:
            self._known = False
        elif not self._known:
            self._identify()  # /v1 may work where /metrics does not

    def _ask_health(self, connection: ServerConnection, timeout_s: float) -> int:
        path = self._kind.endpoints.health or "/health"
        return connection.get(path, timeout_s=timeout_s, limit_bytes=SMALL_LIMIT_BYTES).status

    def _be_patient(self, wait_s: float, why: str) -> None:
        """Ask /metrics no sooner than in so many seconds, and say so where that is longer than the interval."""
        wait_s = min(wait_s, LONGEST_WAIT_S)
        self._not_before_s = self._clock() + wait_s
        if wait_s > self._interval_s and why != self._patient_why:
            self._patient_why = why
            self._note(f"/metrics is asked less often: {why}")

    def _small(self, path: str) -> HttpAnswer:
        return self._connection.get(path, timeout_s=self._small_timeout_s, limit_bytes=SMALL_LIMIT_BYTES)

    def _another(self, scrape: Scrape) -> bool:
        """Whether another process answers: one that came back between two pages had no outage."""
        who, self._who = self._who, (scrape.model, scrape.values.get("process_start_time_seconds"))
        if who is not None and who != self._who:
            return True
        return self._command is not None and not command.runs(self._command)

    def _identify(self) -> None:
        self._known = True
        self._command = started = self._started_by()
        self._ask_again_s = math.inf
        troubles: list[str] = []
        paths = self._kind.endpoints
        about = self._reply(paths.version, dict[str, object], troubles) if paths.version is not None else None
        version = about.get(paths.version_field) if about is not None else None
        if about is not None and not isinstance(version, str):
            troubles.append(f"{paths.version}: not the JSON that was expected")
            version = None
        models = self._reply(paths.models, _Models, troubles) if paths.models is not None else None
        rows = models.data if models else []
        self._told_kind = self._kind.name
        self._say(
            Identity(
                server=self._index,
                kind=self._kind.name,
                version=self._connection.clean(version) if isinstance(version, str) else None,
                models=tuple(self._connection.clean(row.id, 300) for row in rows),
                max_model_len=next((row.max_model_len for row in rows if _length(row.max_model_len)), None),
                shape=self._shape(rows),
                note="; ".join(troubles) or None,
                command=started.name if started is not None else None,
                flags=started.flags if started is not None else None,
            )
        )

    def _shape(self, models: list[_Model]) -> dict[str, int | str] | None:
        """The model's shape, where the server runs on this host from a folder vtop may read; else the one given."""
        given = (model.root for model in models if model.max_model_len is not None)
        roots = [Path(root) for root in given if isinstance(root, str) and root and "\0" not in root]
        own = shape_of(roots[0] / "config.json") if self._local and roots and roots[0].is_absolute() else None
        return own if own is not None else self._given_shape

    def _reply(self, path: str, shape: type[_Reply], troubles: list[str]) -> _Reply | None:
        try:
            answer = self._small(path)
            if answer.status == 200:
                return msgspec.json.decode(answer.body, type=shape)
            troubles.append(self._refusal(path, answer))
            passing = answer.status >= 500
        except Failure as failure:
            troubles.append(failure.detail)
            passing = True
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            troubles.append(f"{path}: not the JSON that was expected")
            passing = False
        if passing:
            self._ask_again_s = self._clock() + ASK_AGAIN_S
        return None

    def _refusal(self, path: str, answer: HttpAnswer) -> str:
        """A status other than 200, with what the server or vtop has to say about it."""
        if answer.status == 401:
            given = self._connection.shows_who_asks
            why = "the key given is not accepted" if given else "an API key is needed: --api-key or VTOP_API_KEY"
            return f"{path}: 401 ({why})"
        lines = answer.body[:4096].decode("utf-8", "replace").strip().splitlines()
        said = self._connection.clean(lines[0] if lines else answer.phrase)
        return f"{path}: {answer.status} {said}".rstrip()

    def _pace(self, took_s: float) -> None:
        """Ask less often while a page takes the server more than half the time between two."""
        slow = took_s > self._interval_s * self._stride / 2
        fast = took_s <= self._interval_s / 2
        self._slow = self._slow + 1 if slow else 0
        self._fast = self._fast + 1 if fast else 0
        if self._slow >= SEVERAL and self._stride < SLOWEST:
            self._stride *= 2
            self._slow = 0
            every_s = self._stride * self._interval_s
            self._note(f"/metrics takes {took_s:.1f} s: from now on asked every {every_s:g} s")
        elif self._fast >= SEVERAL and self._stride > 1:
            self._stride = 1
            self._note(f"/metrics is fast again: asked every {self._interval_s:g} s")

    def _note(self, text: str) -> None:
        self._say(Note(source="server", server=self._index, text=text))

    def _say(self, event: Event) -> None:
        with self._writing:
            if not self._stopped.is_set():
                self._append(event)


def _length(said: Any) -> bool:
    """Whether it can be a number of tokens."""
    return isinstance(said, int) and not isinstance(said, bool) and fits(said) and said > 0
