"""`vtop web` on a free port, and a headless Chromium that opens it, told what to do over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

WITHIN_S = 30.0
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
# what the page's connection brings, as text, for whoever asks the page
LISTEN = """
window.said = '';
const Real = WebSocket;
window.WebSocket = class extends Real {
  constructor(...a) {
    super(...a);
    this.binaryType = 'arraybuffer';
    this.addEventListener('message', e => {
      if (typeof e.data !== 'string') window.said += new TextDecoder().decode(e.data);
    });
    this.addEventListener('close', () => { window.closed = true; });
  }
};
"""


class Page:
    """A page of a Chromium, told what to do over its DevTools protocol."""

    def __init__(self, line: Any) -> None:
        self._line = line
        self._number = 0

    async def call(self, method: str, **words: Any) -> dict[str, Any]:
        self._number += 1
        await self._line.send_json({"id": self._number, "method": method, "params": words})
        while True:
            answer = await self._line.receive_json(timeout=WITHIN_S)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    async def ask(self, expression: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=expression, returnByValue=True))["result"].get("value")

    async def said(self) -> str:
        """What was written so far, without what is not seen."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", await self.ask("window.said") or "")

    async def until(self, met: Callable[[str], bool]) -> float:
        """How long until what was written is so; raises TimeoutError."""
        began_s = time.monotonic()
        while not met(await self.said()):
            if time.monotonic() - began_s > WITHIN_S:
                raise TimeoutError((await self.said())[-2000:])
            await asyncio.sleep(0.02)
        return time.monotonic() - began_s

    async def forget(self) -> None:
        await self.ask("window.said = ''")

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])


def chromium() -> str | None:
    return next((found for name in CHROMIUMS if (found := shutil.which(name))), None)


@contextlib.asynccontextmanager
async def opened(size: tuple[int, int] = (1280, 800)) -> AsyncIterator[Page]:
    """An empty page of a Chromium of its own, which listens to what comes."""
    import aiohttp

    binary = chromium()
    assert binary is not None
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                binary,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--remote-debugging-port=0",
                f"--user-data-dir={folder}",
                f"--window-size={size[0]},{size[1]}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            told = Path(folder) / "DevToolsActivePort"
            until_s = time.monotonic() + WITHIN_S
            while not told.exists() or not told.read_text().strip():
                if time.monotonic() > until_s:
                    raise TimeoutError("Chromium does not start")
                await asyncio.sleep(0.05)
            port = told.read_text().split()[0]
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = await answer.json()
                where = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
                async with session.ws_connect(where, max_msg_size=1 << 28) as line:
                    page = Page(line)
                    await page.call("Page.enable")
                    await page.call("Page.addScriptToEvaluateOnNewDocument", source=LISTEN)
                    yield page
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()


@contextlib.contextmanager
def served(*words: str) -> Any:
    """vtop web on a free port: (its address, its process)."""
    command = [sys.executable, "-m", "vtop", "web", "--port", "0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            if found is None:
                raise RuntimeError(line + process.stderr.read())
            yield found[0], process
        finally:
            process.terminate()
            process.wait(10)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found]
