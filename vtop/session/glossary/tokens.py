"""The numbers of the panel tokens: what the engine's steps did, recomputed work, and where the time went."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

TOKENS = (
    Number(
        "tokens",
        "out",
        "generation_tokens",
        "tokens/s",
        (Q.GENERATION_TOKENS,),
        "growth ÷ time, outages that ended in a restart left out; includes the first token of each request and the "
        "tokens of aborted requests",
    ),
    Number(
        "tokens",
        "in",
        "prompt_tokens",
        "tokens/s",
        (Q.PROMPT_TOKENS,),
        "growth ÷ time, as for out; cached tokens included",
        "a whole prompt is counted at its first token: long prompts come as bursts",
    ),
    Number(
        "tokens",
        "while busy",
        "throughput.output_per_s",
        "tokens/s",
        (Q.GENERATION_TOKENS, Q.RUNNING, Q.WAITING, Q.ITERATION_TOKENS),
        "growth ÷ the seconds in which requests were in the engine (of any server): idle edges and gaps left out; "
        "within a scrape interval, idle time is what its steps and prompt tokens would not take in intervals that "
        "were busy throughout",
        "if two successive scrapes both show a request, the time between counts as busy; not known with too few "
        "scrapes",
        also=("throughput.prompt_per_s", "throughput.finished_per_s", "throughput.busy_s"),
        on_screen=False,
    ),
    Number(
        "tokens",
        "per step",
        "iteration",
        "tokens",
        (Q.ITERATION_TOKENS, Q.GENERATION_TOKENS),
        "Δ sum ÷ Δ count per engine step that produced output; decode = generated tokens ÷ steps, prefill = the rest",
        "leaves out recomputed tokens, and the steps of a chunked prefill that produce no output",
    ),
    Number(
        "tokens",
        "prefix hits",
        "prefix_cache.hit_ratio",
        "%",
        (Q.PROMPT_TOKENS_BY_SOURCE, Q.PREFIX_HITS, Q.PREFIX_QUERIES),
        "Δ prompt tokens from a cache ÷ Δ prompt tokens of all sources in the window, each prompt once; before vLLM "
        "0.16 Δ hit tokens ÷ Δ looked-up tokens, and the row says so",
        "looked-up tokens count again at every step while a request waits for KV, and a preempted request may hit "
        "its own blocks",
        also=("prefix_cache.asked_tokens", "prefix_cache.lifetime_ratio", "prefix_cache.of"),
    ),
    Number(
        "tokens",
        "computed",
        "prompt_sources",
        "%",
        (Q.PROMPT_TOKENS_BY_SOURCE,),
        "Δ prompt tokens whose KV was computed, found in the local prefix cache, or brought by a KV connector ÷ Δ of "
        "all, each prompt once, when it was first scheduled",
        "shown if more than one source supplied any",
    ),
    Number(
        "tokens",
        "failed KV transfers",
        "failed_transfers.in_window",
        "transfers",
        (Q.FAILED_TRANSFERS,),
        "growth of the KV connector's failure counters in the window, by counter",
        also=("failed_transfers.since_start", "failed_transfers.by_part"),
    ),
    Number(
        "tokens",
        "connector",
        "prefix_cache.external_ratio",
        "%",
        (Q.PROMPT_TOKENS_BY_SOURCE,),
        "Δ prompt tokens by external KV transfer ÷ Δ prompt tokens of all sources in the window: part of the hits",
        also=("prefix_cache.external_tokens",),
    ),
    Number(
        "tokens",
        "recomputed",
        "recompute.tokens",
        "tokens",
        (Q.WRITE_BYTES, Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT),
        "executed − required − rejected drafts, in the window and since vtop attached. executed: T of written bytes "
        "= a × T + b × rows of logits, a and b from the model's shape if the counters agree within 1 %, else fitted "
        "on scrapes without preemption; without --enable-mfu-metrics, estimated from the KV that preemptions released",
        "0 as long as nobody was preempted; after that it also counts prompts aborted before their first token, "
        "async scheduling's wasted step after a stop token, and prompts in mid-prefill until vLLM counts them (at "
        "most unsettled_tokens)",
        also=("recompute.since_start",),
    ),
    Number(
        "tokens",
        "required",
        "recompute.least_tokens",
        "tokens",
        (Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT),
        "Δ computed prompt tokens + Δ generated − first tokens: what the answers needed",
        "before vLLM 0.16 prompt − prefix hits",
        on_screen=False,
    ),
    Number(
        "tokens",
        "extra work",
        "recompute.ratio",
        "%",
        (Q.WRITE_BYTES, Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT),
        "recomputed ÷ required in the window; in JSON also since vtop attached",
        also=("recompute.since_start_ratio",),
    ),
    Number(
        "tokens",
        "per preemption",
        "recompute.per_preemption",
        "tokens",
        (Q.WRITE_BYTES, Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT, Q.PREEMPTIONS),
        "recomputed ÷ preemptions, both of the window",
    ),
    Number(
        "tokens",
        "by FLOP",
        "recompute.by_flops_tokens",
        "tokens",
        (Q.FLOPS, Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.PREEMPTIONS),
        "a cross-check: the recompute that explains the FLOP counter, with mean lengths for contexts and every "
        "prompt in one chunk",
        "an approximation, about 5 % off; a prefill cut into chunks attends to less context",
    ),
    Number(
        "tokens",
        "by KV",
        "recompute.by_kv_tokens",
        "tokens",
        (Q.KV_USED, Q.CACHE_CONFIG, Q.PREEMPTIONS),
        "a cross-check: KV released by the preemptions; if that does not show, KV in use ÷ running at the scrape "
        "before",
        "whole blocks; what a resumed request finds in the prefix cache is not subtracted",
    ),
    Number(
        "tokens",
        "decoding",
        "wallclock.decode_s",
        "s",
        (Q.ITERATION_TOKENS, Q.RUNNING, Q.GENERATION_TOKENS),
        "steps × the time of a step that only decodes: for each part of the window, that between scrapes with decode "
        "steps only (step_s: their median); else the median ITL of vtop's own load; else, or if that is 1.5 times as "
        "long, the fit of steps and prompt tokens to the time; prompt_token_s: prefill ÷ its tokens; idle: no "
        "request in the engine; the rest is prefill and recompute, split in proportion to their tokens. Together "
        "they are the window",
        "chunks without output are not counted as steps; several API servers count a step several times; not known "
        "if decoding alone would fill the time",
        also=(
            "wallclock.prefill_s",
            "wallclock.recompute_s",
            "wallclock.idle_s",
            "wallclock.step_s",
            "wallclock.prompt_token_s",
        ),
    ),
    Number(
        "tokens",
        "stolen",
        "wallclock.stolen_ratio",
        "%",
        (Q.DECODE, Q.REQUEST_GENERATION_TOKENS),
        "1 − (mean output − 1) × mean step ÷ mean decode time, for the finished: the share lost to other requests' "
        "prefill, to recompute and to preemption",
        also=("wallclock.request_decode_s", "wallclock.undisturbed_decode_s"),
    ),
)
