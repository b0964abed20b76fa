"""A headless Chromium over its debugging pipe, without a network: what a page asks for, complains of, looks like."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
WITHIN_S = 60.0


def found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Chromium:
    """Ended by `close`. Every command waits for its answer, and keeps the events that came before it."""

    def __init__(self, folder: Path) -> None:
        program = found()
        assert program is not None
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        # the browser reads at descriptor 3 and writes at 4
        script = f'exec 3<&{their_in} 4>&{their_out} "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, "--headless", "--no-sandbox", "--disable-gpu",
             "--remote-debugging-pipe", f"--user-data-dir={folder}", "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=http://127.0.0.1:9",
             "--disable-background-networking", "--hide-scrollbars", "--force-device-scale-factor=1"],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(their_in)
        os.close(their_out)
        self._read = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.tell(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._ask({"method": method, "params": params})

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """To the page."""
        return self._ask({"method": method, "params": params, "sessionId": self._session})

    def open(self, path: Path, *, scheme: str, width: int = 1100) -> None:
        """Load a file in a light or dark browser, and wait until it has loaded."""
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.tell("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        return self.tell("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Errors and warnings of the page, its style and its policy."""
        found = []
        for event in self.events:
            if event["method"] == "Log.entryAdded":
                found.append(str(event["params"]["entry"]["text"]))
            if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(json.dumps(event["params"]))
        return found

    def picture(self, top: float = 0.0, height: float = 900.0, width: float = 1100.0) -> bytes:
        """A PNG of a part of the page."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        shot = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def paper(self) -> bytes:
        return base64.b64decode(self.tell("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        try:
            self.ask("Browser.close")
            self._process.wait(WITHIN_S)
        finally:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        os.write(self._out, json.dumps({"id": self._number, **message}).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        until_s = monotonic() + WITHIN_S
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until_s - monotonic()))
            chunk = os.read(self._in, 1 << 20) if ready else b""
            assert chunk, "the browser says nothing more"
            self._read += chunk
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message
