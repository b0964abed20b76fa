"""The screen in a real Chromium: drawn, a key works; and who gets no screen."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live import chromium as browser

pytestmark = pytest.mark.live
WITHIN_S = 20.0
REPLAY = ("replay", "overload", "--at", "0:40")


@pytest.fixture
def aiohttp() -> Any:
    pytest.importorskip("textual_serve", reason="no textual-serve: pip install 'vtop[web]'")
    return pytest.importorskip("aiohttp")


async def gone(pid: int) -> bool:
    until_s = time.monotonic() + WITHIN_S
    while browser.children(pid) and time.monotonic() < until_s:
        await asyncio.sleep(0.05)
    return not browser.children(pid)


async def test_a_browser_shows_the_screen_and_its_keys_work(aiohttp: Any, measured: list[str]) -> None:
    if browser.chromium() is None:
        pytest.skip("no Chromium on PATH: apt-get install chromium")
    with browser.served(*REPLAY) as (address, process):
        async with browser.opened() as page:
            await page.call("Page.navigate", url=address)
            took_s = await page.until(lambda text: "KV POOL BINDS" in text and "time to first token" in text)
            before = await page.picture()
            await page.forget()
            began_s = time.monotonic()
            await page.press("?")
            await page.until(lambda text: "quit, from anywhere" in text)
            measured.append(
                f"web: drawn after {took_s:.2f} s, a key after {(time.monotonic() - began_s) * 1000:.0f} ms"
            )
            assert await page.picture() != before
            assert len(browser.children(process.pid)) == 1
        assert await gone(process.pid)


async def opened(session: Any, address: str, **more: Any) -> str:
    """What a page's connection brings, until the screen is there."""
    said = b""
    async with session.ws_connect(f"{address.replace('http', 'ws')}ws?width=120&height=36", **more) as line:
        while b"KV POOL BINDS" not in said:
            said += (await line.receive(timeout=WITHIN_S)).data
        await line.send_json(["stdin", "\x1a"])  # ctrl+z: it must go on
        await line.send_json(["resize", {"width": 100, "height": 30}])
        await line.send_json(["stdin", "?"])
        said = b""
        while b"quit, from anywhere" not in said:
            said += (await line.receive(timeout=WITHIN_S)).data
    return said.decode("utf-8", "replace")


async def test_without_a_token_this_machine_alone_gets_a_screen_and_no_other_site_through_its_browser(
    aiohttp: Any,
) -> None:
    with browser.served(*REPLAY) as (address, process):
        async with aiohttp.ClientSession() as session:
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                async with session.get(address, headers=headers) as answer:
                    assert answer.status == 403
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(f"{address}ws", headers=headers)
            assert browser.children(process.pid) == []
            assert "quit" in await opened(session, address)
        assert await gone(process.pid)


async def test_with_a_token_a_page_that_brings_it_gets_a_screen_and_no_other_does(aiohttp: Any) -> None:
    token = "abcdefgh-12345678"
    with browser.served("--token", token, *REPLAY) as (address, process):
        root = address.partition("?")[0]
        async with aiohttp.ClientSession() as session:
            for path in ("", "ws", "static/js/textual.js", "?token=abcdefgh-12345679"):
                async with session.get(root + path) as answer:
                    assert answer.status == 403
            async with session.get(root, params={"token": token}, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/")
                cookie = answer.headers["Set-Cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
            assert browser.children(process.pid) == []
            known = {"Cookie": cookie.partition(";")[0]}
            assert "quit" in await opened(session, root, headers=known)
        assert await gone(process.pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_what_no_page_says_harms_no_screen_and_all_end_with_vtop_web(number: int, aiohttp: Any) -> None:
    with browser.served(*REPLAY) as (address, process):
        async with aiohttp.ClientSession() as session:
            for said in ("{", "[" * 100_000):
                async with session.ws_connect(f"{address}ws") as line:
                    await line.send_str(said)
                    while (await line.receive(timeout=WITHIN_S)).type == aiohttp.WSMsgType.BINARY:
                        pass
                    assert line.closed
            assert await gone(process.pid)
            lines = [await session.ws_connect(f"{address}ws") for _ in range(8)]
            with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
                await session.ws_connect(f"{address}ws")
            for said in ('["stdin", 5]', '["stdin", "\\ud800"]', '["resize", {"width": 1e9}]', '["resize", 4]', "5"):
                await lines[0].send_str(said)
            await lines[0].send_json(["ping", "still there"])
            while (heard := await lines[0].receive(timeout=WITHIN_S)).type == aiohttp.WSMsgType.BINARY:
                pass
            assert heard.json() == ["pong", "still there"]
            screens = browser.children(process.pid)
            assert len(screens) == 8
            began_s = time.monotonic()
            process.send_signal(number)
            await asyncio.to_thread(process.wait, WITHIN_S)
            while any(Path(f"/proc/{pid}").exists() for pid in screens):
                assert time.monotonic() - began_s < WITHIN_S
                await asyncio.sleep(0.05)
