"""What every number on the screen is: one table, which the help screen, the documents and a test read."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics import vllm
from vtop.metrics.vllm import Quantity

_ELSEWHERE = {"gpu": "NVML", "header": "the page itself", "load": "vtop's own requests", "ttft": "vtop's own requests"}


@dataclass(frozen=True, slots=True)
class Number:
    """field: where it stands in a frame (and in the JSON of `vtop show`); reads: what it is made of.

    A number that reads nothing of the server's is about the page itself or comes from NVML, as its formula says.
    """

    panel: str
    name: str
    field: str
    unit: str
    reads: tuple[Quantity, ...]
    formula: str
    caveat: str = ""

    @property
    def source(self) -> str:
        """The series it is made of, under the names of today's vLLM."""
        return ", ".join(vllm.exported_as(quantity) for quantity in self.reads) or _ELSEWHERE[self.panel]


Q = Quantity

NUMBERS: tuple[Number, ...] = (
    Number(
        "header",
        "KV pool",
        "kv.pool_tokens",
        "tokens, GiB",
        (Q.CACHE_CONFIG,),
        "kv_cache_size_tokens, summed over engines; before vLLM 0.24 blocks × block size. GiB: tokens × bytes "
        "per token (2 × layers × KV heads × head size × bytes)",
        "GiB only where vtop could read the model's config.json; blocks × size is approximate for hybrid models",
    ),
    Number(
        "header",
        "fits",
        "kv.max_concurrency",
        "requests",
        (Q.CACHE_CONFIG,),
        "kv_cache_max_concurrency: requests of max_model_len that one engine's pool holds",
    ),
    Number("header", "up", "servers.uptime_s", "time", (Q.PROCESS_START,), "now − start of the API server"),
    Number(
        "header",
        "age",
        "servers.age_s",
        "s",
        (),
        "now − the instant at which the latest page was asked for",
        "dimmed with everything else once the data is old",
    ),
    Number(
        "requests",
        "running",
        "requests.running",
        "requests",
        (Q.RUNNING,),
        "as the scheduler's last step left it, summed over engines; a chart column shows its highest page",
        "sampled once a page; stands still when no engine step follows, as after a mass abort",
    ),
    Number(
        "requests",
        "waiting",
        "requests.waiting",
        "requests",
        (Q.WAITING,),
        "as the scheduler's last step left it, summed over engines",
        "includes preempted requests that wait again",
    ),
    Number(
        "requests",
        "preempt",
        "preemption.count",
        "preemptions",
        (Q.PREEMPTIONS,),
        "growth since vtop attached; the stair's tick marks a column in which it rose",
        "vLLM counts a preemption when the request gives its next token, so it can come late; preemptions of requests "
        "that were aborted meanwhile are never counted",
    ),
    Number(
        "requests",
        "finished",
        "requests.finished",
        "requests",
        (Q.FINISHED,),
        "growth in the window, all reasons",
        "a client that hangs up is in no finish counter",
    ),
    Number(
        "requests",
        "running by Little",
        "queueing.running",
        "requests",
        (Q.RUNNING, Q.E2E, Q.INFERENCE),
        "mean running against finished per second × mean inference time (prefill + decode) of the finished; "
        "residual = (measured − expected) ÷ expected",
        "far from 0 the window is no steady state; a preempted request's second wait is in the time and not in running",
    ),
    Number(
        "requests",
        "waiting by Little",
        "queueing.waiting",
        "requests",
        (Q.WAITING, Q.TTFT, Q.QUEUE),
        "mean waiting against first tokens per second × mean queue time of the finished; residual likewise",
        "preempted requests wait again in waiting and not in queue time; pages can miss waves that are shorter "
        "than a few of them",
    ),
    Number(
        "requests",
        "trend",
        "queueing.trend",
        "growing, steady, draining",
        (Q.WAITING,),
        "Mann–Kendall on at most 30 means of waiting since the latest gap or change of load: p below 0.01, Sen's "
        "slope over the stretch at least 10 % of the mean and 1 request, the later half going the same way",
        "a queue that remembers longer than the window looks like a trend",
    ),
    Number(
        "requests",
        "life spent waiting",
        "queueing.waiting_share",
        "%",
        (Q.QUEUE, Q.E2E),
        "Δ queue sum ÷ Δ e2e sum, of the requests that finished in the window",
    ),
    Number(
        "requests",
        "events",
        "staircase.events",
        "preemptions",
        (Q.PREEMPTIONS, Q.RUNNING, Q.WAITING, Q.FINISHED, Q.KV_USED),
        "each step of the stair: the page on which running fell and waiting rose by more than finished, with KV at "
        "90 % or more, matched to the counter's rises, oldest first; a rise without such a page is dated by itself",
        "right to one interval between pages; what the counter has not told of is 'unconfirmed' and in no event",
    ),
    Number(
        "requests",
        "trigger",
        "staircase.trigger_mean_ratio",
        "%",
        (Q.KV_USED, Q.PREEMPTIONS),
        "KV use on the page before each preemption that the gauges date: mean, and the lowest beside it",
        "up to one interval before the event, so below what really triggers it",
    ),
    Number(
        "requests",
        "freed",
        "staircase.freed_mean_tokens",
        "tokens",
        (Q.KV_USED, Q.CACHE_CONFIG, Q.GENERATION_TOKENS),
        "fall of KV use × pool + tokens generated meanwhile, per preemption, where nobody finished or began on that"
        " page",
        "rounded up to blocks",
    ),
    Number(
        "requests",
        "every",
        "staircase.interval_mean_s",
        "s",
        (Q.PREEMPTIONS,),
        "mean time from event to event in the window, ± its standard deviation",
        "several between two pages are one event",
    ),
    Number(
        "requests",
        "per minute",
        "staircase.per_minute",
        "preemptions/min",
        (Q.PREEMPTIONS,),
        "slope of the least-squares line through the stair; straightness is its R²",
    ),
    Number(
        "requests",
        "cycle",
        "staircase.cycle",
        "a phrase",
        (Q.PREEMPTIONS, Q.KV_USED),
        "where 6 events or more come with a spread below 0.7 of their mean interval, on a line of R² 0.98 or more, "
        "at a mean trigger of 90 % or more, two pages apart or more",
        "events that come by chance have a spread of 1",
    ),
    Number(
        "requests",
        "per request",
        "staircase.per_request",
        "preemptions",
        (Q.REQUEST_PREEMPTIONS,),
        "Δ sum ÷ Δ count of the finished requests' preemptions (vLLM 0.30 and later); thrashing: how many of them "
        "had more than 5",
    ),
    Number(
        "requests",
        "by reason",
        "staircase.by_reason",
        "preemptions",
        (Q.PREEMPTIONS_BY_REASON,),
        "growth in the window, where exported",
    ),
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
        "mean use of the engines × pool; room is the rest of the pool",
        "an upper bound: a block with one token in it counts as a block",
    ),
    Number(
        "kv",
        "lengths",
        "account.input_tokens",
        "tokens",
        (Q.REQUEST_PROMPT_TOKENS, Q.REQUEST_GENERATION_TOKENS),
        "in and out of a request: as vtop's own load asks, where those are exact and nobody else is served; else "
        "the means of the requests that finished in the window",
    ),
    Number(
        "kv",
        "nominal",
        "account.nominal",
        "%",
        (Q.RUNNING, Q.WAITING, Q.KV_USED, Q.CACHE_CONFIG),
        "C × blocks of (in + out) ÷ pool against the highest page, C × blocks of (in + out ÷ 2) ÷ pool against "
        "the median page, for the C that the clients keep in flight: of vtop's own load, else the median of "
        "running + waiting",
        "shared prefixes hold their blocks once; a page a second can miss the peak of requests that live for a "
        "few pages only",
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
        "oversubscribed",
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
    ),
    Number(
        "kv",
        "full in",
        "account.full_in_s",
        "s",
        (Q.KV_USED, Q.CACHE_CONFIG),
        "room ÷ growth of the tokens in use since they last fell (on fewer than 3 pages: over the last 10 s); "
        "none while they do not grow",
        "growth is by whole blocks, and an admission grows it by a prompt at once",
    ),
    Number(
        "kv",
        "waste",
        "account.waste_tokens",
        "tokens",
        (Q.RUNNING, Q.CACHE_CONFIG),
        "running × the mean empty rest of a request's last block over its life; at its end: blocks of (in + out) "
        "− (in + out)",
        "exact for equal lengths; where lengths differ, (block − 1) ÷ 2 is what to expect",
    ),
    Number(
        "gpu",
        "power",
        "gpus.power_w",
        "W",
        (),
        "sum of the cards in use by a watched server where NVML tells, else of all cards of this host",
        "an average over 1 s on most cards (power_kind says which); not known when one card's is not known",
    ),
    Number("gpu", "energy", "gpus.energy_j", "J", (), "growth of the card's energy counter in the window"),
    Number(
        "gpu",
        "clock",
        "gpus.sm_mhz",
        "MHz",
        (),
        "SM clock now, beside its maximum; what holds it down stands behind it in words",
    ),
    Number(
        "gpu",
        "joules",
        "energy.joules",
        "J",
        (),
        "growth of the energy counters of the cards in use, from the reading nearest to the window's first page "
        "to that nearest to its last; where a card has none: power integrated over the readings, gaps left out",
    ),
    Number(
        "gpu",
        "J per token",
        "energy.per_output_token_j",
        "J",
        (Q.GENERATION_TOKENS, Q.PROMPT_TOKENS),
        "joules ÷ generated tokens, and ÷ prompt and generated tokens, of the servers on this host",
        "not known where no server is on this host, or where the readings cover less than 95 % of the window",
    ),
    Number(
        "gpu",
        "idle",
        "energy.idle_share",
        "%",
        (Q.RUNNING, Q.WAITING),
        "lowest power read while nothing ran, in the session so far × time ÷ joules",
        "not known before the session has seen the server idle",
    ),
    Number(
        "gpu",
        "at its limit",
        "energy.near_limit_share",
        "%",
        (),
        "readings with a card at 97 % of its power limit or above ÷ readings",
    ),
    Number(
        "gpu",
        "throttled",
        "energy.throttled_share",
        "%",
        (),
        "readings with a clock event reason other than idle ÷ readings; each reason with its own share",
    ),
    Number(
        "gpu",
        "MFU",
        "roofline.mfu_ratio",
        "%",
        (Q.FLOPS,),
        "Δ FLOP ÷ seconds ÷ engines ÷ dense bf16 peak of the card (vtop/session/peaks.py), over the window, idle "
        "time included",
        "vLLM's model of the work, recompute included; attention counts as a full rectangle; only with --enable-"
        "mfu-metrics",
    ),
    Number(
        "gpu",
        "bandwidth",
        "roofline.bandwidth_ratio",
        "%",
        (Q.READ_BYTES, Q.WRITE_BYTES),
        "Δ (read + written bytes) ÷ seconds ÷ engines ÷ memory peak of the card",
        "vLLM's model of the traffic, not a measurement",
    ),
    Number(
        "gpu",
        "intensity",
        "roofline.intensity",
        "FLOP/byte",
        (Q.FLOPS, Q.READ_BYTES, Q.WRITE_BYTES),
        "Δ FLOP ÷ Δ (read + written bytes)",
    ),
    Number(
        "ttft",
        "queue",
        "ttft.queue_s",
        "s",
        (Q.QUEUE, Q.E2E),
        "Δ queue sum ÷ n, of the n requests that finished in the window (n = Δ e2e count)",
        "to the first scheduling only: waiting again after a preemption is in decode",
    ),
    Number(
        "ttft",
        "prefill",
        "ttft.prefill_s",
        "s",
        (Q.PREFILL, Q.E2E),
        "Δ prefill sum ÷ n, of the same requests",
    ),
    Number(
        "ttft",
        "frontend",
        "ttft.frontend_s",
        "s",
        (Q.E2E, Q.QUEUE, Q.INFERENCE),
        "(Δ e2e sum − Δ queue sum − Δ inference sum) ÷ n, of the same requests: template, tokenisation, IPC, the wait "
        "for the next step",
        "not HTTP, not the network",
    ),
    Number(
        "ttft",
        "total",
        "ttft.total_s",
        "s",
        (Q.QUEUE, Q.PREFILL, Q.E2E, Q.INFERENCE),
        "queue + prefill + frontend: the TTFT of the requests that finished in the window",
        "not the TTFT of those that got their first token in the window; that mean stands beside it",
    ),
    Number(
        "ttft",
        "first tokens",
        "ttft.first_token_s",
        "s",
        (Q.TTFT,),
        "Δ sum ÷ Δ count: requests that got their first token in the window",
    ),
    Number(
        "ttft",
        "now ≈",
        "ttft.queue_now_s",
        "s",
        (Q.WAITING, Q.TTFT),
        "an estimate by Little's law: mean waiting ÷ first tokens per second, over the latest 15, 30, 60 or 120 s with "
        "30 first tokens, or the window; none while nobody waits",
        "holds for a queue that neither grows nor shrinks; waiting includes preempted requests",
    ),
    Number(
        "ttft",
        "network",
        "own_ttft.network_s",
        "s",
        (Q.E2E, Q.INFERENCE, Q.PREFILL),
        "mean TTFT of vtop's own requests, from sent, − mean of queue + prefill + frontend, of the same requests: "
        "those that finished in the window",
        "not known where more than 2 % of the finished requests were not vtop's",
    ),
    Number(
        "ttft",
        "by the answers",
        "own_ttft.timed_queue_s",
        "s",
        (),
        "means of the timings that the server put into the answers: queue, prefill (its time_to_first_token_ms), "
        "and the rest of the client's TTFT",
        "only with --enable-per-request-metrics",
    ),
    Number(
        "ttft",
        "queue ÷ prefill",
        "growth.queue_of_prefill_ratio",
        "%",
        (Q.QUEUE, Q.PREFILL),
        "queue ÷ prefill, and queue ÷ total, of the requests that finished in the window",
    ),
    Number(
        "ttft",
        "by load",
        "growth.phases",
        "s",
        (Q.QUEUE, Q.PREFILL, Q.E2E, Q.INFERENCE),
        "the parts at each load of vtop's own: of the requests that finished from the end of a phase's warm-up to "
        "its end",
    ),
    Number(
        "ttft",
        "growth",
        "growth.prefill_factor",
        "×",
        (Q.PREFILL, Q.E2E, Q.INFERENCE),
        "prefill, and frontend, of the latest phase ÷ that at the lowest load; of queue what was added",
        "phases of one shape and with the same lengths only",
    ),
    Number(
        "ttft",
        "queue overtakes",
        "growth.crossing",
        "in flight, requests/s",
        (Q.QUEUE, Q.PREFILL),
        "the load at which queue would be prefill, on the log–log slopes of the last two loads",
        "an extrapolation; none beyond 4 times the highest load, nor where the two do not draw nearer",
    ),
    Number(
        "ttft",
        "overtook",
        "growth.crossed_at",
        "in flight, requests/s",
        (Q.QUEUE, Q.PREFILL),
        "the lowest load at which queue was above prefill",
    ),
    Number(
        "tokens",
        "out",
        "generation_tokens",
        "tokens/s",
        (Q.GENERATION_TOKENS,),
        "growth ÷ time; includes the first token of each request and the tokens of aborted ones",
    ),
    Number(
        "tokens",
        "in",
        "prompt_tokens",
        "tokens/s",
        (Q.PROMPT_TOKENS,),
        "growth ÷ time; cached tokens included",
        "a whole prompt is counted at its first token: long prompts come as bursts",
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
        (Q.PREFIX_HITS, Q.PREFIX_QUERIES),
        "Δ hit tokens ÷ Δ looked-up tokens in the window",
        "until 0.26 a request blocked on KV is looked up again every step, and a preempted one may hit its own blocks",
    ),
    Number(
        "tokens",
        "recomputed",
        "recompute.tokens",
        "tokens",
        (Q.WRITE_BYTES, Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT),
        "executed − least − rejected drafts, in the window and since vtop attached. executed: T of written bytes = "
        "a × T + b × rows of logits, a and b by the model's shape where the counters agree within 1 %, else fitted "
        "on pages without preemption; without --enable-mfu-metrics estimated by the KV that preemptions released",
        "0 while nobody was preempted; afterwards prompts aborted before their first token and async scheduling's "
        "wasted step after a stop token count too, and prompts in mid-prefill until they are counted "
        "(unsettled_tokens, at most)",
    ),
    Number(
        "tokens",
        "least",
        "recompute.least_tokens",
        "tokens",
        (Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT),
        "Δ computed prompt tokens + Δ generated − first tokens: what the answers needed",
        "before vLLM 0.16 prompt − prefix hits",
    ),
    Number(
        "tokens",
        "recompute share",
        "recompute.ratio",
        "%",
        (Q.WRITE_BYTES, Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT),
        "recomputed ÷ least",
    ),
    Number(
        "tokens",
        "a preemption",
        "recompute.per_preemption",
        "tokens",
        (Q.WRITE_BYTES, Q.PROMPT_TOKENS_BY_SOURCE, Q.GENERATION_TOKENS, Q.TTFT, Q.PREEMPTIONS),
        "recomputed ÷ preemptions, since vtop attached",
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
        "a cross-check: KV released by the preemptions; where it does not show, KV in use ÷ running on the page before",
        "blocks, and what a resumed request finds in the prefix cache is not taken off",
    ),
    Number(
        "tokens",
        "decoding",
        "wallclock.decode_s",
        "s",
        (Q.ITERATION_TOKENS, Q.RUNNING, Q.GENERATION_TOKENS),
        "steps × the time of a step that only decodes (median over pages between which all steps only decoded, else "
        "median ITL of vtop's own load); idle: nothing ran; the rest is prefill and recompute, divided by "
        "their tokens. They add up to the window",
        "chunks that gave no output are no steps; several API servers count a step several times",
    ),
    Number(
        "tokens",
        "stolen",
        "wallclock.stolen_ratio",
        "%",
        (Q.DECODE, Q.REQUEST_GENERATION_TOKENS),
        "1 − (mean output − 1) × step ÷ mean decode time, of the finished: what others' prefill and recompute and "
        "preemption took",
    ),
    Number(
        "latencies",
        "mean",
        "latencies.mean_s",
        "s",
        (Q.TTFT, Q.ITL, Q.TPOT, Q.QUEUE, Q.PREFILL, Q.DECODE, Q.E2E),
        "Δ sum ÷ Δ count in the window: exact",
        "whose: TTFT of first tokens, ITL of every later token, the others of finished requests",
    ),
    Number(
        "latencies",
        "p50 p90 p99",
        "latencies.p99",
        "s",
        (Q.TTFT, Q.ITL, Q.TPOT, Q.QUEUE, Q.PREFILL, Q.DECODE, Q.E2E),
        "the bounds of the bucket that holds the percentile (nearest rank) in the window; never interpolated",
        "queue, prefill, decode and e2e begin at 300 ms; above the last bound it is '> bound'",
    ),
    Number(
        "latencies",
        "tail",
        "tail.sentence",
        "a sentence",
        (Q.ITL, Q.PREEMPTIONS),
        "the first of p50, p90, p99, p99.9, p99.99, p99.999 with 1 − q at most preemptions ÷ gaps of the window: "
        "below it the torn gaps do not show",
        "with several tokens an output, gaps are those of outputs",
    ),
    Number(
        "load",
        "TTFT",
        "load.ttft",
        "s",
        (),
        "first token − sent, of vtop's own successful requests of the phase, warm-up left out; exact to 1 µs",
        "in an open loop see 'from due' beside it: what a user who came then waited",
    ),
    Number(
        "load",
        "from due",
        "load.ttft_from_due",
        "s",
        (),
        "first token − the instant by the schedule: a wait in the client counts (open loop only)",
    ),
    Number(
        "load",
        "ITL",
        "load.itl",
        "s",
        (),
        "gap between two reads that brought tokens ÷ the tokens it brought, each token once",
        "named 'gap' where the server did not say how many tokens a chunk held",
    ),
    Number(
        "load",
        "TPOT",
        "load.tpot",
        "s",
        (),
        "(last token − first token) ÷ (tokens − those of the first read), per request; absent for one token",
    ),
    Number("load", "e2e", "load.e2e", "s", (), "last token − sent"),
    Number(
        "load",
        "p50 … p99.9",
        "load.ttft.p99_s",
        "s",
        (),
        "nearest rank over all requests, failed and unfinished ones as longer than everything ('failed')",
        "not given below 44 (p90), 459 (p99) and 4,603 (p99.9) samples",
    ),
    Number(
        "load",
        "late",
        "load.late_p99_s",
        "s",
        (),
        "sent − due: how late the client was",
        "an open loop with p99 beyond 2 ms and 5 % of the mean gap is marked client-limited, and so is any phase with "
        "a request that this machine had no file, port or memory for (client_limit)",
    ),
    Number(
        "load",
        "kept",
        "load.slo",
        "%",
        (),
        "requests that succeeded and kept every bound of --slo ÷ all that ended; TTFT and e2e from due",
        "failed and unfinished ones break it",
    ),
    Number(
        "load",
        "tok/s",
        "load.output_per_s",
        "tokens/s",
        (),
        "output tokens whose reads lie between the end of the warm-up and the last request being sent ÷ that time, in "
        "slices of 0.1 s; given once the phase has ended",
        "ramp and drain are left out; tokens of failed requests count",
    ),
    Number(
        "load",
        "from the prefix cache",
        "load.prefix_hit_tokens",
        "tokens",
        (Q.PREFIX_HITS,),
        "growth of the server's hit counter from the page before the phase to the one after it",
        "vtop's prompts meet no other run's: hits are those of prefix=, of other traffic, or of preempted requests "
        "that met their own blocks",
    ),
    Number("load", "goodput", "load.slo.good_per_s", "requests/s", (), "requests that kept every bound ÷ time so far"),
    Number(
        "engines",
        "tok/s",
        "engines.generation_per_s",
        "tokens/s",
        (Q.GENERATION_TOKENS,),
        "growth ÷ time in the window, per engine",
    ),
)
