"""Times the reading of a metrics page: vtop's parser, new and warmed up, beside prometheus_client.

Run from the repository: python bench/parse.py. A warm parser gets the same series with other numbers each time, as in a
session; the pages of tests/scrapes stand for a server each. Every time is the least of several runs.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from prometheus_client.parser import text_string_to_metric_families

from vtop.metrics.exposition import Parser

PAGES = Path(__file__).resolve().parent.parent / "tests" / "scrapes"
RUNS = 30


def least_s(read: Callable[[str], object], texts: list[str]) -> float:
    """Seconds for one page, the least over texts."""
    best = float("inf")
    for text in texts:
        start = perf_counter()
        read(text)
        best = min(best, perf_counter() - start)
    return best


def later_pages(text: str) -> list[str]:
    """The same page with every value that is not 0 moved a little, once for each run."""
    return [re.sub(r"(?m)^([^#\n].* )([1-9].*)$", rf"\g<1>{run}\2", text) for run in range(1, RUNS + 1)]


def main() -> None:
    print(f"{'page':40} {'lines':>6} {'cold ms':>8} {'warm ms':>8} {'client ms':>10} {'ratio':>6}")
    totals = [0.0, 0.0, 0.0]
    for path in sorted(PAGES.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        texts = later_pages(text)
        parser = Parser()
        parser.parse(text)
        cold_s = least_s(lambda page: Parser().parse(page), texts)
        warm_s = least_s(parser.parse, texts)
        client_s = least_s(lambda page: list(text_string_to_metric_families(page)), texts)
        row(path.stem, text.count("\n"), cold_s, warm_s, client_s)
        totals = [a + b for a, b in zip(totals, (cold_s, warm_s, client_s), strict=True)]
    row("all", None, *totals)
    print(f"Python {sys.version.split()[0]}, least of {RUNS} runs")


def row(name: str, lines: int | None, cold_s: float, warm_s: float, client_s: float) -> None:
    figures = f"{cold_s * 1e3:8.2f} {warm_s * 1e3:8.3f} {client_s * 1e3:10.2f} {client_s / warm_s:5.0f}x"
    print(f"{name:40} {lines or '':>6} {figures}")


if __name__ == "__main__":
    main()
