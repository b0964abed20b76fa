"""Themes can be read by all who look: enough contrast, parts told apart by the colour-blind, no colour needed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from rich.color import Color

from vtop.draw.theme import ROLES, load, look, names
from vtop.errors import VtopError

THEMES = Path(__file__).parents[2] / "themes"
LEAST = {"dark": 4.5, "light": 4.5, "contrast": 7.0}
NEIGHBOURS = (("queue", "prefill"), ("prefill", "frontend"), ("queue", "frontend"), ("decode", "prefill"))
# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
EYES = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def linear(colour: str) -> tuple[float, ...]:
    parts = (part / 255 for part in Color.parse(colour).get_truecolor())
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def contrast(one: str, other: str) -> float:
    dark, bright = sorted(
        sum(w * part for w, part in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True)) for c in (one, other)
    )
    return (bright + 0.05) / (dark + 0.05)


def lab(colour: str, eye: str) -> tuple[float, float, float]:
    rgb = [min(1.0, max(0.0, sum(m * c for m, c in zip(row, linear(colour), strict=True)))) for row in EYES[eye]]
    r, g, b = rgb
    xyz = ((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b,
           (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089)  # fmt: skip
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("name", sorted(LEAST))
def test_text_stands_out_from_the_background(name: str) -> None:
    theme = load(name)
    for role in ROLES:
        if role not in ("border", "number", "key"):
            for ground in ("background", "panel"):
                assert contrast(theme.colours[role], theme.colours[ground]) >= LEAST[name], (role, ground)


@pytest.mark.parametrize("name", sorted(LEAST))
@pytest.mark.parametrize("eye", EYES)
def test_neighbours_in_a_bar_differ_for_every_eye(name: str, eye: str) -> None:
    colours = load(name).colours
    for one, other in NEIGHBOURS:
        apart = sum((a - b) ** 2 for a, b in zip(lab(colours[one], eye), lab(colours[other], eye), strict=True)) ** 0.5
        assert apart >= 15, (one, other, apart)


def test_neighbours_in_a_bar_differ_in_sixteen_colours() -> None:
    colours = load("ansi16").colours
    assert all(colours[one] != colours[other] for one, other in NEIGHBOURS)
    for colour in colours.values():
        assert colour == "default" or (Color.parse(colour).number or 0) < 8


def test_without_colour_there_is_none_and_states_still_differ() -> None:
    plain = load("dark", colour=False)
    for styles in (plain.styles, plain.faded.styles if plain.faded else {}):
        assert all(style.color is None and style.bgcolor is None for style in styles.values())
    assert plain.styles["bad"].reverse
    assert plain.styles["dim"].dim


def test_themes_are_found() -> None:
    assert set(names()) == {"dark", "light", "contrast", "ansi16"}
    assert not load("light").dark


def test_an_unknown_or_broken_theme_says_what_there_is() -> None:
    whole = tomllib.loads((THEMES / "dark.toml").read_text("utf-8"))
    with pytest.raises(VtopError, match=r"no theme 'drak': there are ansi16, contrast, dark, light"):
        load("drak")
    with pytest.raises(VtopError, match=r"no colour for 'queue'.*ansi16"):
        look("mine", {key: value for key, value in whole.items() if key != "queue"})
    with pytest.raises(VtopError, match=r"must say dark"):
        look("mine", whole | {"dark": "yes"})
    with pytest.raises(VtopError, match=r"theme 'mine': .*ansi16"):
        look("mine", whole | {"queue": "octarine"})
    with pytest.raises(VtopError, match="no theme"):
        load("../dark")
