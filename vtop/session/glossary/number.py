"""What one number on the screen is: where it stands, what it is made of, and what is to be known about it."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics.quantity import Quantity
from vtop.server_kinds import registry
from vtop.server_kinds.kind import ServerKind

_ELSEWHERE = {
    "gpus": "NVML",
    "header": "the scrape itself",
    "servers": "the scrape itself",
    "load": "vtop's own requests",
    "capacity": "vtop's own requests",
    "waterfall": "vtop's own requests",
    "ttft": "vtop's own requests",
}


@dataclass(frozen=True, slots=True)
class Number:
    """field: where it stands in a frame (and in the JSON of `vtop show`); reads: what it is made of.

    A number that reads nothing of the server's is about the scrape itself or comes from NVML, as its formula says.
    """

    panel: str
    name: str
    field: str
    unit: str
    reads: tuple[Quantity, ...]
    formula: str
    caveat: str = ""
    elsewhere: str = ""  # where it comes from, when neither from a series nor from where its panel's others do
    also: tuple[str, ...] = ()  # further fields that the same row tells of
    on_screen: bool = True  # False: only in JSON and reports

    def source(self, kind: ServerKind = registry.DEFAULT) -> str:
        """The series it is made of, under the names that a kind of server exports today."""
        exported = [name for quantity in self.reads if (name := kind.series.exported_as(quantity)) is not None]
        if self.reads and not exported:
            return f"nothing that {kind.title} exports"
        return ", ".join(exported) or self.elsewhere or _ELSEWHERE[self.panel]
