"""How many tokens must run through the model for the answers that were given: the least work, from counters alone.

A prompt of P tokens with G tokens of output runs P + G - 1: the last prompt token gives the first of the output, and
the last of the output is never run. So over a span

    least = computed prompt tokens + generated - first tokens
    rows of logits = generated - accepted drafts          (and one for each prefill chunk that ends no prompt)

where prompt tokens found in a cache are not computed. Speculative decoding runs drafted - accepted tokens more. A
prompt is counted at its request's first token, one aborted before it never. Until vLLM 0.15 cached prompt tokens are
told by the prefix cache's hits only, which count a request blocked on KV once a step: the least is then too low.

Source: vLLM v1/metrics/stats.py (PromptTokenStats), v1/spec_decode/metrics.py. Tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics.quantity import Quantity
from vtop.session.history.server import ServerHistory


@dataclass(frozen=True, slots=True)
class Needed:
    """What a span's answers took."""

    prompt: float  # computed
    first_tokens: float
    generated: float
    drafted: float
    accepted: float

    @property
    def least(self) -> float:
        return max(0.0, self.prompt + self.generated - self.first_tokens)

    @property
    def context(self) -> float | None:
        """The contexts of those tokens added up, prompts and outputs taken for equally long and a prompt for one
        chunk: prompts P of P each, later tokens of P and half of the output so far. None without a first token."""
        if not self.first_tokens:
            return None
        prompt, output = self.prompt / self.first_tokens, self.generated / self.first_tokens
        return self.prompt * prompt + (self.generated - self.first_tokens) * (prompt + output / 2)

    @property
    def rejected(self) -> float:
        return max(0.0, self.drafted - self.accepted)

    @property
    def rows(self) -> float:
        return max(0.0, self.generated - self.accepted)


def needed(server: ServerHistory, first: int, last: int) -> Needed | None:
    """After scrape first and up to scrape last; None where the server does not count tokens."""
    prompt, generated = _computed(server, first, last), server.grown(Quantity.GENERATION_TOKENS, first, last)
    observed = server.sums(Quantity.TTFT, first, last)
    if prompt is None or generated is None or observed is None:
        return None
    return Needed(
        prompt=prompt,
        first_tokens=observed[1],
        generated=generated,
        drafted=server.grown(Quantity.SPEC_DRAFT_TOKENS, first, last) or 0.0,
        accepted=server.grown(Quantity.SPEC_ACCEPTED_TOKENS, first, last) or 0.0,
    )


def _computed(server: ServerHistory, first: int, last: int) -> float | None:
    local = server.grown(Quantity.PROMPT_TOKENS_BY_SOURCE, first, last, "local_compute")
    if local is not None:
        return local
    prompts, hits = (server.grown(quantity, first, last) for quantity in (Quantity.PROMPT_TOKENS, Quantity.PREFIX_HITS))
    return max(0.0, prompts - (hits or 0.0)) if prompts is not None else None
