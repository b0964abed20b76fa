"""The numbers of what is watched: of the servers, in the header, and of each engine."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

HEADER = (
    Number(
        "header",
        "KV pool",
        "kv.pool_tokens",
        "tokens, GiB",
        (Q.CACHE_CONFIG,),
        "kv_cache_size_tokens, summed over engines; before vLLM 0.24 blocks × block size. GiB: tokens × bytes "
        "per token (2 × layers × KV heads × head size × bytes)",
        "GiB only where vtop could read the model's config.json; blocks × size is approximate for hybrid models",
        also=("kv.pool_bytes", "kv.bytes_per_token", "kv.block_size"),
    ),
    Number(
        "header",
        "fits",
        "kv.max_concurrency",
        "requests",
        (Q.CACHE_CONFIG,),
        "kv_cache_max_concurrency: requests of max_model_len that one engine's pool holds",
        also=("servers.max_model_len",),
    ),
    Number(
        "header",
        "max-num-seqs",
        "servers.started.max_num_seqs",
        "requests",
        (),
        "--max-num-seqs of the command that started the server, per engine; if the flag is not given, vLLM's default "
        "for the GPU on which its process was last seen",
        "only if vtop runs on the server's host and may read its process; the default only for vLLM 0.26 to 0.32, "
        "and not with --config FILE",
        elsewhere="the server's command line",
    ),
    Number(
        "header",
        "tok per step",
        "servers.started.max_num_batched_tokens",
        "tokens",
        (),
        "--max-num-batched-tokens of the same command, or vLLM's default: prompt and output tokens of one step "
        "together",
        "see max-num-seqs",
        elsewhere="the server's command line",
    ),
    Number(
        "header",
        "up",
        "servers.uptime_s",
        "time",
        (Q.PROCESS_START,),
        "now − start of the API server; not known while it does not answer",
    ),
    Number(
        "header",
        "age",
        "servers.age_s",
        "s",
        (),
        "now − when the latest scrape was requested",
        "dimmed like everything else once the data is old",
    ),
)

SERVERS = (
    Number(
        "servers",
        "run wait KV tok/s TTFT",
        "servers.load",
        "requests, %, tokens/s, s",
        (Q.RUNNING, Q.WAITING, Q.KV_USED, Q.GENERATION_TOKENS, Q.TTFT),
        "for each server what the panels show for all: running and waiting now, KV use of its fullest engine, growth "
        "of generated tokens ÷ time, and mean TTFT of the first tokens in the window",
        "only if several servers are watched; those that do not answer come first, then those with most waiting",
    ),
    Number(
        "servers",
        "limit",
        "fleet.rows",
        "a limit or a state",
        (),
        "in the table that has the whole body: the verdict of a session of that server alone over 60 s, judged every "
        "15 s; where its data are old its state",
        "of a router and of servers that vtop knows only by name nothing is judged, and they are in no total",
        also=("fleet.states",),
    ),
    Number(
        "servers",
        "peers",
        "fleet.unlike",
        "slower, more, fewer",
        (Q.ITL, Q.TTFT, Q.WAITING),
        "slower: mean ITL 1.25 times the median of its peers at like load or more, and 5 times their spread above it; "
        "more, fewer: requests that came, half as many again or two thirds, and 5 times their spread away; over 60 s, "
        "and likewise in each third of it",
        "nobody is named who has fewer than five peers: servers of the same model, side, kind, limits and job",
    ),
    Number(
        "servers",
        "run wait KV to out in TTFT",
        "fleet.totals",
        "requests, %, tokens/s, s",
        (Q.RUNNING, Q.WAITING, Q.KV_USED, Q.GENERATION_TOKENS, Q.PROMPT_TOKENS, Q.TTFT),
        "of all servers, or of a group: sums, the fullest engine's KV use, mean time of all first tokens in the window",
        "prefill and decode servers of one model are never added up: each side has its own",
        also=("fleet.groups",),
    ),
    Number(
        "servers",
        "KV over",
        "fleet.strip_cell_s",
        "%",
        (Q.KV_USED, Q.WAITING),
        "the highest KV use in each cell of the window, in the colour of waiting requests where any waited",
    ),
    Number(
        "servers",
        "outages",
        "servers.outages",
        "stretches",
        (),
        "periods without a scrape so far; engines: how many the latest scrape names",
        also=("servers.engines",),
    ),
)

ENGINES = (
    Number(
        "engines",
        "running",
        "engines.running",
        "requests",
        (Q.RUNNING, Q.WAITING, Q.KV_USED),
        "running, waiting and KV use of one engine after its last step; share: its requests ÷ the mean of all engines",
        also=("engines.waiting", "engines.kv_used_ratio"),
    ),
    Number(
        "engines",
        "tok/s",
        "engines.generation_per_s",
        "tokens/s",
        (Q.GENERATION_TOKENS,),
        "growth ÷ time in the window, per engine",
    ),
)
