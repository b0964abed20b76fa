"""The theme and the signs follow what the terminal says about itself."""

from __future__ import annotations

import pytest

from vtop.cli.terminal import is_ascii, theme_for


@pytest.mark.parametrize(
    ("environ", "theme"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "dark"),
        ({"TERM": "xterm-256color"}, "dark"),
        ({"TERM": "tmux-256color"}, "dark"),
        ({"TERM": "xterm"}, "ansi16"),
        ({"TERM": "linux"}, "ansi16"),
        ({"TERM": "vt220"}, "ansi16"),
        ({}, "ansi16"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "dark"),
        ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "light"),
        ({"TERM": "xterm-256color", "COLORFGBG": "0;default;15"}, "light"),
        ({"TERM": "xterm-256color", "COLORFGBG": "15;0"}, "dark"),
        ({"TERM": "xterm", "COLORFGBG": "0;15"}, "ansi16"),
    ],
)
def test_the_theme_is_one_that_the_terminal_can_show(environ: dict[str, str], theme: str) -> None:
    assert theme_for(environ) == theme


@pytest.mark.parametrize(
    ("environ", "ascii"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "", "LANG": "C"}, True),
        ({"LC_ALL": "C.UTF-8"}, False),
        ({"LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, False),
        ({}, False),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, True),
    ],
)
def test_signs_are_ascii_where_no_others_are_sure_to_be_seen(environ: dict[str, str], ascii: bool) -> None:
    assert is_ascii(environ) == ascii
