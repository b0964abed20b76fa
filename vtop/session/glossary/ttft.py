"""The numbers of the panel ttft: what the time to first token is made of, and how it grows with the load."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

TTFT = (
    Number(
        "ttft",
        "queue",
        "ttft.queue_s",
        "s",
        (Q.QUEUE, Q.E2E),
        "Δ queue sum ÷ n, of the n requests that finished in the window (n = Δ e2e count)",
        "until first scheduled: a wait after a preemption is in decode",
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
        "queue + prefill + frontend: the TTFT of the requests that finished in the window; with the network's part, "
        "if vtop's own load shows it, the client's mean",
        "not the TTFT of the requests that got their first token in the window; that mean is beside it",
        also=("ttft.finished", "own_ttft.client_s"),
    ),
    Number(
        "ttft",
        "first tokens",
        "ttft.first_token_s",
        "s",
        (Q.TTFT,),
        "Δ sum ÷ Δ count: requests that got their first token in the window",
        also=("ttft.first_tokens",),
    ),
    Number(
        "ttft",
        "then decode side",
        "ttft.decode_first_token_s",
        "s",
        (Q.TTFT, Q.PROMPT_TOKENS_BY_SOURCE),
        "Δ sum ÷ Δ count of TTFT on the decode servers; the numbers above are then those of the prefill servers, and "
        "a client waits for one after the other",
        "a server is on the decode side if it computed at most 5 % of its prompt tokens and the rest came through a "
        "KV connector; on the prefill side if its requests get one token each",
    ),
    Number(
        "ttft",
        "now ≈",
        "ttft.queue_now_s",
        "s",
        (Q.WAITING, Q.TTFT),
        "an estimate by Little's law: mean waiting ÷ first tokens per second, over the latest 15, 30, 60 or 120 s "
        "with 30 first tokens; never from before a restart or a change of vtop's own load, and beyond 15 s only as "
        "long as there has been a queue; none while nobody waits or the data is old",
        "holds for a queue that neither grows nor shrinks; waiting includes preempted requests",
    ),
    Number(
        "ttft",
        "network",
        "own_ttft.network_s",
        "s",
        (Q.E2E, Q.INFERENCE, Q.PREFILL),
        "mean TTFT of vtop's own requests, from sent, − mean of queue + prefill + frontend, for the same requests: "
        "those that finished in the window",
        "not known if more than 2 % of the finished requests were not vtop's",
        also=("own_ttft.n", "own_ttft.foreign"),
    ),
    Number(
        "ttft",
        "by the answers",
        "own_ttft.timed_queue_s",
        "s",
        (),
        "means of the timings that the server put into its answers: queue, prefill (its time_to_first_token_ms), and "
        "the rest of the client's TTFT",
        "only with --enable-per-request-metrics",
        also=("own_ttft.timed", "own_ttft.timed_prefill_s", "own_ttft.timed_rest_s"),
    ),
    Number(
        "ttft",
        "queue ÷ prefill",
        "growth.queue_of_prefill_ratio",
        "%",
        (Q.QUEUE, Q.PREFILL),
        "queue ÷ prefill, and queue ÷ total, of the requests that finished in the window; not known if the window "
        "covers several of vtop's own loads: a report has the ratio of each",
    ),
    Number(
        "by_load",
        "by load",
        "growth.phases",
        "s",
        (Q.QUEUE, Q.PREFILL, Q.E2E, Q.INFERENCE),
        "the parts at each of vtop's own loads, for the requests that finished between the end of a phase's warm-up "
        "and its end",
    ),
    Number(
        "ttft",
        "growth",
        "growth.prefill_factor",
        "×",
        (Q.PREFILL, Q.E2E, Q.INFERENCE),
        "prefill (and frontend) of the latest phase ÷ that at the lowest load; for queue, the seconds added",
        "only phases of one shape and with the same lengths",
        also=("growth.frontend_factor", "growth.queue_added_s"),
    ),
    Number(
        "ttft",
        "queue overtakes",
        "growth.crossing",
        "in flight, requests/s",
        (Q.QUEUE, Q.PREFILL),
        "the load at which queue would equal prefill, by the log–log slopes of the last two loads",
        "an extrapolation; none beyond 4 times the highest load, nor if the two do not converge",
    ),
    Number(
        "ttft",
        "overtook",
        "growth.crossed_at",
        "in flight, requests/s",
        (Q.QUEUE, Q.PREFILL),
        "the lowest load from which queue stayed above prefill, and the next lower load, at which it did not",
        also=("growth.crossed_above",),
    ),
)
