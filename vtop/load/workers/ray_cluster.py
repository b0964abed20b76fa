"""Workers of a load on the hosts of a Ray cluster that runs already: each is kept by an actor, spread over the hosts.

Ray is an extra: nothing else in vtop imports it.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from vtop import __version__
from vtop.access import socket_path
from vtop.errors import VtopError
from vtop.load.workers.clock_offset import measured
from vtop.load.workers.link import HostClock
from vtop.load.workers.protocol import Setup, files_of, with_files_at
from vtop.load.workers.relay import About, Relay, machine

START_S = 60.0  # for the actors to be placed and to have started their workers
PATIENCE_S = 5.0  # before that is said to take long
CALL_S = 10.0  # for an answer of an actor
REACH_S = 5.0  # for the cluster's port to answer


class _RayRelay(Relay):
    """A relay that is an actor."""

    def node(self) -> str:
        import ray

        return str(ray.get_runtime_context().get_node_id())


class RayLink:
    """The way to one of them. Ray tells when its actor is gone, with its host or without."""

    def __init__(self, actor: Any, host: int, *, where: str, about: About, files: Callable[[Setup], Any]) -> None:
        self.actor = actor
        self.host = host
        self.pid = about.pid
        self._where = where
        self._files = files
        self._orders = count()
        self._ended = threading.Event()
        self._cut: str | None = None  # why nothing is heard of it any more

    def set_up(self, setup: Setup) -> None:
        import ray

        places = {}
        if files := self._files(setup):
            try:
                places = ray.get(self.actor.keep.remote(files), timeout=START_S)
            except ray.exceptions.RayError as error:
                raise VtopError(f"a file of the load did not reach {self._where}: {type(error).__name__}") from None
        self.tell(msgspec.json.encode(with_files_at(setup, places)))

    def tell(self, line: bytes) -> None:
        with contextlib.suppress(Exception):  # it is gone; `lines` says so
            self.actor.tell.remote(next(self._orders), line)

    def lines(self) -> Iterator[bytes]:
        import ray

        try:
            while (said := ray.get(self.actor.hear.remote())) is not None:
                yield from said.splitlines(keepends=True)
        except ray.exceptions.RayError as error:
            self._cut = type(error).__name__
        finally:
            self._ended.set()

    def hang_up(self) -> None:
        with contextlib.suppress(Exception):
            self.actor.hang_up.remote()

    def wait(self, timeout_s: float) -> None:
        self._ended.wait(timeout_s)

    def kill(self) -> None:
        import ray

        with contextlib.suppress(Exception):
            ray.kill(self.actor)

    def last_word(self) -> str:
        import ray

        if self._cut is None:
            with contextlib.suppress(ray.exceptions.RayError):
                said = ray.get(self.actor.last_word.remote(), timeout=CALL_S)
                return f"a worker on {self._where} was lost: {said}"
        return f"a worker on {self._where} was lost, with its actor or its host ({self._cut or 'no answer'})"


class RayCluster:
    """A cluster that vtop is connected to. address: auto, HOST:PORT (of its GCS) or ray://HOST:PORT.

    url: of the server to be loaded. say: takes a sentence for whoever waits. Raises VtopError where Ray is not
    installed or the cluster cannot be reached.
    """

    def __init__(self, address: str, url: str, say: Callable[[str], None]) -> None:
        self._address = address
        self._url = url
        self._say = say
        self._links: list[RayLink] = []
        self._names: list[str] = []
        self._contents: Any = None
        connect(address)

    def start(self, workers: int) -> Sequence[RayLink]:
        import ray

        relay = ray.remote(num_cpus=1, max_concurrency=4, max_restarts=0, max_task_retries=0)(_RayRelay)
        spread = relay.options(scheduling_strategy="SPREAD")
        actors = [spread.remote() for _ in range(workers)]
        try:
            abouts = self._asked([actor.about.remote() for actor in actors], workers)
            nodes = self._asked([actor.node.remote() for actor in actors], workers)
            self._check(abouts)
        except BaseException:
            for actor in actors:
                ray.kill(actor)
            raise
        order = list(dict.fromkeys(nodes))
        self._names = _names(order)
        hosts = [order.index(node) for node in nodes]
        self._links = [
            RayLink(actor, host, where=self._names[host], about=about, files=self._files)
            for actor, host, about in zip(actors, hosts, abouts, strict=True)
        ]
        return self._links

    def _files(self, setup: Setup) -> Any:
        """What the files hold that it names, for the hosts: put into the cluster once. Raises VtopError."""
        import ray

        if (names := files_of(setup)) and self._contents is None:
            try:
                self._contents = ray.put({name: Path(name).expanduser().read_bytes() for name in names})
            except OSError as error:
                raise VtopError(f"{error.filename}: cannot be read ({error.strerror})") from None
        return self._contents

    def clocks(self) -> Sequence[HostClock]:
        import ray

        found = []
        for host, name in enumerate(self._names):
            links = [link for link in self._links if link.host == host]
            workers = tuple(number for number, link in enumerate(self._links) if link.host == host)
            for link in links:  # the first that is still there speaks for its host

                def clock(link: RayLink = link) -> float:
                    return float(ray.get(link.actor.clock.remote(), timeout=CALL_S))

                with contextlib.suppress(ray.exceptions.RayError):
                    found.append(HostClock(host, name, workers, measured(clock)))
                    break
        return found

    def _asked(self, calls: list[Any], workers: int) -> list[Any]:
        """The answers of all. Raises VtopError where they do not come."""
        import ray

        done, _ = ray.wait(calls, num_returns=len(calls), timeout=PATIENCE_S)
        if len(done) < len(calls):
            self._say(f"{len(done)} of {workers} workers have a CPU of the cluster; the load waits for the others")
            done, _ = ray.wait(calls, num_returns=len(calls), timeout=START_S)
        if len(done) < len(calls):
            free = ray.available_resources().get("CPU", 0.0)
            raise VtopError(
                f"--ray {self._address}: only {len(done)} of {workers} workers could be started in {START_S:.0f} s; "
                f"each takes one CPU of the cluster, which has {free:g} left; ask for fewer workers=, or wait"
            )
        try:
            return list(ray.get(calls))
        except ray.exceptions.RayError as error:
            said = str(error)
            if "No module named 'vtop" in said:
                raise VtopError(
                    f"--ray {self._address}: vtop is not installed for the Python of a host there; on each: "
                    f"pip install vtop=={__version__}"
                ) from None
            last = next((line.strip() for line in reversed(said.split("\n")) if line.strip()), type(error).__name__)
            raise VtopError(f"--ray {self._address}: a worker could not be started: {last}") from None

    def _check(self, abouts: list[About]) -> None:
        other = next((about.vtop for about in abouts if about.vtop != __version__), None)
        if other is not None:
            raise VtopError(
                f"--ray {self._address}: a host there has vtop {other}, here is {__version__}; install the same on all"
            )
        here = machine()
        if any(not about.machine or about.machine != here for about in abouts) and _is_own(self._url):
            raise VtopError(
                f"--ray {self._address}: {self._url} is on each host another server; name it by an address that all "
                "hosts reach"
            )


def _is_own(url: str) -> bool:
    """Whether the address means another server on each host."""
    if socket_path(url) is not None:
        return True
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _names(nodes: Sequence[str]) -> list[str]:
    """What the nodes are called: each host's name, or the node's where several have one host's."""
    import ray

    known = {str(node["NodeID"]): node for node in ray.nodes()}
    names = [str(known[node]["NodeManagerHostname"]) for node in nodes]
    if len(set(names)) < len(names):
        names = [f"{name}/{known[node].get('NodeName') or node[:8]}" for name, node in zip(names, nodes, strict=True)]
    return names


def connect(address: str) -> None:
    """To the cluster, once. Raises VtopError where Ray is not installed or the cluster cannot be reached."""
    try:
        import ray
    except ModuleNotFoundError:
        raise VtopError("--ray needs Ray, which is not installed here: pip install 'vtop[ray]'") from None
    if ray.is_initialized():
        return
    _reach(address)
    handler = signal.getsignal(signal.SIGTERM)
    began_s = time.monotonic()
    try:
        ray.init(address=address, logging_level=logging.CRITICAL, log_to_driver=False, configure_logging=False)
    except Exception as error:  # of many kinds
        said = " ".join(str(error).split()) or type(error).__name__
        took = f" after {time.monotonic() - began_s:.0f} s"
        raise VtopError(f"--ray {address}: no Ray cluster could be reached{took}: {said[:300]}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _reach(address: str) -> None:
    """Raises VtopError where no port answers: Ray itself would try for a minute."""
    if address == "auto":
        return
    parts = urlsplit(address if "://" in address else f"ray-gcs://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if parts.scheme not in ("ray", "ray-gcs") or host is None or port is None:
        raise VtopError(f"--ray {address}: write auto, HOST:6379 (the head's port) or ray://HOST:10001")
    try:
        socket.create_connection((host, port), timeout=REACH_S).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise VtopError(f"--ray {address}: no Ray cluster could be reached: {why}") from None
