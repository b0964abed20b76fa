"""The verb web: the screen in a browser, for those who cannot ssh."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from vtop.cli.common import echo
from vtop.errors import VtopError

VERBS = ("replay", "demo")  # that are a screen, beside the one without a verb
LEAST_TOKEN = 16  # characters
# one call's, or one screen's alone: each page starts a vtop of its own
NOT_SERVED = ("loads", "record_to", "once", "as_json", "serve_metrics")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCREEN…]")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: a free one.")
@click.option(
    "--token",
    metavar="WORD",
    envvar="VTOP_TOKEN",
    help="What pages must bring; better in VTOP_TOKEN or --token-file. [beyond loopback a new one]",
)
@click.option("--token-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE")
@click.option("--public-url", metavar="URL", help="What a proxy that adds TLS calls it: https://vtop.example.")
@click.pass_context
def web(
    ctx: click.Context,
    words: tuple[str, ...],
    *,
    host: str,
    port: int,
    token: str | None,
    token_file: Path | None,
    public_url: str | None,
) -> None:
    """The screen in a browser. SCREEN: what you would type behind vtop.

    \b
      vtop web --url gpu7:8000 --window 60s
      vtop web replay run.jsonl --at 1:00
      vtop web --host 0.0.0.0 :8301     beyond this machine: with a token, and without TLS

    Each page has a vtop of its own, which asks the server for itself. Files that its keys save lie where vtop web was
    started. It puts no load on a server: start that beside it. Needs the extra: pip install 'vtop[web]'.
    """
    import socket

    from vtop.engine.server.subprocess import listen
    from vtop.sources.address import loopback

    assert ctx.parent is not None
    _check(ctx.parent, words)
    token = _token(token, token_file, needed=not loopback(host) or public_url is not None)
    try:
        from vtop.ui import web as pages
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual_serve", "aiohttp", "aiohttp_jinja2", "jinja2"):
            raise
        raise VtopError("web needs textual-serve, which is not installed: pip install 'vtop[web]'") from None
    try:
        listening = listen(host, port)
    except OSError as error:
        raise VtopError(f"cannot listen on {host}:{port} ({error.strerror}); name another --port") from error
    with listening:
        name = socket.gethostname() if host in ("0.0.0.0", "::") else host
        shown = f"[{name}]" if ":" in name else name
        url = public_url.rstrip("/") if public_url is not None else f"http://{shown}:{listening.getsockname()[1]}"
        query = f"?token={token}" if token is not None else ""
        echo(f"vtop in a browser: {url}/{query}", err=True)
        if token is not None and not url.startswith("https:"):
            echo("no TLS: who can read the network sees the token and the screen; a proxy or ssh -L adds it", err=True)
        command = [sys.executable, "-P", "-m", "vtop", *words]
        pages.serve(pages.WebScreens(command, token=token, public_url=public_url and url), listening)


def _check(parent: click.Context, words: tuple[str, ...]) -> None:
    """Raises VtopError or click's error for words that are no screen, here rather than in the page."""
    group = parent.command
    assert isinstance(group, click.Group)
    verb = next((word for word in words if word in group.commands), None)
    if verb is not None and (verb not in VERBS or words[0] != verb):
        raise VtopError(
            f"web shows a screen: vtop web replay FILE, vtop web demo, or options of vtop itself; not {verb}"
        )
    command: click.Command = group if verb is None else group.commands[verb]
    rest = list(words if verb is None else words[1:])
    asked = command.make_context(verb or "vtop", rest, parent=None if verb is None else parent)
    if told := next((name for name in NOT_SERVED if asked.params.get(name)), None):
        option = next(one.opts[0] for one in command.params if one.name == told)
        raise VtopError(f"web only shows: {option} would be done by every page that is opened; run it beside vtop web")
    if isinstance(file := asked.params.get("file"), Path):
        from vtop.cli.common import open_recording

        open_recording(file)


def _token(given: str | None, file: Path | None, *, needed: bool) -> str | None:
    """What pages must bring; None where they need none. Raises VtopError for one that could be guessed."""
    import secrets

    if file is not None:
        given = file.read_text(encoding="utf-8").strip()
    if given is None:
        return secrets.token_urlsafe(24) if needed else None
    if len(given) < LEAST_TOKEN or not given.isascii() or not given.replace("-", "").replace("_", "").isalnum():
        raise VtopError(f"--token: {LEAST_TOKEN} or more letters, digits, - and _; without --token vtop makes one")
    return given
