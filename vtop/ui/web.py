"""The screen in a browser: each page gets a vtop of its own on a pseudo-terminal, drawn by xterm.js.

textual-serve brings the page. What runs behind it is the screen of a terminal, to the byte: its driver, its keys, its
slow lines. No TLS: a token keeps others out, not those who read the network along.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hmac
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from socket import socket
from typing import Final
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
from aiohttp import WSMsgType, web
from textual_serve.server import Server

from vtop.sources.address import loopback

MOST_SCREENS: Final = 8  # at a time: each is a process, with scrapes of its own
READ_BYTES: Final = 1 << 16
SUSPEND: Final = "\x1a"  # ctrl+z: there is no shell behind a page, so nothing would wake it again
END_S: Final = 5.0  # for a screen whose page was closed to end by itself
MOST_CELLS: Final = 1000  # in a row or a column
GOOGLES_FONT: Final = (
    "https://fonts.googleapis.com/css?family=Roboto%20Mono"  # the page asks for nothing from elsewhere
)
# makes the pseudo-terminal its own, so that it is told of another size and of its end
TAKE_TERMINAL: Final = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
# keys go to the screen without a click on it
FOCUS: Final = """<script>
new MutationObserver((_, observer) => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) { observer.disconnect(); keys.focus(); }
}).observe(document, {childList: true, subtree: true});
</script>"""
POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'"
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebScreens:
    """`command`, a screen, for each page that may have it.

    token: what a page must bring, once, as ?token=…; a cookie keeps it. None: none is asked for, and only names of this
    machine's loopback are answered to, so that no page from elsewhere can lead its reader's browser here.
    """

    def __init__(self, command: Sequence[str], *, token: str | None, public_url: str | None = None) -> None:
        self._server = Server("", title="vtop", public_url=public_url)  # of its page and what belongs to it
        self._command = tuple(command)
        self._token = token
        self._cookie = f"vtop-{sha256((token or '').encode()).hexdigest()[:8]}"  # two of them on one host have two
        self._fixed_url = public_url is not None
        self._open: set[web.WebSocketResponse] = set()  # pages with a screen

    async def application(self) -> web.Application:
        async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._admit(request, handler)

        made = web.Application(middlewares=[web.middleware(admit)])
        aiohttp_jinja2.setup(made, loader=jinja2.FileSystemLoader(self._server.templates_path))
        made.router.add_get("/", self._index, name="index")
        made.router.add_get("/ws", self._screen, name="websocket")
        made.router.add_static("/static", self._server.statics_path, name="static")
        made.on_shutdown.append(self._close)
        return made

    async def _close(self, _: web.Application) -> None:
        await asyncio.gather(*(line.close() for line in self._open))

    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._refuse_strangers(request)
        given = request.query.get("token")
        if self._token is not None and given is not None and _same(given, self._token):
            rest = request.rel_url.without_query_params("token")
            answer = web.HTTPSeeOther(rest)  # so that it does not stay in the address
            safe = self._server.public_url.startswith("https:")
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict", secure=safe)
            return answer
        if self._token is not None and not _same(request.cookies.get(self._cookie, ""), self._token):
            raise web.HTTPForbidden(text="vtop: this screen needs its token: open the address that vtop web printed\n")
        answered = await handler(request)
        if not answered.prepared:
            answered.headers["content-security-policy"] = POLICY
            answered.headers["referrer-policy"] = "no-referrer"
            answered.headers["x-content-type-options"] = "nosniff"
        return answered

    def _refuse_strangers(self, request: web.Request) -> None:
        """A page of another site may open a connection here from its reader's browser, which says so."""
        host = urlsplit(f"//{request.host}").hostname or ""
        if self._token is None and not loopback(host):
            raise web.HTTPForbidden(text="vtop: without a token this screen is for this machine alone\n")
        origin = request.headers.get("origin")
        known = {request.host, urlsplit(self._server.public_url).netloc}
        if origin is not None and urlsplit(origin).netloc not in known:
            raise web.HTTPForbidden(text="vtop: another page's connection is refused\n")

    async def _index(self, request: web.Request) -> web.StreamResponse:
        if not self._fixed_url:  # what it is called from where the page is
            self._server.public_url = f"{request.scheme}://{request.host}"
        page = await self._server.handle_index(request)
        font = f"{self._server.public_url}/static/fonts/RobotoMono-VariableFont_wght.ttf"
        own = f'<style>@font-face {{font-family: "Roboto Mono"; src: url("{font}")}}</style>{FOCUS}'
        page.text = page.text.replace(GOOGLES_FONT, "data:text/css,").replace("</head>", f"{own}</head>")
        return page

    async def _screen(self, request: web.Request) -> web.WebSocketResponse:
        """A page's screen, from its opening to its end."""
        if len(self._open) >= MOST_SCREENS:
            raise web.HTTPServiceUnavailable(text=f"vtop: {MOST_SCREENS} screens are open already\n")
        line = web.WebSocketResponse(heartbeat=15)
        self._open.add(line)
        try:
            await line.prepare(request)
            asked = request.query
            screen = _Screen(self._command, _cells(asked.get("width"), 80), _cells(asked.get("height"), 24))
            drawing = asyncio.create_task(screen.draw(line))
            try:
                await _follow(line, screen)
            finally:
                drawing.cancel()
                await screen.end()
        finally:
            self._open.discard(line)
        return line


class _Screen:
    """A vtop on a pseudo-terminal."""

    def __init__(self, command: Sequence[str], columns: int, lines: int) -> None:
        self._fd, slave = pty.openpty()
        self.resize(columns, lines)
        os.set_blocking(self._fd, False)
        environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", TAKE_TERMINAL, *command],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env={name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")},
                start_new_session=True,
            )
        finally:
            os.close(slave)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, text: str) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # it does not read, or has ended
            os.write(self._fd, text.replace(SUSPEND, "").encode("utf-8", "replace"))

    async def draw(self, line: web.WebSocketResponse) -> None:
        """What it writes, to the page; no further than the page takes it, so that vtop notices a slow one."""
        while written := await self._written():
            await line.send_bytes(written)
        await line.close()

    async def _written(self) -> bytes:
        """The next that it wrote; empty when it has ended."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                there = asyncio.Event()
                loop.add_reader(self._fd, there.set)
                try:
                    await there.wait()
                finally:
                    loop.remove_reader(self._fd)
            except OSError:  # a terminal whose program has ended
                return b""

    async def end(self) -> None:
        os.close(self._fd)  # it is hung up on
        try:
            await asyncio.to_thread(self._process.wait, END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await asyncio.to_thread(self._process.wait)


async def _follow(line: web.WebSocketResponse, screen: _Screen) -> None:
    """What the page says, until it is closed."""
    async for message in line:
        if message.type != WSMsgType.TEXT:
            continue
        try:
            said = message.json()
        except (ValueError, RecursionError):  # no page of vtop's speaks so
            return
        match said:
            case ["stdin", str(text)]:
                screen.press(text)
            case ["resize", {"width": int(columns), "height": int(lines)}]:
                screen.resize(_cells(columns, 80), _cells(lines, 24))
            case ["ping", word]:
                await line.send_json(["pong", word])


def serve(pages: WebScreens, listening: socket) -> None:
    """On a socket that listens, until a signal ends it."""
    web.run_app(pages.application(), sock=listening, print=None, access_log=None, shutdown_timeout=END_S)


def _cells(said: str | int | None, default: int) -> int:
    try:
        cells = int(said) if said is not None else default
    except ValueError:
        return default
    return min(max(cells, 1), MOST_CELLS)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
