"""The numbers of the panel kv: how full the cache is, and how full it should be."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

KV = (
    Number(
        "kv",
        "used",
        "kv.used",
        "%",
        (Q.KV_USED,),
        "blocks held by live requests ÷ usable blocks, of the fullest engine; never summed over engines",
        "cached blocks that no request holds count as free",
    ),
    Number(
        "kv",
        "tokens",
        "kv.used_tokens",
        "tokens",
        (Q.KV_USED, Q.CACHE_CONFIG),
        "mean use of the engines × pool; free is the rest of the pool",
        "an upper bound: a block with one token in it counts as a block",
        also=("kv.room_tokens",),
    ),
    Number(
        "kv",
        "lengths",
        "account.input_tokens",
        "tokens",
        (Q.REQUEST_PROMPT_TOKENS, Q.REQUEST_GENERATION_TOKENS),
        "input and output tokens of a request: as vtop's own load asks, if those are exact and nobody else is "
        "served; else the means of the requests that finished. All of the account covers the window since the latest "
        "restart and since vtop's own load began or was changed by hand; with another's load, since running + "
        "waiting last doubled",
        also=("account.output_tokens",),
    ),
    Number(
        "kv",
        "nominal",
        "account.nominal",
        "%",
        (Q.RUNNING, Q.WAITING, Q.KV_USED, Q.CACHE_CONFIG),
        "C × blocks of (in + out) ÷ pool against the highest scrape, C × blocks of (in + out ÷ 2) ÷ pool against the "
        "median scrape, for the C that the clients keep in flight: that of vtop's own load, else the median of "
        "running + waiting",
        "shared prefixes hold their blocks once; one scrape per second can miss the peak of requests that live for "
        "only a few scrapes",
    ),
    Number(
        "kv",
        "effective",
        "account.effective",
        "%",
        (Q.RUNNING, Q.KV_USED, Q.CACHE_CONFIG),
        "the same for the C that runs: the median of running, while anything ran or waited",
    ),
    Number(
        "kv",
        "demand",
        "account.oversubscription",
        "×",
        (Q.RUNNING, Q.WAITING, Q.CACHE_CONFIG),
        "nominal C × (in + out) ÷ pool",
    ),
    Number(
        "kv",
        "residents",
        "account.predicted_residents",
        "requests",
        (Q.CACHE_CONFIG, Q.REQUEST_PROMPT_TOKENS, Q.REQUEST_GENERATION_TOKENS),
        "pool ÷ (in + out), beside the median of running",
        also=("account.measured_residents",),
    ),
    Number(
        "kv",
        "full in",
        "account.full_in_s",
        "s",
        (Q.KV_USED, Q.CACHE_CONFIG),
        "free tokens ÷ growth rate of the tokens in use since they last fell (with fewer than 3 scrapes: over the "
        "last 10 s); none while they do not grow",
        "use grows by whole blocks, and an admission adds a whole prompt at once",
    ),
    Number(
        "kv",
        "waste",
        "account.waste_tokens",
        "tokens",
        (Q.RUNNING, Q.CACHE_CONFIG),
        "running × the mean empty part of a request's last block over its life; at its end: blocks of (in + out) − "
        "(in + out)",
        "exact for equal lengths; if lengths differ, expect (block − 1) ÷ 2",
    ),
)
