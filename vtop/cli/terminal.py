"""What the terminal can show, by what its environment says: which theme, and whether more than ASCII."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT_BACKGROUNDS = ("7", "15")  # of sixteen: white and bright white


def theme_for(environ: Mapping[str, str]) -> str:
    """The theme where none is asked for: of 16 colours where there are no more, light on a light background.

    COLORFGBG is "foreground;background" (rxvt, Konsole and others).
    """
    from rich.console import Console

    system = Console(_environ=environ, force_terminal=True, stderr=True).color_system
    if system not in ("256", "truecolor"):
        return "ansi16"
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in LIGHT_BACKGROUNDS else "dark"


def is_ascii(environ: Mapping[str, str]) -> bool:
    """Whether only ASCII is sure to be seen: the locale is C, which Python itself would take for UTF-8, or it is the
    console of Linux, whose fonts have few signs."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    return locale in ("C", "POSIX") or environ.get("TERM") == "linux"
