"""The HTML report in a real browser that has no network: it asks for nothing, complains of nothing, and can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report import test_written
from tests.report.chromium import Chromium, found

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(found() is None, reason="needs Chromium"),
    pytest.mark.xdist_group("chromium"),  # started once
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(test_written.page(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    opened = Chromium(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_asks_for_nothing_and_complains_of_nothing(browser: Chromium, page: Path, scheme: str) -> None:
    browser.open(page, scheme=scheme)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_it_follows_the_reader_s_preference(browser: Chromium, page: Path, scheme: str, dark: bool) -> None:
    browser.open(page, scheme=scheme)
    red = int(browser.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"))
    assert (red < 128) is dark
    fill = "getComputedStyle(document.querySelector('svg text')).fill.match(/\\d+/)[0]"
    assert (int(browser.value(fill)) > 128) is dark  # what is written in a figure stands out from it


def test_no_part_of_it_is_wider_than_the_page(browser: Chromium, page: Path) -> None:
    browser.open(page, scheme="light", width=1100)
    assert browser.value("document.documentElement.scrollWidth") <= 1100


def test_a_name_is_shown_and_not_run(browser: Chromium, page: Path) -> None:
    browser.open(page, scheme="light")
    assert browser.value("document.querySelectorAll('img').length") == 0
    titles = browser.value("[...document.querySelectorAll('h2')].map(title => title.textContent)")
    assert titles[1].startswith("</script><img src=x onerror=alert(1)>")


def test_it_prints(browser: Chromium, page: Path) -> None:
    browser.open(page, scheme="dark")
    assert browser.paper().startswith(b"%PDF")


def test_long_tables_are_folded_on_a_screen_and_open_on_paper(browser: Chromium, page: Path) -> None:
    browser.open(page, scheme="light")
    heights = "[...document.querySelectorAll('details.table')].map(one => one.getBoundingClientRect().height)"
    folded = browser.value(heights)
    assert folded
    assert max(folded) < 60
    browser.tell("Emulation.setEmulatedMedia", media="print")
    assert min(browser.value(heights)) > 80
    browser.tell("Emulation.setEmulatedMedia", media="screen")
