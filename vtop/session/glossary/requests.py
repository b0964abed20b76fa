"""The numbers of the panel requests: how many run and wait, Little's law, and the stair of preemptions."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

REQUESTS = (
    Number(
        "requests",
        "running",
        "requests.running",
        "requests",
        (Q.RUNNING,),
        "as the scheduler's last step left it, summed over engines; a chart column shows its highest scrape",
        "sampled once a scrape; stands still when no engine step follows, as after a mass abort",
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
        "a client that hangs up is in no finish counter; with n > 1 each answer counts as a request; of servers that "
        "divide prefill and decode those on the decode side",
    ),
    Number(
        "requests",
        "/s × n",
        "requests.answers_each",
        "answers",
        (Q.ANSWERS,),
        "Δ sum ÷ Δ count of n, of the users' requests that finished in the window; beside it these per second",
        "where it is not 1, finished, latencies and prompt tokens are those of answers, each with the whole prompt",
        also=("requests.users_per_s",),
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
        "preempted requests wait again in waiting and not in queue time; scrapes can miss waves that are shorter "
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
        "a queue that remembers longer than the window looks like a trend; none of data that are old, and none when "
        "nothing runs or waits any more",
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
        "each step of the stair: the scrape on which running fell and waiting rose by more than finished, with KV at "
        "90 % or more, matched to the counter's rises, oldest first; a rise without such a scrape is dated by itself",
        "right to one interval between scrapes; what the counter has not told of is 'unconfirmed' and in no event",
        on_screen=False,
        also=("staircase.unconfirmed",),
    ),
    Number(
        "requests",
        "trigger",
        "staircase.trigger_mean_ratio",
        "%",
        (Q.KV_USED, Q.PREEMPTIONS),
        "KV use on the scrape before each preemption that the gauges date: mean, and the lowest beside it",
        "up to one interval before the event, so below what really triggers it",
    ),
    Number(
        "requests",
        "freed",
        "staircase.freed_mean_tokens",
        "tokens",
        (Q.KV_USED, Q.CACHE_CONFIG, Q.GENERATION_TOKENS),
        "fall of KV use × pool + tokens generated meanwhile, per preemption, where nobody finished or began on that"
        " scrape",
        "rounded up to blocks",
    ),
    Number(
        "requests",
        "every",
        "staircase.interval_mean_s",
        "s",
        (Q.PREEMPTIONS,),
        "seconds of the window ÷ preemptions in it, without the seconds of an outage that ended in a restart",
        "over a window that was idle for a part the times between them are shorter",
    ),
    Number(
        "requests",
        "per minute",
        "staircase.per_minute",
        "preemptions/min",
        (Q.PREEMPTIONS,),
        "preemptions in the window ÷ its minutes; straightness: R² of the least-squares line through the stair",
        also=("staircase.straightness", "staircase.slope_per_s"),
    ),
    Number(
        "requests",
        "cycle",
        "staircase.cycle",
        "a phrase",
        (Q.PREEMPTIONS, Q.KV_USED),
        "where 6 events or more come with a spread below 0.7 of the mean time between them (cycle_s ± cycle_spread_s; "
        "several preemptions between two scrapes are one event), on a line of R² 0.98 or more, at a mean trigger of "
        "90 % or more, two scrapes apart or more",
        "events that come by chance have a spread of 1",
        also=("staircase.cycle_s", "staircase.cycle_spread_s"),
        on_screen=False,
    ),
    Number(
        "requests",
        "per request",
        "staircase.per_request",
        "preemptions",
        (Q.REQUEST_PREEMPTIONS,),
        "Δ sum ÷ Δ count of the finished requests' preemptions (vLLM 0.30 and later); thrashing: how many of them "
        "had more than 5",
        on_screen=False,
    ),
    Number(
        "requests",
        "by reason",
        "staircase.by_reason",
        "preemptions",
        (Q.PREEMPTIONS_BY_REASON,),
        "growth in the window, where exported",
        on_screen=False,
    ),
)
