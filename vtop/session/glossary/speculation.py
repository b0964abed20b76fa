"""The numbers of speculative decoding and of LoRA adapters: panels that are there where a server has either."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

SPECULATION = (
    Number(
        "speculation",
        "tokens a step",
        "speculation.tokens_per_step",
        "tokens",
        (Q.SPEC_ACCEPTED_TOKENS, Q.SPEC_DRAFTS),
        "1 + Δ accepted tokens ÷ Δ drafts: tokens that a step yields for a request whose draft it verified",
        "leaves out steps without a draft, as when there was nothing to draft from",
        also=("speculation.accepted_per_draft",),
    ),
    Number(
        "speculation",
        "accepted",
        "speculation.accepted_ratio",
        "%",
        (Q.SPEC_ACCEPTED_TOKENS, Q.SPEC_DRAFT_TOKENS),
        "Δ accepted tokens ÷ Δ drafted tokens in the window",
        also=("speculation.draft_tokens", "speculation.drafted_per_draft", "speculation.accepted_tokens"),
    ),
    Number(
        "speculation",
        "drafts",
        "speculation.drafts",
        "drafts",
        (Q.SPEC_DRAFTS,),
        "Δ drafts in the window, one for each request in each step that verified one",
        also=("speculation.drafts_per_s",),
    ),
    Number(
        "speculation",
        "at 1, 2, …",
        "speculation.by_position",
        "%",
        (Q.SPEC_ACCEPTED_BY_POSITION, Q.SPEC_DRAFTS),
        "Δ tokens accepted at this position of a draft ÷ Δ drafts; the first position is 1",
        "a shorter draft counts as one whose token was not accepted",
    ),
)

LORA = (
    Number(
        "lora",
        "adapters",
        "lora.most",
        "adapters",
        (Q.LORA,),
        "names and number of the adapters in the server's latest report, and how many one step may hold",
        "an adapter whose requests all wait is missing, and one that has just ended may still be there",
        also=("lora.adapters",),
    ),
    Number(
        "lora",
        "deferred",
        "lora.deferred",
        "requests",
        (Q.WAITING_BY_REASON,),
        "requests that wait for something other than KV or max-num-seqs: a slot for their adapter, remote KV, a "
        "grammar",
    ),
)
