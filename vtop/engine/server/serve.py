"""A simulated server as a process: uvicorn on a socket that listens already, ended by a signal or by its leash.

Run by `vtop demo` as `python -m vtop.engine.server.serve FD`, with its settings as a line on standard input; when that
input ends, whatever ended it, so does the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vtop.engine.server.app import Face
from vtop.engine.server.process_metrics import process_lines
from vtop.engine.server.realtime import Pump
from vtop.engine.server.simulated import Settings, SimulatedServer

BACKLOG = 2048
KEEP_ALIVE_S = 5  # vLLM: VLLM_HTTP_TIMEOUT_KEEP_ALIVE
LAST_S = 1.0  # after the end of the leash nothing may take longer
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _HttpServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are taken by whoever runs the loop."""
        yield


def serve(settings: Settings, listening: socket.socket, *, leashed: bool = False) -> int:
    """Until a signal comes, or, when leashed, standard input ends; the number of the signal, 0 without one.

    Raises VtopError for settings that vLLM would refuse, before anything is answered.
    """
    simulated = SimulatedServer(settings, time.time(), process_lines)
    _allow_files()
    return asyncio.run(_serve(simulated, listening, leashed))


async def _serve(simulated: SimulatedServer, listening: socket.socket, leashed: bool) -> int:
    pump = Pump(simulated)
    server: _HttpServer

    class Line(HttpToolsProtocol):
        """A connection; while the server restarts there is none."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if simulated.down(pump.now()):
                transport.abort()

    config = uvicorn.Config(
        Face(pump).app,
        http=Line,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL + 1,  # a client that goes, or a restart, is nothing to report
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=BACKLOG,
    )
    server = _HttpServer(config)

    def cut() -> None:
        for line in list(server.server_state.connections):
            if line.transport is not None:
                line.transport.abort()

    simulated.restarted.append(cut)
    numbers: list[int] = []

    def end(number: int) -> None:
        numbers.append(number)
        server.should_exit = server.force_exit = True

    loop = asyncio.get_running_loop()
    for number in ENDS:
        loop.add_signal_handler(number, end, number)
    if leashed:
        threading.Thread(target=_hold, args=(loop, end), name="leash", daemon=True).start()
    await server.serve(sockets=[listening])
    return numbers[0]


def _hold(loop: asyncio.AbstractEventLoop, end: Callable[[int], None]) -> None:
    with contextlib.suppress(RuntimeError, OSError):  # the loop has ended by itself
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(end, 0)
    time.sleep(LAST_S)
    os._exit(1)


def _allow_files() -> None:
    """A stream is an open file; the usual 1,024 are a limit for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    line = bytearray()
    while not line.endswith(b"\n"):  # unbuffered: what follows is the leash's
        byte = os.read(0, 1)
        if not byte:
            return
        line += byte
    listening = socket.socket(fileno=int(sys.argv[1]))
    serve(msgspec.json.decode(bytes(line), type=Settings), listening, leashed=True)


if __name__ == "__main__":
    main()
