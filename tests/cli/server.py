"""A server that answers as a script says: scrapes of a real vLLM, and what else vtop asks for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCRAPES = Path(__file__).resolve().parents[1] / "scrapes"
MODELS = b'{"object":"list","data":[{"id":"org/model[awq]","max_model_len":4096}]}'


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.hear(self.path, dict(self.headers))
        bodies = {
            "/metrics": (SCRAPES / self.server.scrape).read_bytes(),
            "/health": b"",
            "/version": b'{"version":"0.26.0"}',
            "/v1/models": MODELS,
        }
        body = bodies.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.send_header("content-length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: Any) -> None:
        return


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, scrape: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scrape = scrape
        self.heard: list[tuple[str, dict[str, str]]] = []
        self._news = threading.Condition()

    def hear(self, path: str, headers: dict[str, str]) -> None:
        with self._news:
            self.heard.append((path, headers))
            self._news.notify_all()

    def forget(self) -> None:
        with self._news:
            self.heard.clear()

    def asked(self, scrapes: int) -> None:
        """Wait until so many scrapes were asked for: all that belongs to the one before is then on record."""
        with self._news:
            assert self._news.wait_for(lambda: sum(path == "/metrics" for path, _ in self.heard) >= scrapes, 30)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(scrape: str = "03_preempt_after.txt") -> Iterator[Server]:
    server = Server(scrape)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
