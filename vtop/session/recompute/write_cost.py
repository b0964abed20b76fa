"""What a token and a row of logits cost one run of a server in bytes written: by the model's shape, or by the fit.

a and b come from the model's shape where its a + b agrees within AGREE with what the counters themselves say (fit.py),
tried for the usual tensor and pipeline parallel degrees; else from the fit; from the shape alone where there was
nothing sure to fit. T and R are whole numbers, and so are a and b by shape: the chunks are then the rest of a division,
and T is exact. By a fit R = generated, which makes T too large by b / a for each chunk.

Source: vLLM v1/metrics/perf.py. Bytes, tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.vocabulary import RecomputeMethod
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import ScrapeRange
from vtop.session.kv.pool import pool_at
from vtop.session.recompute.required_tokens import needed
from vtop.session.recompute.token_cost import Cost, Parallel, Shape, cost
from vtop.session.recompute.write_fit import Found, WriteFit

BY_SHAPE: Final = "write bytes, model shape"
BY_FIT: Final = "write bytes, fitted"
AGREE = 0.01  # of the fit
SHORT = 0.01  # a shape that makes fewer tokens than the least by more is not this server's

_EXACT = 2.0**53  # up to here a counter is a whole number
_SAME = 1e-6
_SPREADS = tuple((t, p, narrow) for narrow in (False, True) for p in (1, 2, 4) for t in (1, 2, 4, 8, 16))


@dataclass(frozen=True, slots=True)
class WriteCost:
    method: RecomputeMethod
    token_bytes: float
    row_bytes: float
    cost: Cost | None = None  # where the shape tells, for FLOP

    def executed(self, written: float, rows: float, *, counter: float) -> float:
        """T of written = token x T + row x (rows + chunks), by shape with the fewest chunks that make T a whole number.

        counter: what the counter of written bytes stands at, for a float counts only so far.
        """
        token, row = int(self.token_bytes), int(self.row_bytes)
        whole = all(value == int(value) for value in (written, rows, self.token_bytes, self.row_bytes))
        if whole and self.method == BY_SHAPE and counter < _EXACT:
            common = math.gcd(token, row)
            rest, left = divmod(int(written) - row * int(rows), common)
            turn = token // common
            if left == 0 and turn > 1:
                chunks = rest * pow(row // common, -1, turn) % turn
                # beyond half a turn it is a scrape that is no atomic snapshot: fewer rows than generated tokens
                rows += chunks if chunks <= min(turn // 2, written / token) else 0
        return max(0.0, (written - self.row_bytes * rows) / self.token_bytes)


def write_cost_of(one: ScrapeRange, first: int, end: int, *, now_s: float, fit: WriteFit) -> WriteCost | None:
    """Of the run of the server from scrape first to scrape end, as known on the span's last scrape."""
    server, last = one.server, one.last
    track = server.total(Quantity.WRITE_BYTES)
    written = track.grown(first, end) if track is not None else None
    if track is None or not written:
        return None
    found = fit.costs(first, end)
    shape = shape_of(server, now_s if end == last else server.t[end])
    tried = _by_shape(server, end, shape, found) if shape is not None else None
    if shape is not None and not found.sure:  # nothing to overrule it by, but the least that it must make
        price = tried if tried is not None else _by_shape(server, end, shape, Found(None, None))
        work, tried = needed(server, first, end), None
        if price is not None:
            alone = WriteCost(BY_SHAPE, price.token_bytes, price.row_bytes)
            rows, least = (work.rows, work.least) if work is not None else (0.0, 0.0)
            enough = alone.executed(written, rows, counter=track.at(end) or 0.0) >= least * (1 - SHORT)
            tried = price if enough else None
    if tried is not None:
        return WriteCost(BY_SHAPE, tried.token_bytes, tried.row_bytes, tried)
    if found.both_bytes is not None and found.token_bytes is not None:
        return WriteCost(BY_FIT, found.token_bytes, found.both_bytes - found.token_bytes)
    return None


def _by_shape(server: ServerHistory, scrape: int, shape: Shape, found: Found) -> Cost | None:
    """What the shape says, in the parallel degrees that agree best with the fit; as it stands where there is none."""
    dtype = pool_at(server, scrape, None).cache_dtype
    if found.both_bytes is None:
        return cost(shape, dtype)
    engines = max(1, len(server.engines(Quantity.RUNNING, scrape)))
    best, off = None, AGREE
    for data, (tensor, pipeline, narrow) in product(sorted({1, engines}), _SPREADS):
        tried = cost(shape, dtype, Parallel(tensor, pipeline, data, narrow))
        if tried is None:
            continue
        miss = abs((tried.token_bytes + tried.row_bytes) / found.both_bytes - 1)
        if miss < off:
            best, off = tried, miss
        if off < _SAME:
            break
    return best


def shape_of(server: ServerHistory, now_s: float) -> Shape | None:
    """The model's shape as last told by an instant."""
    for identity in reversed(server.identities):
        if identity.t <= now_s and identity.shape:
            return identity.shape
    return None
