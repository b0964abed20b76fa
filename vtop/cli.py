"""The command line: what a person types, handed to the room that does it. Heavy imports stand inside their verb."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vtop import __version__, units
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.draw.look import Look
    from vtop.recording import FileRecording
    from vtop.session.session import Session
    from vtop.sources.attach import Attachment

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL = "http://localhost:8000"


class Seconds(click.ParamType[float]):
    """90, 90s, 2m30s, 2:30."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float | int):
            return float(value)
        try:
            return units.duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Size(click.ParamType[tuple[int, int]]):
    """Columns x lines of a screen: 120x40."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        columns, found, lines = str(value).lower().partition("x")
        if not (found and columns.isdigit() and lines.isdigit()):
            self.fail(f"{value!r} is not a size: write columns x lines, such as 120x40", param, ctx)
        if not (20 <= int(columns) <= 1000 and 4 <= int(lines) <= 500):
            self.fail(f"{value!r} is out of bounds: 20x4 to 1000x500", param, ctx)
        return int(columns), int(lines)


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def together(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return together


server_options = _options(
    click.option("--url", "urls", multiple=True, metavar="URL", help=f"Server to watch; repeatable. [{DEFAULT_URL}]"),
    click.option("--interval", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, metavar="S"),
    click.option("--api-key", metavar="KEY", help="Bearer key; better in VTOP_API_KEY or --api-key-file."),
    click.option("--api-key-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE"),
    click.option("--header", "-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent along; repeatable."),
    click.option("--ca-file", type=click.Path(path_type=Path, dir_okay=False), help="Certificates to trust."),
    click.option("--insecure", is_flag=True, help="Do not check the server's certificate."),
    click.option("--proxy", metavar="URL", help="Reach the servers through this proxy (never the loopback address)."),
    click.option("--no-gpu", is_flag=True, help="Make no NVML call."),
)

look_options = _options(
    click.option("--theme", default="dark", show_default=True, metavar="NAME", envvar="VTOP_THEME"),
    click.option("--ascii", "ascii_only", is_flag=True, envvar="VTOP_ASCII", help="No character beyond ASCII."),
    click.option("--window", "window_s", type=Seconds(), default=300.0, help="Time window of numbers and charts. [5m]"),
    click.option("--hide", default="", metavar="PANELS", help="Panels to leave out: gpus,latencies,…"),
)


class VtopGroup(click.Group):
    """Errors of the user are one line on stderr."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except VtopError as error:
            click.echo(f"vtop: {error}", err=True)
            sys.exit(error.exit_code)


@click.group(cls=VtopGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@server_options
@look_options
@click.option("--record", "record_to", type=click.Path(path_type=Path, dir_okay=False), help="Record to FILE.")
@click.option("--once", is_flag=True, help="Two pages, one JSON document (with --json), and out.")
@click.option("--json", "as_json", is_flag=True, help="With --once: the frame as JSON on stdout.")
@click.version_option(__version__, message="vtop %(version)s")
@click.pass_context
def main(ctx: click.Context, /, **asked: Any) -> None:
    """The instrument panel of a vLLM server.

    Without a verb: attach to the server and show it. vtop --url localhost:8000
    """
    if ctx.invoked_subcommand is not None:
        given = [name for name in asked if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
        if given:
            raise VtopError(f"options stand behind the verb: vtop {ctx.invoked_subcommand} --{given[0].rstrip('s')} …")
        return
    record_to, once, as_json = asked.pop("record_to"), asked.pop("once"), asked.pop("as_json")
    look = {name: asked.pop(name) for name in ("theme", "ascii_only", "window_s", "hide")}
    if once:
        _once(_attach(asked, None), look["window_s"], as_json)
        return
    _need_terminal("vtop record, vtop --once --json or vtop show")
    style = _look(look)
    attachment = _attach(asked, record_to)
    _screen_live(attachment, style, look)


@main.command()
@server_options
@click.option("--for", "for_s", type=Seconds(), help="Stop after this time. [until ctrl-c]")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="New file.")
def record(for_s: float | None, output: Path, **asked: Any) -> None:
    """Record without a screen: FILE.jsonl, .jsonl.gz or .jsonl.zst."""
    import signal
    import threading

    attachment = _attach(asked, output)
    stop = threading.Event()
    reasons: list[str] = []

    def stopped(number: int, _: Any) -> None:
        reasons.append(signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    attachment.start()
    click.echo(f"recording {', '.join(t.url for t in attachment.recording.start.servers)} to {output}", err=True)
    stop.wait(for_s)
    attachment.stop(reasons[0] if reasons else "time is up")
    session = _session(attachment.recording.start, attachment.recording)
    click.echo(f"{output}: {_told(session)}", err=True)
    if not any(server.t for server in session.servers):
        raise VtopError("no server answered; the file holds only the attempts")


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--speed", type=click.FloatRange(0.01, 10000), default=1.0, show_default=True)
@click.option("--at", "at_s", type=Seconds(), help="Start there, paused. [the beginning, moving]")
@look_options
def replay(file: Path, speed: float, at_s: float | None, **look: Any) -> None:
    """Show a recording on the same screen, also while it is still being written."""
    recording = _open(file)
    _need_terminal("vtop show FILE --text")
    _screen_replay(recording, _look(look), look, speed, at_s)


@main.command()
@look_options
def demo(**look: Any) -> None:
    """Look at vtop without a server: replays a recorded overload of an H200 at five times its speed."""
    recording = _open(Path("overload"))
    _need_terminal("vtop show overload --text")
    _screen_replay(recording, _look(look), look, 5.0, None)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--at", "at_s", type=Seconds(), help="Instant to show. [the end]")
@click.option("--size", type=Size(), default="120x36", show_default=True)
@click.option("--text", "form", flag_value="text", default=True, help="Plain text on stdout (default).")
@click.option("--json", "form", flag_value="json", help="Every number of the frame as JSON on stdout.")
@click.option("--svg", "svg_to", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--png", "png_to", type=click.Path(path_type=Path, dir_okay=False))
@look_options
def show(
    file: Path,
    *,
    at_s: float | None,
    size: tuple[int, int],
    form: str,
    svg_to: Path | None,
    png_to: Path | None,
    **look: Any,
) -> None:
    """One frame of a recording without a terminal: text, JSON, SVG or PNG."""
    recording = _open(file)
    session = _session(recording.start, recording)
    if at_s is not None and at_s > session.end_s:
        raise VtopError(f"--at {units.clock(at_s)}: {file} ends at {units.clock(session.end_s)}")
    now_s = session.end_s if at_s is None else at_s
    if form == "json" and svg_to is None and png_to is None:
        from vtop.session.frame import View

        _print_json(session.frame(now_s, View(window_s=look["window_s"])))
        return
    drawn, plain = _still(session, _look(look), look, now_s, size)
    if svg_to is not None:
        _write(svg_to, drawn.encode())
    if png_to is not None:
        from vtop.ui import picture

        _write(png_to, picture.png(drawn))
    if svg_to is None and png_to is None:
        click.echo(plain, nl=False)


# --- what the verbs share -------------------------------------------------------------------------------------------


def _attach(asked: dict[str, Any], path: Path | None) -> Attachment:
    from vtop.sources.access import access_of
    from vtop.sources.address import credentials, target
    from vtop.sources.attach import Attachment

    urls = asked["urls"] or (DEFAULT_URL,)
    targets = [target(url) for url in urls]
    access = [
        access_of(
            api_key=asked["api_key"],
            api_key_file=asked["api_key_file"],
            headers=asked["headers"],
            ca_file=asked["ca_file"],
            insecure=asked["insecure"],
            proxy=asked["proxy"],
            basic=credentials(url),
        )
        for url in urls
    ]
    return Attachment(
        targets, access, interval_s=asked["interval"], gpus=not asked["no_gpu"], path=path, argv=sys.argv[1:]
    )


def _once(attachment: Attachment, window_s: float, as_json: bool) -> None:
    from vtop.session.frame import View

    answered = attachment.once()
    session = _session(attachment.recording.start, attachment.recording)
    frame = session.frame(attachment.clock(), View(window_s=window_s))
    attachment.stop("once")
    if as_json:
        _print_json(frame)
    else:
        for server in frame.servers:
            click.echo(f"{server.url}: {server.status.sentence}")
    if not answered:
        sys.exit(2)


def _screen_live(attachment: Attachment, style: Look, look: dict[str, Any]) -> None:
    from vtop.recording import Playhead
    from vtop.ui.app import VtopApp

    playhead = Playhead(attachment.clock, attachment.clock)
    app = VtopApp(attachment.recording, playhead, style, window_s=look["window_s"], hidden=_hidden(look["hide"]))
    attachment.start()
    try:
        app.run()
    finally:
        attachment.stop("quit")
    if (path := attachment.recording.path) is not None:
        click.echo(f"recorded {path}", err=True)


def _screen_replay(
    recording: FileRecording, style: Look, look: dict[str, Any], speed: float, at_s: float | None
) -> None:
    import time

    from vtop.recording import Playhead
    from vtop.session.session import Session
    from vtop.ui.app import VtopApp

    session = Session(recording.start)
    playhead = Playhead(time.monotonic, lambda: session.end_s)
    for event in recording.take(2000):
        session.apply(event)
    playhead.pause()
    playhead.seek(0.0 if at_s is None else at_s)
    playhead.speed = speed
    if at_s is None:
        playhead.play(speed)
    VtopApp(recording, playhead, style, session=session, window_s=look["window_s"], hidden=_hidden(look["hide"])).run()


def _still(session: Session, style: Look, look: dict[str, Any], now_s: float, size: tuple[int, int]) -> tuple[str, str]:
    """The screen of one instant as SVG and as text."""
    import asyncio

    from vtop.recording import Playhead
    from vtop.ui import picture
    from vtop.ui.app import VtopApp

    class Nothing:
        start = session.start

        def take(self, limit: int = 0) -> list[Any]:
            return []

    playhead = Playhead(lambda: 0.0, lambda: session.end_s)
    if now_s < session.end_s:
        playhead.pause()
        playhead.seek(now_s)
    app = VtopApp(Nothing(), playhead, style, session=session, window_s=look["window_s"], hidden=_hidden(look["hide"]))

    async def drawn() -> tuple[str, str]:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            return picture.svg(app, f"vtop {units.clock(now_s)}"), picture.text(app)

    return asyncio.run(drawn())


def _open(file: Path) -> FileRecording:
    from vtop.recording import FileRecording

    if not file.exists() and file.parent == Path():
        shipped = {path.name.partition(".")[0]: path for path in _shipped().glob("*.jsonl*")}
        if file.name in shipped:
            return FileRecording(shipped[file.name])
        if not file.suffix:
            raise VtopError(
                f"{file}: no such file; the recordings that come with vtop are {', '.join(sorted(shipped))}"
            )
    return FileRecording(file)


def _shipped() -> Path:
    """Inside the wheel recordings lie in the package; in a checkout they lie beside it."""
    inside = Path(__file__).resolve().parent / "recordings"
    return inside if inside.is_dir() else inside.parent.parent / "recordings"


def _session(start: Any, recording: Any) -> Session:
    """A recording read to its present end."""
    import gc

    from vtop.session.session import Session

    session = Session(start)
    gc.disable()  # nothing made here is garbage
    while events := recording.take(10_000):
        for event in events:
            session.apply(event)
    gc.enable()
    return session


def _look(look: dict[str, Any]) -> Look:
    import os

    from vtop.draw.look import load

    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return load(
        look["theme"], ascii=look["ascii_only"] or not encoding.startswith("utf"), colour="NO_COLOR" not in os.environ
    )


def _hidden(names: str) -> frozenset[str]:
    from vtop.draw.screen import BODY

    hidden = frozenset(name.strip() for name in names.split(",") if name.strip())
    if wrong := hidden - set(BODY):
        raise VtopError(f"--hide {sorted(wrong)[0]}: no such panel; there are {', '.join(BODY)}")
    return hidden


def _need_terminal(instead: str) -> None:
    import os

    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise VtopError(f"the screen needs a terminal; without one use {instead}")


def _print_json(frame: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(frame), indent=1).decode())


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise VtopError(f"{path}: cannot be written ({error.strerror})") from error


def _told(session: Session) -> str:
    pages = sum(len(server.t) for server in session.servers)
    failed = sum(len(server.outages) for server in session.servers)
    return f"{units.clock(session.end_s)}, {pages} pages" + (f", {failed} attempts failed" if failed else "")


if __name__ == "__main__":
    main()
