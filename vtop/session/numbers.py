"""What every number on the screen is: one table, which the help screen, the documents and a test read."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics import vllm
from vtop.metrics.vllm import Quantity

_ELSEWHERE = {"gpu": "NVML", "header": "the page itself", "load": "vtop's own requests"}


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
        "an open loop with p99 beyond 2 ms and 5 % of the mean gap is marked client-limited",
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
