"""The command line: what a person types, handed to the room that does it. Heavy imports stand inside their verb."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vtop import __version__, units
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.recording import FileRecording
    from vtop.recording.events import Target
    from vtop.session.session import Session
    from vtop.sources.attach import Attachment
    from vtop.sources.connection import Access

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL = "http://localhost:8000"


class Seconds(click.ParamType[float]):
    """90, 90s, 2m30s, 2:30."""

    name = "time"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value) if isinstance(value, float | int) else units.duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a time: write 90, 90s, 2m30s or 2:30", param, ctx)
        if seconds < self._least:
            self.fail(f"{value!r} is too short: at least {units.seconds(self._least)}", param, ctx)
        return seconds


class Number(click.FloatRange):
    """A number between two bounds; nan is between none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


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
    click.option("--interval", type=Number(0.1, 3600), default=1.0, show_default=True, metavar="S"),
    click.option("--api-key", metavar="KEY", help="Bearer key; better in VTOP_API_KEY or --api-key-file."),
    click.option("--api-key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE"),
    click.option("--header", "-H", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent along; repeatable."),
    click.option(
        "--ca-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Certificates to trust."
    ),
    click.option("--insecure", is_flag=True, help="Do not check the server's certificate."),
    click.option("--proxy", metavar="URL", help="Reach the servers through this proxy (never the loopback address)."),
    click.option("--no-gpu", is_flag=True, help="Make no NVML call."),
)

look_options = _options(
    click.option("--theme", default="dark", show_default=True, metavar="NAME", envvar="VTOP_THEME"),
    click.option("--ascii", "ascii_only", is_flag=True, envvar="VTOP_ASCII", help="No character beyond ASCII."),
    click.option(
        "--window", "window_s", type=Seconds(least=1), default=300.0, help="Time window of numbers and charts. [5m]"
    ),
    click.option("--hide", default="", metavar="PANELS", help="Panels to leave out: gpus,latencies,…"),
)


class VtopGroup(click.Group):
    """Errors of the user are one line on stderr, and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):  # a narrow encoding costs a sign, never the output
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        kwargs["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **kwargs) or 0)
        except VtopError as error:
            click.echo(f"vtop: {error}", err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            said = error.format_message().rstrip(".")
            context = getattr(error, "ctx", None)
            verb = context.command_path if context is not None else "vtop"
            click.echo(f"vtop: {said[:1].lower()}{said[1:]} ({verb} --help)", err=True)
            sys.exit(2)
        except click.Abort:  # ctrl-c
            sys.exit(130)


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
        for option in ctx.command.params:
            if ctx.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE:
                raise VtopError(f"options stand behind the verb: vtop {ctx.invoked_subcommand} {option.opts[0]} …")
        return
    record_to, once, as_json = asked.pop("record_to"), asked.pop("once"), asked.pop("as_json")
    view = _view(asked)
    watched = _watched(asked)
    if once:
        _once(_attach(asked, watched, record_to), view["window_s"], as_json)
        return
    if as_json:
        raise VtopError("--json goes with --once: vtop --once --json")
    _need_terminal("vtop record, vtop --once --json or vtop show")
    _live(asked, watched, record_to, view)


@main.command()
@server_options
@click.option("--for", "for_s", type=Seconds(least=0.1), help="Stop after this time. [until ctrl-c]")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="New file.")
def record(for_s: float | None, output: Path, **asked: Any) -> None:
    """Record without a screen: FILE.jsonl, .jsonl.gz or .jsonl.zst."""
    import signal
    import threading

    from vtop.recording import Outage, Scrape

    watched = _watched(asked)
    stop = threading.Event()
    reasons: list[str] = []

    def stopped(number: int, _: Any) -> None:
        reasons.append(signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    attachment = _attach(asked, watched, output)
    recording = attachment.recording
    clock: Callable[[], float] = attachment.clock
    pages = failed = 0
    attachment.start()
    try:
        click.echo(f"recording {', '.join(server.url for server in recording.start.servers)} to {output}", err=True)
        done = False
        while not done:
            left_s = math.inf if for_s is None else for_s - clock()
            done = stop.wait(max(0.0, min(left_s, 1.0))) or left_s <= 1.0
            for event in recording.take():  # what is on the disk need not be in memory
                pages += isinstance(event, Scrape)
                failed += isinstance(event, Outage)
            if recording.saving_to is None:
                raise VtopError(f"{output}: writing failed after {units.clock(clock())}; is the disk full?")
    finally:
        attachment.stop(reasons[0] if reasons else "time is up")
    told = f"{pages} pages" + (f", {failed} attempts failed" if failed else "")
    click.echo(f"{output}: {units.clock(clock())}, {told}", err=True)
    if not pages:
        raise VtopError("no server answered; the file holds only the attempts")


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--speed", type=Number(0.01, 10000), default=1.0, show_default=True)
@click.option("--at", "at_s", type=Seconds(), help="Start there, paused. [the beginning, moving]")
@look_options
def replay(file: Path, speed: float, at_s: float | None, **look: Any) -> None:
    """Show a recording on the same screen, also while it is still being written."""
    view = _view(look)
    recording = _open(file)
    _need_terminal(f"vtop show {file} --text")
    from vtop.ui import run

    run.replay(recording, speed=speed, at_s=at_s, **view)


@main.command()
@look_options
def demo(**look: Any) -> None:
    """Look at vtop without a server: replays a recorded overload of an H200 at five times its speed."""
    view = _view(look)
    recording = _open(Path("overload"))
    _need_terminal("vtop show overload --text")
    from vtop.ui import run

    run.replay(recording, speed=5.0, at_s=None, **view)


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
    view = _view(look)
    recording = _open(file)
    session = _session(recording.start, recording)
    if at_s is not None and at_s > session.end_s:
        raise VtopError(f"--at {units.clock(at_s)}: {file} ends at {units.clock(session.end_s)}")
    now_s = session.end_s if at_s is None else at_s
    if form == "json" and svg_to is None and png_to is None:
        from vtop.session.frame import View

        _print_json(session.frame(now_s, View(window_s=view["window_s"])))
        return
    from vtop.ui import picture, run

    drawn, plain = run.still(session, now_s=now_s, size=size, **view)
    if svg_to is not None:
        _write(svg_to, drawn.encode())
    if png_to is not None:
        _write(png_to, picture.png(drawn))
    if svg_to is None and png_to is None:
        click.echo(plain, nl=False)


# --- what the verbs share -------------------------------------------------------------------------------------------


def _view(look: dict[str, Any]) -> dict[str, Any]:
    """How to look at a session: the look itself, the window and what is hidden. Takes these options out of `look`."""
    import os

    from vtop.draw.look import load
    from vtop.draw.screen import BODY

    hidden = frozenset(name.strip() for name in look.pop("hide").split(",") if name.strip())
    if wrong := hidden - set(BODY):
        raise VtopError(f"--hide {sorted(wrong)[0]}: no such panel; there are {', '.join(BODY)}")
    encodings = [(stream.encoding or "ascii").lower() for stream in (sys.stdout, sys.stderr) if stream is not None]
    narrow = not all(encoding.startswith("utf") for encoding in encodings)
    theme, ascii_only = look.pop("theme"), look.pop("ascii_only")
    return {
        "look": load(theme, ascii=ascii_only or narrow, colour="NO_COLOR" not in os.environ),
        "window_s": look.pop("window_s"),
        "hidden": hidden,
    }


def _watched(asked: dict[str, Any]) -> tuple[list[Target], list[Access]]:
    from vtop.sources.access import access_of
    from vtop.sources.address import credentials, target

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
    return targets, access


def _attach(asked: dict[str, Any], watched: tuple[list[Target], list[Access]], path: Path | None) -> Attachment:
    from vtop.sources.attach import Attachment

    return Attachment(
        *watched,
        interval_s=asked["interval"],
        gpus=not asked["no_gpu"],
        path=path,
        argv=_argv(),
    )


def _argv() -> list[str]:
    """The command line for the record: a file's name may be no text, and -HNAME: VALUE is -H 'NAME: VALUE'."""
    words = [word.encode("utf-8", "replace").decode() for word in sys.argv[1:]]
    return [part for word in words for part in (("-H", word[2:]) if word[:2] == "-H" and word != "-H" else (word,))]


def _live(
    asked: dict[str, Any], watched: tuple[list[Target], list[Access]], path: Path | None, view: dict[str, Any]
) -> None:
    import contextlib
    import signal

    from vtop.ui import run

    def interrupted(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in ends:  # the screen takes them over as soon as it is up
        signal.signal(number, interrupted)
    attachment = _attach(asked, watched, path)
    left = "broken off"
    try:
        left = run.live(attachment.recording, attachment.clock, attachment.start, **view)
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        attachment.stop(left)
        if path is not None:
            with contextlib.suppress(OSError):  # the terminal may be gone
                click.echo(f"recorded {path}", err=True)


def _once(attachment: Attachment, window_s: float, as_json: bool) -> None:
    from vtop.draw.look import clean
    from vtop.session.frame import View

    clock: Callable[[], float] = attachment.clock
    try:
        answered = attachment.once()
        session = _session(attachment.recording.start, attachment.recording)
        frame = session.frame(clock(), View(window_s=window_s))
    finally:
        attachment.stop("once")
    if as_json:
        _print_json(frame)
    else:
        for server in frame.servers:
            click.echo(clean(f"{server.url}: {server.status.sentence}"))
    if not answered:
        sys.exit(2)


def _open(file: Path) -> FileRecording:
    """The recording in a file, or the shipped one of that name; closed when the verb is done."""
    from vtop.recording import FileRecording

    if not file.exists() and file.parent == Path():
        shipped = {path.name.partition(".")[0]: path for path in _shipped().glob("*.jsonl*")}
        if file.name not in shipped and not file.suffix:
            raise VtopError(f"{file}: no such file; with vtop come the recordings {', '.join(sorted(shipped))}")
        file = shipped.get(file.name, file)
    recording = FileRecording(file)
    click.get_current_context().call_on_close(recording.close)
    return recording


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


def _need_terminal(instead: str) -> None:
    import os

    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):
        if stream is None or not stream.isatty():  # the screen is drawn on stderr
            raise VtopError(f"the screen needs a terminal, and {name} is none; without one use {instead}")
    if os.environ.get("TERM") == "dumb":
        raise VtopError(f"the screen needs a terminal that can do more than TERM=dumb; without one use {instead}")


def _print_json(frame: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(frame), indent=1))


def _write(path: Path, content: bytes) -> None:
    try:
        with open(path, "xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise VtopError(f"{path}: exists already; name a new file, or remove it first") from error
    except OSError as error:
        raise VtopError(f"{path}: cannot be written ({error.strerror})") from error


if __name__ == "__main__":
    main()
