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
        "growth ÷ time, without that of an outage that ended in a restart; includes the first token of each request "
        "and the tokens of aborted ones",
    ),
    Number(
        "tokens",
        "in",
        "prompt_tokens",
        "tokens/s",
        (Q.PROMPT_TOKENS,),
        "growth ÷ time, as output; cached tokens included",
        "a whole prompt is counted at its first token: long prompts come as bursts",
    ),
    Number(
        "tokens",
        "while busy",
        "throughput.output_per_s",
        "tokens/s",
        (Q.GENERATION_TOKENS, Q.RUNNING, Q.WAITING, Q.ITERATION_TOKENS),
        "growth ÷ the seconds in which requests were in the engine: idle edges and gaps left out, those within an "
        "interval between scrapes by the time that its steps and prompt tokens take in intervals that were busy "
        "throughout",
        "two scrapes that both show a request count as busy in between; not known where too few scrapes tell",
        also=("throughput.prompt_per_s", "throughput.finished_per_s", "throughput.busy_s"),
        on_screen=False,
    ),
    Number(
        "tokens",
        "per step",
        "iteration",
        "tokens",
        (Q.ITERATION_TOKENS, Q.GENERATION_TOKENS),
        "Δ sum ÷ Δ count per engine step that gave output; decode = generated tokens ÷ steps, prefill = the rest",
        "recomputed tokens are never in it, and steps of a chunked prefill that give no output are not counted",
    ),
    Number(
        "tokens",
        "prefix hits",
        "prefix_cache.hit_ratio",
        "%",
        (Q.PROMPT_TOKENS_BY_SOURCE, Q.PREFIX_HITS, Q.PREFIX_QUERIES),
        "Δ prompt tokens from a cache ÷ Δ prompt tokens of all sources in the window, each prompt once; before vLLM "
        "0.16 Δ hit tokens ÷ Δ looked-up tokens, and the row says so",
        "of tokens looked up, a request that waits for KV counts again at every step, and a preempted one may hit its "
        "own blocks",
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
        "the line is there where more than one source gave any",
    ),
    Number(
        "tokens",
        "failed KV transfers",
        "failed_transfers.in_window",
        "transfers",
        (Q.FAILED_TRANSFERS,),
        "growth of the KV connector's counters of failures in the window, by counter",
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
        "executed − required − rejected drafts in the window, beside it since vtop attached. executed: T of "
        "written bytes = a × T + b × rows of logits, a and b by the model's shape where the counters agree within 1 %, "
        "else fitted on scrapes without preemption; without --enable-mfu-metrics estimated by the KV that preemptions "
        "released",
        "0 while nobody was preempted; afterwards prompts aborted before their first token and async scheduling's "
        "wasted step after a stop token count too, and prompts in mid-prefill until they are counted "
        "(unsettled_tokens, at most)",
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
        "a cross-check: the x that explains the FLOP counter, with mean lengths for contexts and every prompt in "
        "one chunk",
        "an approximation, some 5 % off; prefills cut into chunks look at less context",
    ),
    Number(
        "tokens",
        "by KV",
        "recompute.by_kv_tokens",
        "tokens",
        (Q.KV_USED, Q.CACHE_CONFIG, Q.PREEMPTIONS),
        "a cross-check: KV released by the preemptions; where it does not show, KV in use ÷ running on the "
        "scrape before",
        "blocks, and what a resumed request finds in the prefix cache is not taken off",
    ),
    Number(
        "tokens",
        "decoding",
        "wallclock.decode_s",
        "s",
        (Q.ITERATION_TOKENS, Q.RUNNING, Q.GENERATION_TOKENS),
        "steps × the time of a step that only decodes: stretch by stretch that of the scrapes between which all steps "
        "only decoded (step_s: their median), else median ITL of vtop's own load, else, or where that is half as much "
        "again, as steps and prompt tokens fit the time; prompt_token_s: prefill ÷ its tokens; idle: no request in the "
        "engine; the rest is prefill and recompute, divided by their tokens. They add up to the window",
        "chunks that gave no output are no steps; several API servers count a step several times; not known where "
        "decoding alone would fill the time",
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
        "1 − (mean output − 1) × mean step ÷ mean decode time, of the finished: what others' prefill and recompute and "
        "preemption took",
        also=("wallclock.request_decode_s", "wallclock.undisturbed_decode_s"),
    ),
)
