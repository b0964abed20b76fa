"""Pictures of the demo and of every recording that comes with vtop, in every theme at four sizes, to be looked at.

Run from the repository: python bench/pictures.py FOLDER [--size 120x40] [--theme dark] [--columns 5]. The demo is made
on virtual time, at 5, 25 and 120 s; of a recording it is the end. A picture is SIZE-THEME-NAME.png; those of one size
and theme stand together on sheet-SIZE-THEME.png.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from PIL import Image

from vtop.cli.simulate import DEMO_CONCURRENCY, DEMO_IN, DEMO_OUT, demo_settings
from vtop.draw import theme as looks
from vtop.engine.server.request_parsing import ParsedRequest
from vtop.engine.server.virtual_recording import tape
from vtop.recording import FileRecording
from vtop.session.session import Session, read
from vtop.ui import run, screenshot

ROOT = Path(__file__).resolve().parent.parent
SIZES = ("80x24", "120x40", "200x60", "400x120")
THEMES = ("dark", "light", "contrast", "ansi16")
DEMO_S = (5.0, 25.0, 120.0)
SHEET_PX = 2800


@cache
def demo(until_s: float) -> Session:
    asked = ParsedRequest(prompts=(range(DEMO_IN),), max_tokens=DEMO_OUT, ignore_eos=True)
    recording = tape(demo_settings(), asked, DEMO_CONCURRENCY, until_s, unix_s=time.time())
    recording.close("the time is up")
    return read(recording)


@cache
def session_of(path: Path) -> Session:
    return read(FileRecording(path))


def subjects() -> Iterator[tuple[str, Session, float]]:
    """Name, session, instant."""
    for at_s in DEMO_S:
        yield f"demo{at_s:.0f}", demo(at_s), at_s
    for path in sorted((ROOT / "recordings").glob("*.jsonl*")):
        session = session_of(path)
        yield path.name.partition(".")[0], session, session.end_s


def picture(session: Session, at_s: float, size: str, theme: str) -> bytes:
    width, _, height = size.partition("x")
    drawn, _ = run.still(
        session, looks.load(theme), now_s=at_s, size=(int(width), int(height)), window_s=None, hidden=frozenset()
    )
    return screenshot.png(drawn, scale=1.0)


def sheet(files: list[Path], columns: int, to: Path) -> None:
    """The pictures side by side, each as wide as there is room for."""
    wide = SHEET_PX // columns
    pictures = []
    for file in files:
        with Image.open(file) as found:
            pictures.append(found.convert("RGB").resize((wide, round(found.height * wide / found.width))))
    tall = max(one.height for one in pictures)
    whole = Image.new("RGB", (columns * (wide + 4), -(-len(pictures) // columns) * (tall + 4)), "magenta")
    for at, one in enumerate(pictures):
        whole.paste(one, (at % columns * (wide + 4), at // columns * (tall + 4)))
    whole.save(to)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=SIZES, action="append")
    parser.add_argument("--theme", choices=THEMES, action="append")
    parser.add_argument("--columns", type=int, default=5, help="pictures side by side on a sheet")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for size in asked.size or SIZES:
        for theme in asked.theme or THEMES:
            files = []
            for name, session, at_s in subjects():
                files.append(asked.folder / f"{size}-{theme}-{name}.png")
                files[-1].write_bytes(picture(session, at_s, size, theme))
            sheet(files, asked.columns, asked.folder / f"sheet-{size}-{theme}.png")
            print(f"{size} {theme}: {len(files)} pictures", flush=True)


if __name__ == "__main__":
    main()
