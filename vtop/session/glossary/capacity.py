"""The numbers of the panel capacity: a search for the largest rate that keeps a service level."""

from __future__ import annotations

from vtop.session.glossary.number import Number

CAPACITY = (
    Number(
        "capacity",
        "between … and …",
        "capacity.passes_per_s",
        "requests/s",
        (),
        "largest rate that passes with all rates below it, and smallest that fails, by the runs so far",
        "of the rule and its N runs of n requests in the heading: a floor falls with more and with shorter runs",
        also=(
            "capacity.fails_per_s",
            "capacity.target_ratio",
            "capacity.planned_runs",
            "capacity.requests",
            "capacity.runs",
            "capacity.not_counted",
        ),
    ),
    Number(
        "capacity",
        "running",
        "capacity.running.rate_per_s",
        "requests/s",
        (),
        "rate of the run that is under way, and which of its rate's runs it is",
        also=("capacity.running.number",),
    ),
    Number(
        "capacity",
        "left",
        "capacity.left_s",
        "s",
        (),
        "runs still to be made ÷ their rate, if every rate takes its N runs and none is undecided",
        "settling between runs and drains are not in it",
        also=("capacity.left_runs",),
    ),
    Number(
        "capacity",
        "simulated",
        "capacity.simulated.passes_per_s",
        "requests/s",
        (),
        "the same search on the simulated engine, made before the first run",
        also=(
            "capacity.simulated.fails_per_s",
            "capacity.simulated.hosts",
            "capacity.simulated.least_per_s",
            "capacity.simulated.most_per_s",
        ),
    ),
    Number(
        "capacity",
        "of it",
        "capacity.simulated.speed_least_ratio",
        "%",
        (),
        "measured passes ÷ simulated fails, to measured fails ÷ simulated passes: the engine beside its model",
        also=("capacity.simulated.speed_most_ratio",),
    ),
    Number(
        "capacity",
        "mean, lowest",
        "capacity.rates.mean_ratio",
        "%",
        (),
        "requests that succeeded and kept every bound, from due ÷ all of a run; over the runs of that rate",
        "a run is one observation; ± is half of the 99 % interval of the mean",
        also=(
            "capacity.rates.lowest_ratio",
            "capacity.rates.half_ratio",
            "capacity.rates.rate_per_s",
            "capacity.rates.runs",
        ),
    ),
)
