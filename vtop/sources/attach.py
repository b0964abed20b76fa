"""A session begins: servers and GPUs being watched, and the recording that holds what they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from vtop import __version__
from vtop.access import Access, socket_path
from vtop.recording import Identity, LiveRecording, Note, Start, Target, TargetChange
from vtop.recording.events import FORMAT, Event
from vtop.sources import command
from vtop.sources.gpu import GpuSource
from vtop.sources.host import HostSource
from vtop.sources.processes import pids_listening
from vtop.sources.server import ServerSource
from vtop.sources.target_list import TargetList

FEW = 32  # servers
HEALTH_EVERY_S = 5.0  # that a good answer of /health stands, of more servers
# options whose value no recording may hold
SECRET_OPTIONS = ("--api-key", "--header", "-H")


class Attachment:
    """The sources of a live session and their recording, started and stopped together."""

    def __init__(
        self,
        targets: Sequence[Target],
        access: Sequence[Access],
        *,
        interval_s: float = 1.0,
        gpus: bool = True,
        path: Path | None = None,
        argv: Sequence[str] = (),
        watch: bool = True,
        shape: Mapping[str, int | str] | None = None,
        origin: str | None = None,
        filed: bool = True,
    ) -> None:
        """watch: False for a session that holds only what vtop itself does, such as its load. shape: of the model, for
        servers whose own config.json cannot be read. origin: what they are, where they are no real ones. filed: as of
        LiveRecording.

        Raises VtopError; then `path` has not been made.
        """
        self.began_s = time.monotonic()
        start = Start(
            format=FORMAT,
            vtop=__version__,
            unix_s=time.time(),
            servers=tuple(targets),
            interval_s=interval_s,
            argv=struck_out(argv),
            origin=origin,
        )
        self._interval_s, self._shape = interval_s, shape
        self._health_every_s = 0.0 if len(targets) <= FEW else HEALTH_EVERY_S
        self._index = {target.url: index for index, target in enumerate(targets)}
        self._left: set[str] = set()  # that were watched
        self._list: TargetList | None = None
        self.servers = [
            self._source(index, target, own)
            for index, (target, own) in enumerate(zip(targets, access, strict=True))
            if watch
        ]
        secrets = sorted({word for one in access for word in one.recognisable}, key=len, reverse=True)
        self.recording = LiveRecording(start, self.clock, path, secrets, filed=filed)  # the last that may fail
        self.host = HostSource(self._append, self.clock)
        self.gpus: GpuSource | None = None
        local = [target for target in targets if target.local]
        if not watch:
            return
        if gpus and local:
            ports = [port for target in local if (port := port_of(target)) is not None]
            self.gpus = GpuSource(
                self._append,
                self.clock,
                interval_s,
                lambda: frozenset().union(*(pids_listening(port) for port in ports)),
            )
        elif gpus:
            text = "the server is on another host: this host's GPUs are not its own, and are left alone"
            self.recording.append(Note(source="gpu", text=text))
        else:
            why = "GPU not asked (--no-gpu)" if origin is None else "no GPU: the server is simulated"
            self.recording.append(Note(source="gpu", text=why))

    def _source(self, index: int, target: Target, access: Access) -> ServerSource:
        port = port_of(target) if target.local else None
        return ServerSource(
            index,
            target,
            access,
            self._append,
            self.clock,
            interval_s=self._interval_s,
            shape=self._shape,
            health_every_s=self._health_every_s,
            started_by=partial(command.on_port, port) if port is not None else lambda: None,
        )

    def follow(self, file: Path, read: Callable[[], tuple[Sequence[Target], Sequence[Access]]]) -> None:
        """Watch from now on what a list in a file says, whenever that changes. read: all that is to be watched."""
        self._list = TargetList(file, lambda: self.change(*read()), self._say)

    def change(self, targets: Sequence[Target], access: Sequence[Access]) -> None:
        """Watch these servers and no others. A server that comes back has the number it had."""
        wanted = dict(zip((target.url for target in targets), zip(targets, access, strict=True), strict=True))
        for url, index in list(self._index.items()):
            if url not in wanted and url not in self._left:
                self._left.add(url)
                self.servers[index].stop()
                self.recording.append(TargetChange(server=index))
        for url, (target, own) in wanted.items():
            if url in self._index and url not in self._left:
                continue
            self._left.discard(url)
            index = self._index.setdefault(url, len(self._index))
            self.recording.hide(own.recognisable)
            source = self._source(index, target, own)
            self.servers[index : index + 1] = [source]
            self.recording.append(TargetChange(server=index, target=target))
            source.start()

    def _say(self, text: str) -> None:
        self.recording.append(Note(source="vtop", text=text))

    def _append(self, event: Event) -> None:
        self.recording.append(event)
        if isinstance(event, Identity) and self.gpus is not None:
            self.gpus.look_again()

    def clock(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self.began_s

    def start(self) -> None:
        self.host.start()
        if self._list is not None:
            self._list.start()
        for source in self.servers:
            source.start()
        if self.gpus is not None:
            self.gpus.start()

    def once(self) -> bool:
        """Two pages of each server on the calling thread; True when every server answered."""
        if self.gpus is not None:
            self.gpus.once()
        answered = [source.once() for source in self.servers]
        if self.gpus is not None:
            self.gpus.once()
        return all(answered)

    def stop(self, reason: str) -> None:
        self.host.stop()
        if self._list is not None:
            self._list.stop()
        for source in self.servers:
            source.stop()
        if self.gpus is not None:
            self.gpus.stop()
        self.recording.close(reason)


def port_of(target: Target) -> int | None:
    """None of a Unix socket."""
    if socket_path(target.url) is not None:
        return None
    parts = urlsplit(target.url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def struck_out(argv: Sequence[str]) -> tuple[str, ...]:
    """The command line without its secrets: values of key and header options, credentials in URLs."""
    words: list[str] = []
    secret = False
    for word in argv:
        option = word[:2] if word.startswith("-H") else word.partition("=")[0]  # -H 'NAME: VALUE' may be one word
        if secret:
            words.append("…")
            secret = False
        elif option in SECRET_OPTIONS:
            secret = word == option
            words += [option] if secret else [option, "…"]
        elif "@" in word:
            scheme, found, rest = word.rpartition("://")
            words.append(f"{scheme}{found}…@{rest.rpartition('@')[2]}")
        else:
            words.append(word)
    return tuple(words)
