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
        "after the scheduler's last step, summed over engines; a chart column shows its highest scrape",
        "sampled once per scrape; stands still while no engine step follows, as after a mass abort",
    ),
    Number(
        "requests",
        "waiting",
        "requests.waiting",
        "requests",
        (Q.WAITING,),
        "after the scheduler's last step, summed over engines",
        "includes preempted requests that wait again",
    ),
    Number(
        "requests",
        "preempt",
        "preemption.count",
        "preemptions",
        (Q.PREEMPTIONS,),
        "growth since vtop attached; the stair's tick marks a column in which it rose",
        "vLLM counts a preemption only when the request yields its next token, so the count can be late; if the "
        "request is aborted first, its preemptions are never counted",
    ),
    Number(
        "requests",
        "finished",
        "requests.finished",
        "requests",
        (Q.FINISHED,),
        "growth in the window, all reasons",
        "no finish counter counts a client that hangs up; with n > 1 each answer counts as a request; of separate "
        "prefill and decode servers, those on the decode side",
    ),
    Number(
        "requests",
        "/s × n",
        "requests.answers_each",
        "answers",
        (Q.ANSWERS,),
        "Δ sum ÷ Δ count of n, for the users' requests that finished in the window; beside it, those requests per "
        "second",
        "if it is not 1, finished, latencies and prompt tokens count answers, each with the whole prompt",
        also=("requests.users_per_s",),
    ),
    Number(
        "requests",
        "running by Little",
        "queueing.running",
        "requests",
        (Q.RUNNING, Q.E2E, Q.INFERENCE),
        "measured mean running beside what Little's law expects: finished per second × mean inference time (prefill "
        "+ decode) of the finished; residual = (measured − expected) ÷ expected",
        "a residual far from 0 means that the window is no steady state; a preempted request's second wait is in the "
        "time but not in running",
    ),
    Number(
        "requests",
        "waiting by Little",
        "queueing.waiting",
        "requests",
        (Q.WAITING, Q.TTFT, Q.QUEUE),
        "measured mean waiting beside first tokens per second × mean queue time of the finished; residual likewise",
        "a preempted request's second wait is in waiting but not in queue time; scrapes can miss waves shorter than "
        "a few intervals",
    ),
    Number(
        "requests",
        "trend",
        "queueing.trend",
        "growing, steady, draining",
        (Q.WAITING,),
        "Mann–Kendall on at most 30 means of waiting since the latest gap or change of load: p below 0.01, Sen's "
        "slope over that time at least 10 % of the mean and 1 request, and the later half going the same way",
        "a queue that changes more slowly than the window looks like a trend; not given for old data, nor once "
        "nothing runs or waits",
    ),
    Number(
        "requests",
        "life spent waiting",
        "queueing.waiting_share",
        "%",
        (Q.QUEUE, Q.E2E),
        "Δ queue sum ÷ Δ e2e sum, for the requests that finished in the window",
    ),
    Number(
        "requests",
        "events",
        "staircase.events",
        "preemptions",
        (Q.PREEMPTIONS, Q.RUNNING, Q.WAITING, Q.FINISHED, Q.KV_USED),
        "each step of the staircase: the scrape at which running fell and waiting rose by more than finished, with "
        "KV at 90 % or more, matched to the counter's rises, oldest first; a rise without such a scrape has its own "
        "time",
        "accurate to one scrape interval; what the counter has not confirmed is 'unconfirmed' and in no event",
        on_screen=False,
        also=("staircase.unconfirmed",),
    ),
    Number(
        "requests",
        "trigger",
        "staircase.trigger_mean_ratio",
        "%",
        (Q.KV_USED, Q.PREEMPTIONS),
        "KV use at the scrape before each preemption that the gauges date: the mean, and the lowest beside it",
        "up to one interval before the event, so lower than the true trigger",
    ),
    Number(
        "requests",
        "freed",
        "staircase.freed_mean_tokens",
        "tokens",
        (Q.KV_USED, Q.CACHE_CONFIG, Q.GENERATION_TOKENS),
        "fall of KV use × pool + tokens generated meanwhile, per preemption, at scrapes at which no request finished "
        "or started",
        "rounded up to blocks",
    ),
    Number(
        "requests",
        "every",
        "staircase.interval_mean_s",
        "s",
        (Q.PREEMPTIONS,),
        "seconds of the window ÷ preemptions in it, without those of an outage that ended in a restart",
        "if the window was idle in part, the times between preemptions are shorter",
    ),
    Number(
        "requests",
        "per minute",
        "staircase.per_minute",
        "preemptions/min",
        (Q.PREEMPTIONS,),
        "preemptions in the window ÷ its minutes; straightness: R² of the least-squares line through the staircase",
        also=("staircase.straightness", "staircase.slope_per_s"),
    ),
    Number(
        "requests",
        "cycle",
        "staircase.cycle",
        "a phrase",
        (Q.PREEMPTIONS, Q.KV_USED),
        "given if 6 or more events come at least two scrapes apart, with a spread below 0.7 of the mean time between "
        "them (cycle_s ± cycle_spread_s; several preemptions between two scrapes are one event), on a line of R² "
        "0.98 or more, at a mean trigger of 90 % or more",
        "events that come at random have a spread of 1",
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
