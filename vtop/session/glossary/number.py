"""What one number on the screen is: where it stands, what it is made of, and what is to be known about it."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics import vllm
from vtop.metrics.vllm import Quantity

_ELSEWHERE = {
    "gpus": "NVML",
    "header": "the scrape itself",
    "servers": "the scrape itself",
    "load": "vtop's own requests",
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

    @property
    def source(self) -> str:
        """The series it is made of, under the names of today's vLLM."""
        return (
            ", ".join(vllm.exported_as(quantity) for quantity in self.reads) or self.elsewhere or _ELSEWHERE[self.panel]
        )
