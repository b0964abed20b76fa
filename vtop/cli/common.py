"""What the verbs share: how to look, whom to watch, how a recording is opened, how things are reported."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from vtop import plain
from vtop.cli import progress
from vtop.cli.options import DEFAULT_THEME, DEFAULT_URL
from vtop.errors import VtopError
from vtop.shipped import folder

if TYPE_CHECKING:
    from vtop.access import Access
    from vtop.recording import FileRecording, LiveRecording
    from vtop.recording.events import Target
    from vtop.report.render.document import Document
    from vtop.sources.attach import Attachment
    from vtop.sources.prometheus.follow import PrometheusAttachment

ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def without_collections() -> Iterator[None]:
    """For a screen's start: what modules make stays, and the garbage collector would take a tenth of the start to find
    that out."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def view_of(look: dict[str, Any], *, document: bool = False) -> dict[str, Any]:
    """How to look at a session: the look itself, the window and what is hidden. Takes these options out of `look`.

    What is not asked for is on a screen as it was on the last one, with one's own keys; a `document` is the same for
    everybody, whatever the terminal can show.
    """
    from vtop.cli.terminal import is_ascii, theme_for
    from vtop.draw.layout import body
    from vtop.draw.theme import load, names

    last = None
    if not document:
        from vtop.ui import remembered

        last = remembered.load()
    hide = look.pop("hide")
    hidden = frozenset(name.strip() for name in (hide or "").split(",") if name.strip())
    if wrong := hidden - set(body()):
        raise VtopError(f"--hide {sorted(wrong)[0]}: no such panel; there are {', '.join(body())}")
    encodings = [(stream.encoding or "ascii").lower() for stream in (sys.stdout, sys.stderr) if stream is not None]
    narrow = not all(encoding.startswith("utf") for encoding in encodings)
    theme, ascii_only = look.pop("theme"), look.pop("ascii_only") or is_ascii(os.environ)
    if theme is None:
        theme = DEFAULT_THEME if document else theme_for(os.environ)
        if last is not None and last.theme in names() and theme != "ansi16":  # which is what such a terminal can show
            theme = last.theme
    window_s = look.pop("window_s")
    view = {"look": load(theme, ascii=ascii_only or narrow, colour="NO_COLOR" not in os.environ)}
    if last is None:
        return view | {"window_s": window_s, "hidden": hidden}
    from vtop.cli.config import own_keys
    from vtop.ui.keys import mapped

    if hide is None:
        hidden = frozenset(last.hidden) & set(body())
    return view | {
        "window_s": window_s if window_s is not None else last.window_s,
        "hidden": hidden,
        "keys": mapped(own_keys()),
    }


def servers_of(asked: dict[str, Any]) -> tuple[list[Target], list[Access]]:
    from vtop.sources.access import access_of
    from vtop.sources.address import credentials, target

    urls = asked["urls"]
    labels: dict[str, dict[str, str]] = {}
    if asked.get("targets") is not None:
        from vtop.sources.targets import listed_in

        listed = listed_in(asked["targets"])
        labels = {one.url: one.labels for one in listed}
        urls = (*urls, *labels)
    urls = urls or (DEFAULT_URL,)
    targets = [msgspec.structs.replace(target(url), labels=labels.get(url, {})) for url in urls]
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


def attached(
    asked: dict[str, Any],
    servers: tuple[list[Target], list[Access]],
    path: Path | None,
    *,
    watch: bool = True,
    filed: bool = True,
) -> Attachment:
    from vtop.sources.attach import Attachment

    attachment = Attachment(
        *servers,
        interval_s=asked["interval"],
        gpus=not asked["no_gpu"],
        path=path,
        argv=[word.encode("utf-8", "replace").decode() for word in sys.argv[1:]],  # a file's name may be no text
        watch=watch,
        shape=asked.get("shape") or given_shape(asked.get("model_config")),
        origin=asked.get("origin"),
        filed=filed,
    )
    if asked.get("targets") is not None and watch:
        attachment.follow(asked["targets"], lambda: servers_of(asked))
    return attachment


def given_shape(config: Path | None) -> dict[str, int | str] | None:
    """What --model-config says."""
    if config is None:
        return None
    from vtop.sources.shape import told_shape

    return told_shape(config)


def open_recording(file: Path, config: Path | None = None, slo: str | None = None) -> FileRecording:
    """The recording in a file, or the shipped one of that name; closed when the verb is done. `config` tells of the
    model's shape where the recording does not; `slo`: bounds that its load is judged by, in place of its own."""
    from vtop.recording import JudgedRecording

    if not file.exists() and file.parent == Path():
        shipped = {path.name.partition(".")[0]: path for path in folder("recordings").glob("*.jsonl*")}
        if file.name not in shipped and not file.suffix:
            raise VtopError(f"{file}: no such file; with vtop come the recordings {', '.join(sorted(shipped))}")
        file = shipped.get(file.name, file)
    shape = given_shape(config)
    recording = JudgedRecording(file)
    if shape is not None:
        recording.know(shape)
    if slo is not None:
        from vtop.load.workload.spec import slo as bounds_of

        recording.judge(bounds_of(slo).record())
    click.get_current_context().call_on_close(recording.close)
    progress.watched(file.name, recording)
    return recording


def need_load(slo: str | None, file: Path, *, loaded: bool) -> None:
    """Raises VtopError where bounds were asked for and nothing is on record that they could judge."""
    if slo is not None and not loaded:
        raise VtopError(
            f"--slo {slo}: {file} holds no load of vtop's own; a server's histograms do not tell which requests kept "
            "several bounds at once"
        )


def need_terminal(instead: str) -> None:
    if (lacking := no_terminal()) is not None:
        raise VtopError(f"the screen needs a terminal{lacking}; without one use {instead}")


def no_terminal() -> str | None:
    """What there is instead of a terminal that a screen can be drawn on; None where there is one."""
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):
        if stream is None or not stream.isatty():  # the screen is drawn on stderr
            return f", and {name} is none"
    return " that can do more than TERM=dumb" if os.environ.get("TERM") == "dumb" else None


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """The one way for text of a verb to stdout or stderr: whatever it quotes can do no harm to a terminal."""
    if (line := progress.current()) is not None:
        line.aside()
    click.echo(plain.lines(str(text)), err=err, nl=nl)


def echo_document(document: bytes, form: str) -> None:
    """A document on stdout; json stays the same document."""
    text = document.decode()
    click.echo(plain.json(text) if form == "json" else plain.lines(text), nl=False)


def print_json(frame: Any) -> None:
    import msgspec

    echo_document(msgspec.json.format(msgspec.json.encode(frame), indent=1) + b"\n", "json")


def write(path: Path, content: bytes) -> None:
    """To a new file, which is there only when it is whole; "-" is stdout. Raises VtopError."""
    from vtop.export.files import STDOUT, new_file

    if path != STDOUT and os.path.lexists(path):
        raise VtopError(f"{path}: exists already; name a new file, or remove it first")
    with new_file(path, force=False, packed=False) as file:
        file.write(content)


class Stop:
    """Until SIGINT, SIGTERM or SIGHUP: `reason` says which came first."""

    def __init__(self, ends: Sequence[int] = ENDS) -> None:
        self._came = threading.Event()
        self._names: list[str] = []
        for number in ends:
            signal.signal(number, self._stopped)

    def _stopped(self, number: int, _: Any) -> None:
        self._names.append(signal.Signals(number).name)
        self._came.set()

    def wait(self, seconds: float) -> bool:
        """Whether one came within so many seconds."""
        return self._came.wait(seconds)

    @property
    def reason(self) -> str:
        return self._names[0] if self._names else "time is up"


def signals_end() -> None:
    """Until a screen takes the signals over, one of them ends the command with its exit code."""

    def interrupted(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    for number in ENDS:
        signal.signal(number, interrupted)


def screen_over(attachment: Attachment | PrometheusAttachment, reason: str, *beside: Callable[[], None]) -> None:
    """Stop what ran beside a screen and then the watching, whatever signals come meanwhile; say what was saved."""
    from vtop.ui.keeping import said_of

    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)
    for stop in beside:
        stop()
    attachment.stop(reason)
    with suppress(OSError):  # the terminal may be gone
        for saved in attachment.recording.saved:
            echo(said_of(saved), err=True)


def whole(recording: LiveRecording) -> None:
    """Raises VtopError where what was to be recorded is not all in its file."""
    if recording.lost:
        raise VtopError("; ".join(recording.lost))


def put(output: Path | None, content: Document | bytes, form: str) -> None:
    """A document, or the bytes of one, into its file or on stdout; there a terminal gets its width and its colours."""
    if output is None and form == "txt" and sys.stdout.isatty() and not isinstance(content, bytes):
        from rich.console import Console

        from vtop.report.render.terminal import show

        show(content, Console())
        return
    if not isinstance(content, bytes):
        from vtop.report.render.forms import written

        try:
            content = written(content, form)
        except ModuleNotFoundError as error:
            needed = f"{form} needs the package {error.name}, which vtop installs with itself; md and json need none"
            raise VtopError(needed) from error
    if output is None:
        echo_document(content, form)
    else:
        write(output, content)
        echo(str(output), err=True)


def form_of(output: Path | None, form: str | None, forms: Sequence[str], *, without: str = "txt") -> str:
    """The form to write, one of `forms`: as asked, by the file's ending, or `without` a file.

    Raises VtopError for an ending that tells none of them.
    """
    if form is not None:
        return form
    if output is None:
        return without
    from vtop.report.render.forms import FORMS

    known = FORMS.get(output.suffix.lower())
    if known is None or known not in forms:
        endings = [f".{one}" for one in forms]
        raise VtopError(
            f"-o {output}: of which form? End it in {', '.join(endings[:-1])} or {endings[-1]}, or say --format"
        )
    return known
