"""A session begins: servers and GPUs being watched, and the recording that holds what they do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from vtop import __version__
from vtop.access import Access, socket_path
from vtop.recording import Identity, LiveRecording, Note, Start, Target
from vtop.recording.events import FORMAT, Event
from vtop.sources import command
from vtop.sources.gpu import GpuSource
from vtop.sources.host import HostSource
from vtop.sources.processes import pids_listening
from vtop.sources.server import ServerSource

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
    ) -> None:
        """watch: False for a session that holds only what vtop itself does, such as its load. shape: of the model, for
        servers whose own config.json cannot be read. origin: what they are, where they are no real ones.

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
        self.servers = [
            ServerSource(
                index,
                target,
                own,
                self._append,
                self.clock,
                interval_s=interval_s,
                shape=shape,
                health_every_s=0.0 if len(targets) <= FEW else HEALTH_EVERY_S,
                started_by=partial(command.on_port, port)
                if target.local and (port := port_of(target)) is not None
                else lambda: None,
            )
            for index, (target, own) in enumerate(zip(targets, access, strict=True))
            if watch
        ]
        secrets = sorted({word for one in access for word in one.recognisable}, key=len, reverse=True)
        self.recording = LiveRecording(start, self.clock, path, secrets)  # the last that may fail
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

    def _append(self, event: Event) -> None:
        self.recording.append(event)
        if isinstance(event, Identity) and self.gpus is not None:
            self.gpus.look_again()

    def clock(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self.began_s

    def start(self) -> None:
        self.host.start()
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
