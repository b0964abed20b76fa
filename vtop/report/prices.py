"""The price of each limit in a report: a table over its loads, what binds by it, and what to try."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vtop.report.findings.next_steps import NextStep
from vtop.report.render.document import Block, FindingBlock, Findings, Table, Text
from vtop.session.frame.prices import FLAGS, LABELS, Price, Prices, Suggestion, brings, worth

EXPLAINED: Final = (
    "What 10 % more of each would be worth (max-num-seqs: to the next size that has a CUDA graph), by the simulated "
    "engine: both sides of a pair on the same plausible server, ± half the 90 % interval of the mean over them. What "
    "the model itself is off is not in it."
)


@dataclass(frozen=True, slots=True)
class Priced:
    """Of one recording: the prices of its loads, and why there are none of others."""

    prices: tuple[Prices, ...] = ()
    missing: tuple[str, ...] = ()


def blocks(of: Priced) -> tuple[Block, ...]:
    """Which limit binds, the table, and what the simulations leave open."""
    prices, missing = of.prices, tuple(Text(f"Not priced: {why}.") for why in of.missing)
    if not prices:
        return missing
    found = tuple(FindingBlock(binds(one), ()) for one in prices)
    rows = tuple(row for one in prices for row in _rows(one, several=len(prices) > 1))
    table = Table("The price of each limit", ("", "from", "to", "output tokens/s", "TTFT mean"), rows, (EXPLAINED,))
    left = dict.fromkeys(remark for one in prices for remark in one.remarks)
    return (Findings(found), table, *(Text(f"– {remark}") for remark in left), *missing)


def binds(of: Prices) -> str:
    """At c=64 the KV pool binds: 10 % more is worth +7.37 ± 0.01 % output tokens/s, …"""
    price = of.binding
    if price is None:
        return f"{named(of)}: no limit binds: 10 % more of any is worth next to nothing."
    if price.limit not in FLAGS:  # whatever is faster is worth something: that is no limit that a flag sets
        said = f"{named(of)}: no flag binds: 10 % more of each is worth next to nothing; of {LABELS[price.limit]} "
        said += f"{worth(price.output)} output tokens/s, mean TTFT {worth(price.ttft)}"
        return f"{said}; {brings(of.suggestion)}." if of.suggestion is not None else f"{said}."
    said = f"{named(of)}: {LABELS[price.limit]} binds: {_more(price)} is worth {worth(price.output)} output tokens/s"
    said += f", mean TTFT {worth(price.ttft)}"
    return f"{said}; {brings(of.suggestion)}." if of.suggestion is not None else f"{said}."


def named(of: Prices) -> str:
    """The load, as short as it can be told: c=64."""
    return (of.run.partition(", ")[2] or of.run).partition(" in=")[0]


def steps(priced: Priced, file: str) -> tuple[NextStep, ...]:
    """What to try, by what it would bring: a flag a step."""
    found: dict[str, list[Prices]] = {}
    for one in priced.prices:
        if one.suggestion is not None:
            found.setdefault(one.suggestion.flag, []).append(one)
    return tuple(_step(flag, of, file) for flag, of in found.items())


def _step(flag: str, of: Sequence[Prices], file: str) -> NextStep:
    suggested = [one.suggestion for one in of if one.suggestion is not None]
    evidence = tuple(f"{named(one)}: {brings(one.suggestion)}" for one in of if one.suggestion is not None)
    return NextStep(
        flag=flag,
        why=f"by the simulated engine {_which(suggested[0])} is worth most",
        where=tuple(named(one) for one in of),
        evidence=evidence,
        commands=(f"vtop whatif {shlex.quote(file)} {flag}",),
    )


def _which(of: Suggestion) -> str:
    return f"{'a larger' if of.more else 'a smaller'} {LABELS[of.limit]}"


def _more(price: Price) -> str:
    if price.before is None or price.after is None:
        return "10 % more"
    return f"{price.after:,} for {price.before:,}"


def _rows(of: Prices, *, several: bool) -> list[tuple[str, ...]]:
    return [
        (
            f"{named(of)}: {LABELS[price.limit]}" if several else LABELS[price.limit],
            f"{price.before:,}" if price.before is not None else "",
            f"{price.after:,}" if price.after is not None else "+10 %",
            worth(price.output),
            worth(price.ttft),
        )
        for price in of.prices
    ]
