"""The table of servers on the whole screen: which rows, in which order, and the one that is chosen."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from textual.geometry import Size

from vtop.draw import layout
from vtop.session.frame.fleet import FLEET_ORDERS, Fleet, FleetView
from vtop.session.frame.frame import View
from vtop.ui.prompt import Prompt

if TYPE_CHECKING:
    from vtop.ui.app import VtopApp

FROM: Final = 9  # servers: the screen begins with their table
MOST_ADDED_UP: Final = 32  # of more no panel adds up: a frame would take longer than a key may
APART_S: Final = 1.0  # two drawings, at least
JUDGED_AT_ONCE: Final = 8  # servers, between two drawings
KEPT_S: Final = 360.0  # of the numbers of more than MOST_ADDED_UP live servers; a recording has them all
AGAIN_S: Final = 10.0
SETTLED_S: Final = 8.0  # by then every server that answers has answered
# objects more than before at which young garbage is looked for. With Python's own 700 the old is looked at every 5 s,
# for longer than a key may take: what is frozen does not count, so every growth seems a large one
YOUNG: Final = 20_000


def shown(app: VtopApp) -> bool:
    """Whether the table has the screen."""
    return app.only == "servers" and app.drilled is None and len(app.session.servers) > 1


def drawn(app: VtopApp) -> Fleet | None:
    return app.scene.frame.fleet if app.scene is not None else None


def prepare(app: VtopApp) -> None:
    """What a frame would else have to do: judge a few of the servers that are due."""
    app.session.fleet.prepare(app.playhead.now(), JUDGED_AT_ONCE)
    keep_from_s = app.session.end_s - KEPT_S
    if app.live is not None and len(app.session.servers) > MOST_ADDED_UP and keep_from_s >= app.kept_from_s + AGAIN_S:
        app.kept_from_s = keep_from_s
        app.session.forget(keep_from_s)
    if not app.settled and app.session.end_s >= SETTLED_S:
        app.settled = True
        gc.freeze()  # a full collection over what hundreds of servers print takes longer than a key may
        gc.set_threshold(YOUNG, *gc.get_threshold()[1:])


def view_of(app: VtopApp, view: View, size: Size) -> View:
    lines, strip = layout.fleet_room(size.width, size.height)
    return replace(view, fleet=replace(app.table, lines=lines, strip=strip), fleet_alone=True)


def as_drawn(table: FleetView, fleet: Fleet) -> FleetView:
    """The rows that are on top stay there until one goes elsewhere."""
    return replace(table, first=fleet.first)


def choose(app: VtopApp, step: int) -> None:
    fleet = drawn(app)
    if not shown(app) or fleet is None or not fleet.order or not step:
        return
    chosen = app.table.chosen
    at = fleet.order.index(chosen) + step if chosen in fleet.order else fleet.first
    app.table = replace(app.table, chosen=fleet.order[max(0, min(len(fleet.order) - 1, at))])
    app.draw(again=True)


def find(app: VtopApp) -> None:
    """Only rows that hold a text; all of them after an empty one."""

    def answered(text: str | None) -> None:
        if text is not None:
            app.table = replace(app.table, find=text.strip(), first=0, chosen=None)
            app.draw(again=True)

    asked = "which rows? a part of address, model, label, state or limit; nothing for all"
    app.push_screen(Prompt(asked, app.table.find or "kv"), answered)


def order(app: VtopApp) -> None:
    if shown(app):
        at = FLEET_ORDERS.index(app.table.order) + 1
        app.table = replace(app.table, order=FLEET_ORDERS[at % len(FLEET_ORDERS)], first=0)
        app.draw(again=True)


def group(app: VtopApp) -> None:
    fleet = drawn(app)
    if shown(app) and fleet is not None:
        names: list[str | None] = [None, *fleet.labels]
        at = names.index(app.table.group) + 1 if app.table.group in names else 0
        app.table = replace(app.table, group=names[at % len(names)], first=0)
        app.draw(again=True)


def show(app: VtopApp) -> None:
    """The table, or all panels again."""
    if len(app.session.servers) < 2:
        app.say("there is one server; several are watched by: vtop :8000 :8001", bad=True)
    elif shown(app):
        app.action_shrink()
    else:
        app.drilled = None
        app.show_only("servers")


def given_up(app: VtopApp) -> bool:
    """Take a search back, or the table away; False where it stays."""
    if app.table.find or app.table.chosen is not None:
        app.table = replace(app.table, find="", chosen=None, first=0)
        app.draw(again=True)
        return False
    return may_show(app, None)


def may_show(app: VtopApp, only: str | None) -> bool:
    """Whether a panel, or all of them, may have the screen: not where so many servers would have to be added up."""
    if only == "servers" or app.drilled is not None or len(app.session.servers) <= MOST_ADDED_UP:
        return True
    app.say(f"{len(app.session.servers)} servers are not added up in panels; {app.face_of('enlarge')} shows one alone")
    return False
