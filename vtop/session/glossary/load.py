"""The numbers of the panel load: what vtop's own requests saw, exact to a microsecond."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

LOAD = (
    Number(
        "load",
        "TTFT",
        "load.ttft",
        "s",
        (),
        "first token − sent, of vtop's own successful requests of the phase, warm-up left out; exact to 1 µs",
        "in an open loop see 'from due' beside it: what a user who arrived on schedule waited",
    ),
    Number(
        "load",
        "from due",
        "load.ttft_from_due",
        "s",
        (),
        "first token − scheduled arrival: a wait in the client counts (open loop only)",
    ),
    Number(
        "load",
        "ITL",
        "load.itl",
        "s",
        (),
        "gap between two reads with tokens ÷ the tokens of the second, each token once",
        "called 'gap' if the server did not say how many tokens a chunk held",
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
        "p50 … p99.99",
        "load.itl.p99_s",
        "s",
        (),
        "nearest rank over all requests, failed and unfinished ones counted as infinitely long (∞)",
        "not given below 44 (p90), 459 (p99), 4,603 (p99.9) and 46,050 (p99.99) samples",
    ),
    Number(
        "load",
        "rejected",
        "load.rejected",
        "requests",
        (),
        "of the failed ones those that were answered with 429: by a gateway or server at its limit",
        "no error of the server's and no broken bound; they count as missed in a service level",
    ),
    Number(
        "load",
        "waits for a slot",
        "load.slot_wait.mean_s",
        "s",
        (),
        "mean of admitted − due, under a cap on what is in flight (max=): the queue in front of the gateway",
        "the cap was asked for, so it is no lateness of the client; latencies from due hold it",
        also=("load.slot_wait",),
    ),
    Number(
        "load",
        "late",
        "load.late_p99_s",
        "s",
        (),
        "sent − due: how late the client was",
        "an open loop with p99 above both 2 ms and 5 % of the mean gap is marked client-limited, and so is any phase "
        "with a request for which this machine had no file, port or memory (client_limit), or whose worker on another "
        "host was lost (worker_lost)",
    ),
    Number(
        "load",
        "client",
        "load.cpu_ratio",
        "%",
        (),
        "CPU time of the load's processes ÷ time, in per cent of one core; event-loop delay: the worst lateness of "
        "its event loop in the last second",
        also=("load.lag_s",),
    ),
    Number(
        "load",
        "requests",
        "load.done",
        "requests",
        (),
        "of the phase, without warm-up except in flight: sent, in flight, with a first token (answering), done, "
        "failed, cancelled by vtop (unfinished), and how many are planned or how much time is left",
        also=(
            "load.failed",
            "load.sent",
            "load.unfinished",
            "load.in_flight",
            "load.answering",
            "load.planned",
            "load.progress_ratio",
            "load.left_s",
            "load.concurrency",
            "load.output_tokens",
            "load.wrong_length",
            "load.ended_early",
        ),
    ),
    Number(
        "load",
        "within SLO",
        "load.slo",
        "%",
        (),
        "requests that succeeded and met every bound of --slo ÷ all that ended; TTFT and e2e from due",
        "failed and unfinished requests miss it",
    ),
    Number(
        "load",
        "tok/s",
        "load.output_per_s",
        "tokens/s",
        (),
        "closed loop: output tokens of requests that ended between the middle of the first round and that of the "
        "last before no more were sent ÷ that time, a round being as many as are in flight; with fewer than 3 rounds "
        "(and all answered), all tokens ÷ the time from the first request sent to the last token; else (open loop, "
        "changed by hand) tokens that came between the end of the warm-up and the last sending ÷ that time, in "
        "slices of 0.1 s; given once the phase has ended",
        "unless output_over is `all`, ramp and drain are left out; with `all`, tokens of failed requests count; a "
        "generator that divides all tokens by all the time (whole_output_per_s) gives less, especially on a short run",
        also=("load.output_over", "load.whole_output_per_s", "load.whole_ended_per_s"),
    ),
    Number(
        "load",
        "from the prefix cache",
        "load.prefix_hit_tokens",
        "tokens",
        (Q.PROMPT_TOKENS_BY_SOURCE, Q.PREFIX_HITS),
        "growth of the server's prompt tokens from a cache (before vLLM 0.16 of its hit counter) from the scrape "
        "before the phase to the one after it",
        "vtop's prompts share nothing with other runs: hits come from prefix=, from other traffic, or from preempted "
        "requests that find their own blocks",
        also=("load.cached_tokens",),
    ),
    Number(
        "waterfall",
        "took",
        "waterfall.rows",
        "s",
        (),
        "one of vtop's own requests: from sent to its last token, or to now; TTFT from sent is after its bar. "
        "Requests without a first token come first, oldest first, then the other open ones, then the slowest of the "
        "latest 500 that ended in the window",
        "queue and prefill are separate only if the server sends its own timings (--enable-per-request-metrics); "
        "these say how long, not when, so prefill is drawn up to the first token",
    ),
    Number(
        "waterfall",
        "open",
        "waterfall.open",
        "requests",
        (),
        "sent and not ended; of these, without a first token; and how many ended requests the slowest were chosen from",
        also=("waterfall.unanswered", "waterfall.ended"),
        on_screen=False,
    ),
    Number("load", "goodput", "load.slo.good_per_s", "requests/s", (), "requests that met every bound ÷ time so far"),
)
