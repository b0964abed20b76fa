"""Figures as inline SVG, by Altair and vl-convert: offline, in the colours of the page, light or dark.

Colours go into the chart as placeholders, one hex number for each role, and come out as CSS variables, so the page's
style decides, also when the reader's preference changes. Ids are made unique, as all SVGs of a page share one space.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, Final
from xml.sax.saxutils import escape

import altair as alt
import vl_convert

from vtop.report.figures.figure import Figure, FigurePanel, Series

WIDTH: Final = 1060  # as wide as the page
MANY_TENS: Final = 6  # powers of ten: of more, only they are marked
CLEAR: Final = 0.03  # of the axis, between two marks
WIDEST: Final = 72  # of a bar
TENTHS: Final = 0.045  # of an axis of shares: on a shorter one whole per cents would stand twice
_LETTER: Final = 6.5  # of a label, about, in the same unit
ROLES: Final = (
    "text", "dim", "border", "running", "waiting", "queue", "prefill", "decode", "frontend", "network", "kv",
    "preemption", "power", "limit", "bad", "panel",
)  # fmt: skip
_PLACEHOLDER: Final = {role: f"#0{at:02x}fe{at % 10}" for at, role in enumerate(ROLES)}
_COLOURS: Final = re.compile("|".join(map(re.escape, _PLACEHOLDER.values())), re.IGNORECASE)
_ROLE_OF: Final = {colour: role for role, colour in _PLACEHOLDER.items()}
# what XML does not allow, and the two line ends that Vega's expressions break at
_NOT_TEXT: Final = re.compile("[^\t\n\r\x20-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [1, 3], [10, 4], [4, 1], [3, 6])
_CLOCK: Final = (
    "(datum.value >= 3600 ? floor(datum.value / 3600) + ':' + format(floor(datum.value % 3600 / 60), '02d') : "
    "floor(datum.value / 60)) + ':' + format(floor(datum.value % 60), '02d')"
)
_SI: Final = "format(datum.value, '~s') + (datum.value ? 's' : '')"  # 10 ms as 10ms
_ABOVE: Final = "datum.value >= 1 ? 'all' : 'p' + format(100 * (1 - datum.value), '.6~g')"  # 0.01 above is p99
Tables = dict[str, list[dict[str, Any]]]
_VEGA_LITE: Final = "6.1"  # the latest that vl-convert 1.8 and 1.9 both know


def svg(figure: Figure) -> str:
    """One SVG element. Every text in it is escaped, and nothing in it asks for anything from outside."""
    spec = chart(figure)
    drawn = vl_convert.vegalite_to_svg(spec, vl_version=_VEGA_LITE)
    return _for_page(drawn, figure)


def chart(figure: Figure) -> dict[str, Any]:
    """The figure in Vega-Lite's words. Data stand beside the chart: Altair would look at every point of them."""
    tables: Tables = {}
    panels = [_panel(figure, number, tables) for number in range(len(figure.panels))]
    abreast = figure.x_kind == "category" and len(panels) > 1
    together: Any = alt.hconcat(*panels, spacing=24) if abreast else alt.vconcat(*panels, spacing=10)
    together = together.resolve_scale(color="independent", strokeDash="independent").configure(**_config())
    return {**together.to_dict(), "datasets": tables}


def _config() -> dict[str, Any]:
    text, dim, border = (_PLACEHOLDER[role] for role in ("text", "dim", "border"))
    return {
        "background": "transparent",
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": 24},  # the reader's letters may be wider than these
        "font": "system-ui, sans-serif",
        "view": {"stroke": "transparent"},
        "axis": {
            "labelColor": dim,
            "titleColor": dim,
            "titleFontWeight": "normal",
            "domainColor": border,
            "tickColor": border,
            "gridColor": border,
            "gridOpacity": 0.5,
            "labelLimit": 160,
            "labelFontSize": 11,
            "titleFontSize": 12,
        },
        "axisY": {"minExtent": 46},  # titles stand clear of the labels, and panels begin at one line
        "legend": {
            "labelColor": text,
            "title": None,
            "orient": "top",
            "labelLimit": 300,
            "labelFontSize": 12,
            "columnPadding": 36,
            "symbolStrokeWidth": 2,
        },
    }


def _panel(figure: Figure, number: int, tables: Tables) -> Any:
    panel, many = figure.panels[number], len(figure.panels)
    abreast = figure.x_kind == "category" and many > 1
    # one axis below all of them, where they stand on one another
    x = _Axis(figure, (WIDTH - 60 * (many - 1)) / many if abreast else WIDTH, titled=abreast or number == many - 1)
    layers = [*_shades(figure, x, tables), *(_marks(panel, style, x, tables) for style in _styles(panel))]
    layers += _ticks(figure, x, tables) + _rules(panel, x, tables)
    height = 240 if abreast else 300 if many == 1 or figure.x_kind == "category" else 150
    return alt.layer(*layers).properties(width=x.width, height=height)


def _of(rows: list[dict[str, Any]], tables: Tables) -> Any:
    """A chart of some rows."""
    name = f"rows{len(tables)}"
    tables[name] = rows
    return alt.Chart(alt.NamedData(name))


def _styles(panel: FigurePanel) -> list[str]:
    return list(dict.fromkeys(series.style for series in panel.series))


def _marks(panel: FigurePanel, style: str, x: _Axis, tables: Tables) -> Any:
    """All series of one style."""
    series = [one for one in panel.series if one.style == style]
    base = _of([row for place, one in enumerate(series) for row in _rows(one, place)], tables)
    cut = panel.bottom is not None  # what lies below the axis is not drawn
    mark: Any = {
        "line": lambda: base.mark_line(strokeWidth=1.6, clip=cut, point=_pointed(series, x, filled=True)),
        "dashed": lambda: base.mark_line(
            strokeWidth=1.4, clip=cut, strokeDash=[5, 4], point=_pointed(series, x, filled=False)
        ),
        "step": lambda: base.mark_line(strokeWidth=1.6, interpolate="step-after"),
        "points": lambda: base.mark_point(size=60, strokeWidth=2, filled=False),
        "bar": lambda: base.mark_bar(size=x.bar(1 if panel.stacked else len(series))),
        "area": lambda: base.mark_area(opacity=0.75, line=False),
    }[style]()
    return mark.encode(**_encoding(panel, style, x))


def _pointed(series: Sequence[Series], x: _Axis, *, filled: bool) -> Any:
    few = x.kind == "category" or max(len(one.points) for one in series) <= (20 if x.kind == "log" else 160)
    return {"size": 24, "filled": filled} if few and (filled or x.kind == "category") else False


def _rows(series: Series, place: int) -> list[dict[str, Any]]:
    """A gap ends a line: each span between gaps is a run of its own."""
    rows, run = [], 0
    for x, y in series.points:
        if y is None:
            run += 1
            continue
        at = _clean(x) if isinstance(x, str) else x
        rows.append({"x": at, "y": y, "name": _clean(series.name), "run": run, "place": place})
    return rows


def _encoding(panel: FigurePanel, style: str, x: _Axis) -> dict[str, Any]:
    names = [_clean(one.name) for one in panel.series]
    alone = len(panel.series) == 1
    scale = alt.Scale(domain=names, range=[_PLACEHOLDER[one.role] for one in panel.series])
    legend = None if alone else alt.Legend(columns=_abreast(names, x.width))
    found: dict[str, Any] = {
        "x": x.of("x"),
        "y": _y(panel, "y", stacked=panel.stacked and style in ("bar", "area")),
        "color": alt.Color("name:N", scale=scale, sort=names, legend=legend),
    }
    if panel.stacked and style in ("bar", "area"):
        found["order"] = alt.Order("place:Q")
    elif style == "bar" and not alone:
        found["xOffset"] = alt.XOffset("name:N", sort=names)
    if style in ("line", "dashed", "step", "area"):
        found["detail"] = alt.Detail("run:N")
    if style == "step" and not alone:  # curves of phases: told apart without colour
        dashes = [_DASHES[at % len(_DASHES)] for at in range(len(names))]
        found["strokeDash"] = alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=dashes), legend=None)
    if style == "points" and not alone:
        found["shape"] = alt.Shape("name:N", scale=alt.Scale(domain=names), legend=None)
    return found


class _Axis:
    """The horizontal axis of a panel, the same for every mark on it."""

    def __init__(self, figure: Figure, most: float, *, titled: bool) -> None:
        self.kind = figure.x_kind
        self.title = (figure.x_title or None) if titled else None
        self.titled = titled
        every = (str(x) for panel in figure.panels for one in panel.series for x, _ in one.points)
        self.order = list(dict.fromkeys(map(_clean, every))) if self.kind == "category" else []
        self.width = most
        self._seconds = figure.x_title == "seconds"
        self._places = _places(figure) if self.kind == "log" else []

    def bar(self, abreast: int) -> float:
        """How wide a bar is, of so many beside each other: never a wall."""
        return min(WIDEST / abreast, 0.7 * self.width / max(1, len(self.order)) / abreast)

    def of(self, field: str) -> Any:
        if self.kind == "category":
            longest = max(map(len, self.order), default=0)
            crowded = longest * _LETTER > self.width / max(1, len(self.order))
            axis = alt.Axis(labelAngle=-30 if crowded else 0)
            return alt.X(f"{field}:N", sort=self.order, title=self.title, axis=axis)
        if self.kind == "time":
            axis = alt.Axis(labelExpr=_CLOCK, grid=False, labels=self.titled, tickCount=14)
            return alt.X(f"{field}:Q", title=self.title, scale=alt.Scale(nice=False), axis=axis)
        if self.kind == "log":
            marks = _marks_125(self._places) if self._seconds else _loads(self._places)
            axis = alt.Axis(labelExpr=_SI, values=marks) if self._seconds else alt.Axis(format="~r", values=marks)
            return alt.X(f"{field}:Q", title=self.title, scale=alt.Scale(type="log", nice=False), axis=axis)
        scale = alt.Scale(zero=False, padding=20)
        return alt.X(f"{field}:Q", title=self.title, scale=scale, axis=alt.Axis(tickCount=8))


def _abreast(names: Sequence[str], width: float) -> int:
    """Names of a legend in one row, so that it is no wider than its panel."""
    return max(1, int(width / (max(map(len, names)) * (_LETTER + 0.5) + 60)))


def _places(figure: Figure) -> list[float]:
    """Where a figure over numbers has points, in order."""
    series = (one for panel in figure.panels for one in panel.series)
    return sorted({float(x) for one in series for x, y in one.points if y is not None and not isinstance(x, str)})


def _marks_125(places: Sequence[float]) -> list[float]:
    """1, 2 and 5 times the powers of ten between the first place and the last: labels that do not touch."""
    if not places:
        return []
    tens = range(floor(log10(places[0])), ceil(log10(places[-1])) + 1)
    steps = (1, 2, 5) if len(tens) <= MANY_TENS else (1,)
    return [mark for ten in tens for step in steps if places[0] <= (mark := float(f"{step}e{ten}")) <= places[-1]]


def _loads(places: Sequence[float]) -> list[float]:
    """The loads themselves, where they are few, as far as they stand clear of the one before."""
    kept: list[float] = []
    for place in places:
        if not kept or log10(place / kept[-1]) > CLEAR * log10(places[-1] / places[0]):
            kept.append(place)
    return kept


def _tens(low: float, high: float) -> list[float]:
    """The powers of ten around some values."""
    return [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]


def _decades(least: float) -> list[float]:
    return [10.0**-power for power in range(round(-log10(least)) + 1)]


def _y(panel: FigurePanel, field: str, *, stacked: bool = False) -> Any:
    known = [y for one in panel.series for _, y in one.points if y is not None]
    top = panel.top if panel.top is not None else 1.0 if known and not any(known) else None  # all are 0
    if panel.log:
        known_ends = panel.bottom is not None and panel.top is not None
        scale = alt.Scale(type="log", domain=[panel.bottom, panel.top]) if known_ends else alt.Scale(type="log")
    elif panel.bottom is not None:
        most = panel.top if panel.top is not None else max([*known, panel.bottom]) * 1.02
        scale = alt.Scale(domain=[panel.bottom, most], zero=False, nice=False)
    else:
        scale = alt.Scale(domainMin=0, domainMax=top) if top is not None else alt.Scale(zero=True)
    high = sorted(y for y in known if y > 0)
    marks: dict[str, Any] = {"values": _tens(high[0], high[-1])} if panel.log and high else {"tickCount": 5}
    narrow = panel.top is not None and panel.bottom is not None and panel.top - panel.bottom < TENTHS
    axis = {
        "s": lambda: alt.Axis(labelExpr=_SI, **marks),
        "share": lambda: alt.Axis(format=".1%" if narrow else ".0%", tickCount=5),
        "above": lambda: alt.Axis(labelExpr=_ABOVE, values=_decades(panel.bottom or 1e-3)),
        "": lambda: alt.Axis(**marks),
    }[panel.unit]()
    return alt.Y(f"{field}:Q", title=panel.title, scale=scale, axis=axis, stack="zero" if stacked else None)


def _shades(figure: Figure, x: _Axis, tables: Tables) -> list[Any]:
    if not figure.shades:
        return []
    rows = [{"from": begin, "to": end, "what": _clean(what)} for begin, end, what in figure.shades]
    base = _of(rows, tables)
    shade = base.mark_rect(color=_PLACEHOLDER["dim"], opacity=0.13).encode(x=x.of("from"), x2="to:Q")
    if len(rows) < 2:
        return [shade]
    words = base.mark_text(align="left", baseline="top", dx=2, dy=-10, fontSize=9, color=_PLACEHOLDER["dim"]).encode(
        x=x.of("from"), y=alt.value(0), text="what:N"
    )
    return [shade, words]


def _ticks(figure: Figure, x: _Axis, tables: Tables) -> list[Any]:
    if not figure.ticks:
        return []
    base = _of([{"at": at} for at in figure.ticks], tables)
    return [base.mark_rule(color=_PLACEHOLDER["preemption"], strokeWidth=1, opacity=0.8).encode(x=x.of("at"))]


def _rules(panel: FigurePanel, x: _Axis, tables: Tables) -> list[Any]:
    found = []
    for rule in panel.rules:
        base = _of([{"at": rule.at, "name": _clean(rule.name)}], tables)
        colour = _PLACEHOLDER[rule.role]
        found.append(base.mark_rule(color=colour, strokeDash=[6, 3]).encode(y=_y(panel, "at")))
        words = base.mark_text(align="left", baseline="middle", dx=4, color=colour, fontSize=11)  # beside the data
        found.append(words.encode(x=alt.value(x.width), y=_y(panel, "at"), text="name:N"))
    return found


def _clean(text: str) -> str:
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def _for_page(drawn: str, figure: Figure) -> str:
    """The SVG with a title and a description of its own, the page's colours, and ids that no other SVG has."""
    named = f'role="img" aria-labelledby="{figure.key}-title {figure.key}-alt"'
    told = (
        f'<title id="{figure.key}-title">{escape(_clean(figure.title))}</title>'
        f'<desc id="{figure.key}-alt">{escape(_clean(figure.alt))}</desc>'
    )
    drawn = re.sub(r"<svg\b([^>]*)>", lambda found: f"<svg {named}{_sized(found.group(1))}>{told}", drawn, count=1)
    drawn = re.sub(r'\bid="((?:clip|gradient)\w*)"', rf'id="{figure.key}-\1"', drawn)
    drawn = re.sub(r"url\(#((?:clip|gradient)\w*)\)", rf"url(#{figure.key}-\1)", drawn)
    drawn = re.sub(r'\saria-(?:label|roledescription|hidden)="[^"]*"|\srole="graphics-[a-z]+"', "", drawn)
    return _COLOURS.sub(lambda found: f"var(--{_ROLE_OF[found.group().lower()]})", drawn)


def _sized(attributes: str) -> str:
    """Without a fixed size: as wide as the page lets it be."""
    wide = re.search(r'\bwidth="([\d.]+)"', attributes)
    kept = re.sub(r'\s(?:width|height|class|version|xmlns:xlink)="[^"]*"', "", attributes)
    return kept + (f' style="max-width:{wide.group(1)}px"' if wide is not None else "")


def palette(colours: Mapping[str, str]) -> str:
    """The CSS variables that the SVGs and the page ask for."""
    return "".join(f"--{role}:{colours[role]};" for role in ROLES)
