"""The body of every request of a phase: prompts of an exact length that meet no other run's cache, or a file's prompts.

A server keeps the prompts it has seen and answers their likes many times faster. So each prompt begins with a nonce,
ids that no other request of any run begins with; where prompts are to share a prefix, the run's nonce begins it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import shake_128
from typing import Any

from vtop.errors import VtopError
from vtop.load.workload.arrivals import lengths
from vtop.load.workload.dataset import Item
from vtop.load.workload.phase import PlannedPhase

# A cache matches whole blocks from the front, so one odd id in the first block would do; with the largest usual block
# filled, a server that matches id by id shares nothing worth counting either.
NONCE_TOKENS = 64
# Where the server cannot be asked: above the specials and single bytes that most vocabularies begin with, below the
# end of the smallest in use.
VOCABULARY = range(300, 4000)
MANY, MOST_PER_S = 10, 500  # requests of a trace, from that many on, that no recorded service has seen in a second
LONGEST_ANSWER = 1024  # where neither a person nor the file says how long, and the model ends by itself
NEEDED = frozenset(("model", "prompt", "messages", "max_tokens", "stream"))
# Each costs one token in most vocabularies, with the blank before it; which do is counted where the server can count.
WORD_LIST = (
    "air arm art baby back bad bag ball bank base bed big bird black blood blue board boat body book born both box "
    "boy bread bring build burn bus buy call came car cat cause cell chair child church city class clean clear close "
    "cloth coat cold cook cool copy corn cost cross cut dark day dead deep desk dog door draw dream dress drink drive "
    "drop dry earth east eat edge egg eight end eye face fact fall far farm fast father fear feel fell field fight "
    "fill film find fine fire fish five flat floor fly food foot force form four free friend front fruit full game "
    "garden gate girl glass gold good grass gray great green ground group grow gun hair half hall hand hard hat head "
    "hear heart heat hill hit hold hole home hope horse hot hour house ice inch iron job jump key king kitchen lake "
    "land late law lay lead leaf learn leave leg letter life lift light line list live long lost love low luck "
    "machine main man map mark market meat metal milk mind mine moon morning mother mountain mouth move music name "
    "near neck news night nine noise north nose note office oil old open page pain paint paper park part path pay "
    "peace picture piece plan plant play point pool poor post power press pull push race radio rain read red rest "
    "rice rich ride ring rise river road rock roll room rose round run salt sand school sea seat seed sell ship shop "
    "short side sign silver sing sister six size skin sky sleep slow small smile snow soft soil song south space "
    "spring square star"
)
WORDS = WORD_LIST.split()
LENGTH = frozenset(("ignore_eos", "min_tokens"))  # either makes an answer as long as asked
TOKEN_IDS = "token ids as a prompt"  # what a gateway may refuse, beside the fields
OPENING = "Read:"  # so that every word of the prompt has a blank before it


@dataclass(frozen=True, slots=True, eq=False)
class _Units:
    """What made prompts consist of, as ready text: a unit for every value of two random bytes."""

    table: list[str]
    before: str
    between: str
    after: str
    overhead_tokens: int = 0  # of what stands around them, the chat template's included
    tokens_each: float = 1.0
    exact: bool = True

    def of(self, tokens: int) -> int:
        """Units in a prompt of so many tokens."""
        return round((tokens - self.overhead_tokens) / self.tokens_each)

    def text(self, draw: bytes) -> str:
        return self.between.join(map(self.table.__getitem__, memoryview(draw).cast("H")))


class CannotCount(VtopError):
    """The server does not say how many tokens a text has."""


class Prompts:
    """The payloads of one phase. One request's depends on its number alone, so any worker makes any of them.

    `caveats` are sentences for whoever reads the numbers: prompts that repeat, lengths that are not exact. `exact`:
    an answer is asked to be as long as `asked` says, not just at most so long.
    """

    def __init__(
        self,
        phase: PlannedPhase,
        *,
        model: str,
        entropy: str,
        index: int = 0,
        vocabulary: Sequence[int] = VOCABULARY,
        items: Sequence[Item] = (),
        count_tokens: Callable[[str], int] | None = None,
        without: Iterable[str] = (),
    ) -> None:
        """entropy: of this run alone. index: of the phase in the run. vocabulary: ids that the server takes as such.

        items: what `read` made of the phase's file. count_tokens: prompt tokens of a chat whose one message is the
        text, the template's included. without: fields that the server refused; `continuous_usage_stats` stands in for
        `return_token_ids`, and `min_tokens` for `ignore_eos`, unless refused too. Raises VtopError.
        """
        self._phase = phase
        self._items = items
        self._run = entropy
        self._phase_of_run = f"{entropy} {index}"
        chat = phase.api == "chat"
        if chat:
            self._units = _words(count_tokens)
        elif TOKEN_IDS in without:
            self._units = _Units(_table(WORDS), f'"{OPENING} ', " ", '"', exact=False)
        else:
            self._units = _Units(_table([str(id_) for id_ in vocabulary]), "[", ",", "]")
        self._ids = not chat and TOKEN_IDS not in without
        self._shared = round(phase.prefix_tokens / self._units.tokens_each)  # units
        self._before = self._units.before
        if self._shared:
            self._before += self._units.text(self._shared_draw()) + self._units.between
        self._head = f'{{"model":{json.dumps(model)},"{"messages" if chat else "prompt"}":'
        self._fields, self.exact = _fields(self._left_out(without))
        self._chat = chat
        self._check()
        self.recorded_s = tuple(item.at_s for item in items if item.at_s is not None)  # of a trace
        self.caveats = tuple(self._caveats())

    def leave_out(self, fields: frozenset[str]) -> None:
        """From now on; the server refused them."""
        self._fields, self.exact = _fields(self._left_out(fields))

    def _left_out(self, without: Iterable[str]) -> frozenset[str]:
        return frozenset(without) | (frozenset() if self._phase.ignore_eos else LENGTH)

    def payload(self, k: int) -> bytes:
        """The body of request k."""
        input_tokens, output_tokens = self.asked(k)
        tail = self._fields[output_tokens is not None]
        longest = LONGEST_ANSWER if output_tokens is None else output_tokens
        return f"{self._head}{self._prompt(k, input_tokens)},{tail.replace('N', str(longest))}}}".encode()

    def asked(self, k: int) -> tuple[int | None, int | None]:
        """Prompt and output tokens that request k asks for; None where a text or the model decides."""
        input_tokens, output_tokens = lengths(self._phase, k)
        item = self._item(k)
        if item is None:
            return input_tokens, output_tokens
        return item.input_tokens, item.output_tokens if output_tokens is None else output_tokens

    def _item(self, k: int) -> Item | None:
        return self._items[k % len(self._items)] if self._items else None

    def _prompt(self, k: int, tokens: int | None) -> str:
        item = self._item(k)
        if item is not None and item.text is not None:
            text = json.dumps(item.text)
            return f'[{{"role":"user","content":{text}}}]' if self._chat else text
        if item is not None and item.ids is not None:
            return f"[{','.join(map(str, item.ids))}]"
        assert tokens is not None
        if item is not None and item.hash_ids and self._ids:
            return f"[{self._units.text(self._blocks(item.hash_ids, tokens, k))}]"
        return (
            f"{self._before}{self._units.text(self._own(k, self._units.of(tokens) - self._shared))}{self._units.after}"
        )

    def _own(self, k: int, units: int) -> bytes:
        """What only request k has: its nonce, then a draw that the seed repeats."""
        units = max(units, 1)
        nonce = min(units, NONCE_TOKENS)
        return _draw(nonce, self._phase_of_run, "request", k) + _draw(units - nonce, self._phase.seed, "prompt", k)

    def _shared_draw(self) -> bytes:
        # the run's own, not the phase's: a sweep meets the same warm prefix at every step but the first
        nonce = min(self._shared, NONCE_TOKENS)
        return _draw(nonce, self._run, "prefix") + _draw(self._shared - nonce, self._phase.seed, "prefix")

    def _blocks(self, hash_ids: tuple[int | str, ...], tokens: int, k: int) -> bytes:
        """Equal blocks for equal hashes within the phase, none like another run's; the rest is the request's own."""
        size = self._phase.hash_tokens
        sizes = [min(size, tokens - at) for at in range(0, tokens, size)]
        blocks = [_draw(n, self._phase_of_run, "block", id_) for id_, n in zip(hash_ids, sizes, strict=False)]
        rest = tokens - sum(sizes[: len(blocks)])
        return b"".join(blocks) + (self._own(k, rest) if rest else b"")

    def _check(self) -> None:
        if self._chat and any(item.ids is not None for item in self._items):
            raise VtopError("the dataset has prompts of token ids, which chat does not take; write api=completions")
        if not self._ids and not self._chat and any(item.ids is not None for item in self._items):
            raise VtopError("the dataset has prompts of token ids, which this server does not take")
        tokens = self._phase.input
        if tokens is not None and self._units.of(tokens.low) - self._shared < 1:
            least = self._units.overhead_tokens + self._phase.prefix_tokens + 1
            raise VtopError(
                f"in={tokens.low} is less than the chat template and the prefix take; write in={least} or more"
            )

    def _caveats(self) -> Iterator[str]:
        word_for_word = sum(item.text is not None or item.ids is not None for item in self._items)
        if word_for_word:
            yield "the dataset's prompts are sent word for word: what was sent before may still be cached"
        total = self._phase.total
        if self._items and total is not None and total > len(self._items) and not self._phase.trace:
            again = "the prompts" if word_for_word else "the lengths"
            yield f"{total:,} requests from a dataset of {len(self._items):,}: {again} repeat"
        if not self._ids and any(item.hash_ids for item in self._items):
            instead = "; api=completions shares them" if self._chat else ""
            yield f"the dataset's hash_ids are left out, no two prompts share blocks{instead}"
        if self._phase.trace and (quick := _quick(self.recorded_s)) is not None:
            yield quick
        if not self.exact and self._phase.ignore_eos:
            yield "answers are at most as long as asked: the server takes neither ignore_eos nor min_tokens"
        if not self._units.exact and word_for_word < max(len(self._items), 1):
            yield "prompt lengths are not exact: what a word costs is not known, or not the same for all words"


def _quick(recorded_s: Sequence[float]) -> str | None:
    """In words, that a trace's requests follow so fast that its instants are rather seconds than milliseconds."""
    span_s = recorded_s[-1] - recorded_s[0] if recorded_s else 0.0
    if len(recorded_s) < MANY or not 0 < span_s * MOST_PER_S < len(recorded_s):  # all at once is meant so
        return None
    unit = "timestamp is read as milliseconds, seconds are timestamp_s"
    return f"the trace's {len(recorded_s):,} requests are due within {span_s:.3g} s ({unit})"


def _fields(without: frozenset[str]) -> tuple[tuple[str, str], bool]:
    """The JSON behind the prompt, N for the answer's length: for a model that ends by itself, and for exactly N.

    And whether the second can be asked for at all: LENGTH holds the fields of it.
    """
    if needed := without & NEEDED:
        raise ValueError(f"no request without {sorted(needed)}")
    fields: dict[str, Any] = {"stream": True}
    ids = "return_token_ids" not in without
    if not without & {"stream_options", "include_usage"}:
        # one exact count of each event's tokens is enough; a second only costs the server time
        counted = not ids and "continuous_usage_stats" not in without
        fields["stream_options"] = {"include_usage": True} | ({"continuous_usage_stats": True} if counted else {})
    if ids:
        fields["return_token_ids"] = True
    if "temperature" not in without:
        fields["temperature"] = 0  # else the model's own sampling, whose cost differs from model to model
    plain = '"max_tokens":N,' + json.dumps(fields, separators=(",", ":"))[1:-1]
    # ignore_eos is exact by itself; min_tokens masks logits at every step, which slows the server that is measured
    if "ignore_eos" not in without:
        return (plain, plain + ',"ignore_eos":true'), True
    if "min_tokens" not in without:
        return (plain, plain + ',"min_tokens":N'), True
    return (plain, plain), False


def _draw(units: int, *stream: object) -> bytes:
    """Two bytes for each unit, the same ones for the same stream on every machine."""
    return shake_128(" ".join(map(str, stream)).encode()).digest(2 * units)


def _table(units: Sequence[str]) -> list[str]:
    return [units[number * len(units) >> 16] for number in range(65536)]


def _words(count_tokens: Callable[[str], int] | None) -> _Units:
    """Words for chat: those that cost one token each, if the server can count and knows enough of them."""
    before, after = f'[{{"role":"user","content":"{OPENING} ', '"}]'
    if count_tokens is None:
        return _Units(_table(WORDS), before, " ", after, exact=False)
    try:
        overhead = count_tokens(OPENING)
    except CannotCount:
        return _Units(_table(WORDS), before, " ", after, exact=False)

    def cost(words: Sequence[str]) -> int:
        return count_tokens(" ".join((OPENING, *words))) - overhead

    def one_token_each(words: Sequence[str]) -> list[str]:
        if cost(words) == len(words):
            return list(words)
        middle = len(words) // 2
        return one_token_each(words[:middle]) + one_token_each(words[middle:]) if middle else []

    words = one_token_each(WORDS)
    if len(words) < 100:
        words = WORDS
    costs = cost(words), cost(words[::-1])
    exact = costs == (len(words), len(words))
    return _Units(_table(words), before, " ", after, overhead, sum(costs) / (2 * len(words)), exact)
