"""Each panel draws the field that its help row names, and draws no number that no row explains.

Frames are real ones; one field at a time is set to a number that stands nowhere else, and the panel must then show
that number. So a row that names one field while its panel draws another cannot pass, whatever both hold in a recording.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any, Final

from tests.draw.loads import searched
from tests.draw.panels import DRAW, text
from tests.session.made import recorded
from vtop import units
from vtop.draw import theme as looks
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.tokens import AcceptedAt, FailedTransfers, Lora, PrefixCache, PromptSource, Speculation
from vtop.session.glossary.number import Number
from vtop.session.glossary.numbers import NUMBERS

LOOK: Final = looks.load("dark")
SIZE: Final = (160, 30)
FRAMES: Final = (
    ("overload_loaded", 100.0),
    ("sweep", None),
    ("open_loop", None),
    ("overload", 100.0),
    ("killed", 40.0),
)
ON = [number for number in NUMBERS if number.on_screen]
# Of the screen itself: no numbers of a server.
OF_THE_SCREEN: Final = {"now_s", "window_s", "interval_s", "gpus.index"}
AS_SHARES: Final = {"wallclock.decode_s"}  # drawn as a share of the window
WAYS: Final = (
    units.count, units.number, units.percent, units.whole_percent, units.seconds, units.span, units.clock, units.ago,
    units.uptime, units.bytes_, units.gib, units.short, units.short_count, units.watts, units.joules, units.plain,
    lambda value: f"{value:.1f} ×", lambda value: f"{value * 100:+.1f}", lambda value: f"{value * 100:+.0f} %",
    lambda value: f"{value / 1e12:,.1f}", lambda value: f"{value / 1e12:,.2f}", lambda value: f"{value:.3f}",
    lambda value: f"p{value:g}", units.significant,
)  # fmt: skip


# parts of a frame that no shipped recording has
UNRECORDED: Final[dict[str, Any]] = {
    "speculation": Speculation(100.0, 50.0, 300.0, 210.0, 0.7, 3.0, 2.1, 3.1, (AcceptedAt(1, 0.8), AcceptedAt(2, 0.4))),
    "prompt_sources": (PromptSource("computed", 600.0, 0.6), PromptSource("connector", 400.0, 0.4)),
    "failed_transfers": FailedTransfers(3.0, 9.0, (("NIXL transfers", 3.0),)),
    "lora": Lora(("ad1", "ad2"), 4, 2.0),
    "capacity": searched(),
}


@functools.cache
def frame_of(name: str, at_s: float | None) -> Frame:
    session = recorded(name)
    frame = session.frame(session.end_s if at_s is None else at_s, View(columns=60))
    hits = PrefixCache(hit_ratio=0.25, hit_tokens=250.0, asked_tokens=1000.0, lifetime_ratio=0.5, recompute=False)
    load = frame.load and dataclasses.replace(frame.load, slot_wait=frame.load.ttft)  # under a cap, likewise
    caching = dataclasses.replace(frame.kv, prefix_caching=True)  # which no shipped recording has
    return dataclasses.replace(frame, kv=caching, prefix_cache=hits, load=load, **UNRECORDED)


def drawn(frame: Frame) -> dict[str, str]:
    return {name: text(draw(frame, *SIZE, LOOK)) for name, draw in DRAW.items()}


@functools.cache
def known(name: str, at_s: float | None) -> dict[str, str]:
    return drawn(frame_of(name, at_s))


def leaves(part: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the numbers of a frame stand; of lists the first one's."""
    if dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from leaves(getattr(part, field.name), (*path, field.name))
    elif isinstance(part, tuple) and part and dataclasses.is_dataclass(part[0]):
        yield from leaves(part[0], (*path, 0))
    elif isinstance(part, int | float) and not isinstance(part, bool):
        yield path


def put(part: Any, path: tuple[str | int, ...], value: object) -> Any:
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        return (put(part[first], tuple(rest), value), *part[1:])
    return dataclasses.replace(part, **{first: put(getattr(part, first), tuple(rest), value)})


def at(part: Any, path: tuple[str | int, ...]) -> Any:
    for name in path:
        part = part[name] if isinstance(name, int) else getattr(part, name)
    return part


def named(path: tuple[str | int, ...]) -> str:
    """As the glossary writes it: without the places in lists, and of GPUs without `devices`."""
    return ".".join(name for name in path if isinstance(name, str)).replace("gpus.devices.", "gpus.")


def other(value: float, field: str) -> float:
    """A number of the same size and kind that nothing else in the frame is."""
    if not value and field.endswith("tokens"):
        return 7_919.0
    if isinstance(value, int):
        return value * 3 + 1787
    return value * 1.3717 + (0.3713 if not value else 0.01313 if abs(value) < 2 else 7.171)


def told(number: Number, field: str) -> bool:
    return any(field == one or field.startswith(f"{one}.") for one in (number.field, *number.also))


def showing(name: str, at_s: float | None, path: tuple[str | int, ...]) -> tuple[set[str], set[str]]:
    """Panels that change with a field, and those of them that then show the number that it was set to."""
    frame, before = frame_of(name, at_s), known(name, at_s)
    value = other(at(frame, path), named(path))
    after = drawn(put(frame, path, value))
    changed = {panel for panel in after if after[panel] != before[panel]}
    ways = {way(value) for way in WAYS} | {units.bounds(value, math.inf).split("–")[0], units.bounds(0.0, value)[2:]}
    return changed, {
        panel for panel in changed if any(words in after[panel] and words not in before[panel] for words in ways)
    }


CASES = [
    (name, at_s, path)
    for name, at_s in FRAMES
    for path in leaves(frame_of(name, at_s))
    if path[0] not in ("charts", "event_log", "verdict", "pressure", "status")
]


@functools.cache
def found() -> dict[str, tuple[set[str], set[str]]]:
    """Every field with a number: the panels that change with it, and those that show it."""
    together: dict[str, tuple[set[str], set[str]]] = {}
    for name, at_s, path in CASES:
        changed, shown = showing(name, at_s, path)
        before = together.setdefault(named(path), (set(), set()))
        together[named(path)] = (before[0] | changed, before[1] | shown)
    return together


FIELDS = {named(path) for _, _, path in CASES}
NUMBERED = [number for number in ON if any(told(number, field) for field in FIELDS)]


def at_its_place(number: Number) -> bool:
    """Whether the panel of a row, or the panel why, shows the number that the row's field was set to."""
    panels = (both for field, both in found().items() if field == number.field or field.startswith(f"{number.field}."))
    shown = {panel for both in panels for panel in both[number.field not in AS_SHARES]}
    return bool(shown & {number.panel, "why"})


def test_panels_draw_what_rows_name_and_rows_name_what_panels_draw() -> None:
    """One test, so that one process draws every field, once."""
    assert [f"{number.panel} {number.name}" for number in NUMBERED if not at_its_place(number)] == []
    hidden = [number.field for number in NUMBERS if not number.on_screen]
    assert [field for field in hidden if field in found() and found()[field][0]] == []  # they change no panel
    drawn_fields = {field for field, (changed, _) in found().items() if changed}
    without = {field for field in drawn_fields if not any(told(number, field) for number in NUMBERS)}
    assert without <= OF_THE_SCREEN
    changed, shown = found()["staircase.interval_mean_s"]  # one time between preemptions wherever it is said
    assert {"requests", "why"} <= shown <= changed
    assert "preemption.interval_s" not in found()


def test_rows_that_name_no_plain_number_are_few_and_known() -> None:
    rest = {number.field for number in ON} - {number.field for number in NUMBERED}
    flags = {"servers.started.max_num_seqs", "servers.started.max_num_batched_tokens"}
    few = {"requests.answers_each", "prefix_cache.external_ratio", "ttft.decode_first_token_s"}  # deployments
    fleet = {"fleet.rows", "fleet.totals", "fleet.unlike", "fleet.strip_cell_s"}  # the table of servers
    assert rest <= {*flags, *few, *fleet, "queueing.trend", "gpus.serving", "servers.load"}
