"""The options of `vtop record --keep`, the flight recorder."""

from __future__ import annotations

import click

from vtop.cli.options import Seconds, together
from vtop.cli.plan_options import Size

flight_options = together(
    click.option("--keep", "keep_s", type=Seconds(least=60), help="Keep the last hours in folder -o, in pieces: 2h."),
    click.option("--on", "trigger", metavar="WORDS", help="Cut out what is around: 'preemptions or stuck'."),
    click.option("--before", "before_s", type=Seconds(least=1), default=60.0, help="Cut from this time before. [1m]"),
    click.option("--after", "after_s", type=Seconds(least=1), default=60.0, help="And until this time after. [1m]"),
    click.option("--most-bytes", type=Size(), default=float(1 << 30), metavar="BYTES", help="Of all in it. [1GiB]"),
    click.option("--most-cuts", type=click.IntRange(1), default=100, help="Cuts kept, the newest. [100]"),
    click.option("--run", "command", metavar="COMMAND", help="Run this for each cut, with its file as the last word."),
    click.option("--webhook", metavar="URL", help="POST each cut's file and reason as JSON, to this host only."),
)
