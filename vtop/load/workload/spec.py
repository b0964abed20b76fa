"""What a person asks of the load (`--load c=1..64,in=1024`, `--slo ttft=800ms`) becomes phases and bounds.

A SPEC is words, key=value, between commas or blanks. A number that stands alone goes on with the list before it, so
`c=1,2,4 in=512` is three phases; `c=1..64` doubles (1, 2, 4 … 64). A value with a comma or blank stands in quotes.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import NoReturn, TypeVar

from vtop.errors import VtopError
from vtop.load.workload.phase import LIMIT_S, PlannedPhase, TokenRange, plain
from vtop.recording.vocabulary import APIS
from vtop.units import duration

_Word = TypeVar("_Word", bound=str)

# word -> how it is written, what it asks for
WORDS = {
    "c": ("c=64", "closed loop: so many requests in flight; c=1,2,4 and c=1..64 (doubling) are phases"),
    "rate": ("rate=8", "open loop: requests a second, whether or not answers come; lists as with c"),
    "arrival": (
        "arrival=gamma:0.5",
        "of an open loop: poisson (default), constant, vllm (its bench's), gamma:K (K < 1: bursts)",
    ),
    "max": ("max=128", "cap of an open loop; the wait for a slot is part of the latency"),
    "in": ("in=1024", "prompt tokens of a request, all of them; in=512~2048 is a range [1024]"),
    "out": ("out=256", "output tokens, exactly; out=64~256 is a range [256; with dataset: the file's]"),
    "prefix": ("prefix=256", "the first tokens of every prompt of the run, alike; counted in `in`"),
    "dataset": ("dataset=prompts.jsonl", 'JSONL of {"prompt"} or {"input", "output"}, or ShareGPT\'s JSON'),
    "trace": ("trace=trace.jsonl", "Mooncake's JSONL, at the recorded times (timestamp in ms, or timestamp_s)"),
    "speed": ("speed=2", "of a trace: twice as fast"),
    "block": ("block=512", "of a trace: tokens that one of its hash_ids stands for"),
    "n": ("n=128", "requests to measure [closed loop: 5 a slot, at least 128]"),
    "for": ("for=60s", "time to measure [open loop: 60 s, longer when 128 requests take longer]"),
    "warmup": ("warmup=8", "requests before them that do not count"),
    "seed": ("seed=1", "arrivals, lengths and prompts [0]"),
    "api": ("api=chat", "completions (default: exact prompts of token ids) or chat"),
    "ignore_eos": ("ignore_eos=no", "answers may end by themselves, out= is the most of them [yes]"),
    "workers": ("workers=2", "processes that share the load"),
}
_MEANT = {
    **dict.fromkeys(("concurrency", "users", "clients", "streams", "parallel", "slots"), "c"),
    **dict.fromkeys(("qps", "rps", "request_rate", "request-rate", "r"), "rate"),
    **dict.fromkeys(("burstiness", "distribution", "pattern"), "arrival"),
    **dict.fromkeys(("cap", "max_in_flight", "max-concurrency"), "max"),
    **dict.fromkeys(("input", "isl", "prompt", "prompt_tokens"), "in"),
    **dict.fromkeys(("output", "osl", "max_tokens"), "out"),
    **dict.fromkeys(("requests", "prompts", "num", "count", "num-prompts"), "n"),
    **dict.fromkeys(("duration", "time", "seconds", "t"), "for"),
    **dict.fromkeys(("file", "data", "sharegpt", "prompts_file"), "dataset"),
    **dict.fromkeys(("endpoint", "backend"), "api"),
    **dict.fromkeys(("processes", "threads"), "workers"),
    **dict.fromkeys(("eos", "exact", "ignore-eos", "stop"), "ignore_eos"),
    **dict.fromkeys(("exponential", "random"), "poisson"),
    **dict.fromkeys(("uniform", "fixed", "even"), "constant"),
    **dict.fromkeys(("itl", "tbt"), "tpot"),
    **dict.fromkeys(("e2el", "latency", "total"), "e2e"),
}
_HOMES = {  # words that mean something only beside one of these
    "arrival": ("rate",),
    "max": ("rate", "trace"),
    "speed": ("trace",),
    "block": ("trace", "dataset"),
}
LEAST_REQUESTS = 128  # the p95 of so many can be trusted
A_SLOT = 5  # requests of each that are in flight: three whole rounds between ramp and drain


def phases(specs: Sequence[str], *, option: str = "--load", endless: bool = False) -> tuple[PlannedPhase, ...]:
    """The phases of all SPECs, in order. `option` names the place in an error. Raises VtopError.

    endless: a phase that is the only one and names neither n= nor for= has no end of its own.
    """
    read = [_Spec(text, option) for text in specs]
    found = tuple(phase for spec in read for phase in spec.phases())
    if endless and len(found) == 1 and found[0].arrival != "trace" and not {"n", "for"} & read[0].values.keys():
        return (replace(found[0], requests=None, for_s=None),)
    return found


def sweep(
    concurrency: str = "1,2,4,8,16,32,64",
    *,
    rate: str | None = None,
    words: str = "in=1024 out=256",
    option: str = "sweep",
) -> tuple[PlannedPhase, ...]:
    """One phase for each concurrency (or rate), alike in all else; `words` is the rest of a SPEC.

    Where `words` name no warm-up, each phase warms up with one request a slot (8 in an open loop), so that the
    caches of the phase before are gone from what is measured. `thin` says what its percentiles are worth.
    """
    spec = _Spec(f"{f'c={concurrency}' if rate is None else f'rate={rate}'} {words}", option)
    if "warmup" in spec.values:
        return spec.phases()
    return tuple(replace(phase, warmup=phase.concurrency or 8) for phase in spec.phases())


@dataclass(frozen=True, slots=True)
class SloBounds:
    """What a request must meet to count as good, in seconds; None: no bound."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def record(self) -> dict[str, float]:
        """The bounds there are, as the recording has them."""
        bounds = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}
        return {name: bound for name, bound in bounds.items() if bound is not None}


def slo(text: str, *, option: str = "--slo") -> SloBounds:
    """The bounds of `ttft=800ms,tpot=50ms,e2e=10s`. Raises VtopError."""
    bounds: dict[str, float] = {}
    example = "ttft=800ms,tpot=50ms,e2e=10s"
    for word in text.replace(",", " ").split():
        name, equals, value = word.partition("=")
        if not equals:
            _wrong(option, text, f"{word!r} has no =", example)
        if name not in ("ttft", "tpot", "e2e"):
            _wrong(option, text, f"no bound is called {name!r}", _near(name, ("ttft", "tpot", "e2e")) or example)
        if name in bounds:
            _wrong(option, text, f"{name} is given twice", f"one {name}=")
        found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)(ms|s)?", value)
        if found is None:
            _wrong(option, text, f"{word} is no time", f"{name}=800ms or {name}=0.8s")
        if found[2] is None:
            _wrong(option, text, f"{word} has no unit", f"{word}ms or {word}s")
        bounds[name] = float(found[1]) / (1000 if found[2] == "ms" else 1)
        if bounds[name] <= 0:
            _wrong(option, text, f"{word} is met by no request", f"{name}=800ms")
    if not bounds:
        _wrong(option, text, "no bound is given", example)
    return SloBounds(bounds.get("ttft"), bounds.get("tpot"), bounds.get("e2e"))


class _Spec:
    """One SPEC: its words as typed, and each of them read with an error that says where it stands."""

    def __init__(self, text: str, option: str) -> None:
        self.text = text
        self.option = option
        self.values: dict[str, str] = {}
        last = ""
        for word in self._split():
            key, equals, value = word.partition("=")
            if not equals:
                if last not in ("c", "rate") or not re.fullmatch(r"[\d.]+", word):
                    self.wrong(*_alone(word, last))
                self.values[last] += f",{word}"
                continue
            if key not in WORDS:
                self.wrong(f"no word is called {key!r}", _near(key, WORDS) or f"some of {', '.join(WORDS)}")
            if key in self.values:
                self.wrong(f"{key} is given twice", f"one of them; phases are several {option}, or a list (c=1,2,4)")
            if not value:
                self.wrong(f"{key}= has no value", WORDS[key][0])
            self.values[key] = value
            last = key

    def phases(self) -> tuple[PlannedPhase, ...]:
        self._together()
        if "trace" in self.values:
            return (self._phase(PlannedPhase(arrival="trace", trace=self.values["trace"])),)
        if "c" in self.values:
            targets = self._series("c", lambda text: self._whole("c", 1, 65536, text))
            return tuple(self._phase(PlannedPhase(concurrency=round(c))) for c in targets)
        rates = self._series("rate", lambda text: self._above_zero("rate", text.removesuffix("/s")))
        return tuple(self._phase(PlannedPhase(rate_per_s=rate, arrival=self._arrival())) for rate in rates)

    def wrong(self, what: str, instead: str) -> NoReturn:
        _wrong(self.option, self.text, what, instead)

    def _split(self) -> list[str]:
        words = shlex.shlex(self.text, posix=True)
        words.whitespace, words.whitespace_split, words.commenters, words.escape = ", \t\r\n", True, "", ""
        try:
            return list(words)
        except ValueError:
            self.wrong("a quote is not closed", 'dataset="my prompts.jsonl"')

    def _together(self) -> None:
        """What cannot stand together, or not alone."""
        shapes = [key for key in ("c", "rate", "trace") if key in self.values]
        if not shapes:
            self.wrong("how much load is not said", "c=64 (closed loop), rate=8 (open loop) or trace=FILE")
        if shapes == ["c", "trace"]:
            self.wrong("c and trace exclude each other", "dataset=FILE with c: the trace's requests without its times")
        if len(shapes) > 1:
            faster = ", or speed=2 to send a trace faster" if "trace" in shapes else ""
            self.wrong(f"{' and '.join(shapes)} exclude each other", f"one of them{faster}")
        for key, homes in _HOMES.items():
            if key in self.values and not any(home in self.values for home in homes):
                self.wrong(f"{key} belongs to {' or '.join(homes)}", f"{WORDS[homes[0]][0]} with it, or leave it out")
        file = next((key for key in ("dataset", "trace") if key in self.values), None)
        if file and "dataset" in self.values and "trace" in self.values:
            self.wrong("dataset and trace exclude each other", "one of them")
        for key in ("in", "prefix", *(("out",) if file == "trace" else ())):
            if file and key in self.values:
                self.wrong(f"{key} says what the {file} says already", f"one of them; leave {key}= or {file}=")
        if file == "trace" and self.values.get("api", "completions") != "completions":
            self.wrong("a trace is replayed in token ids, which chat does not take", "api=completions")

    def _phase(self, phase: PlannedPhase) -> PlannedPhase:
        given = self.values
        file = "dataset" in given or "trace" in given
        phase = replace(
            phase,
            max_in_flight=self._whole("max", 1, 65536) if "max" in given else None,
            input=None if file else self._lengths("in", TokenRange(1024, 1024)),
            output=self._lengths("out", None if file else TokenRange(256, 256)),
            prefix_tokens=self._whole("prefix", 0, 10_000_000) if "prefix" in given else 0,
            dataset=given.get("dataset"),
            speed=self._above_zero("speed", given["speed"].removesuffix("x")) if "speed" in given else 1.0,
            hash_tokens=self._whole("block", 1, 65536) if "block" in given else 512,
            requests=self._whole("n", 1, 100_000_000) if "n" in given else None,
            for_s=self._seconds() if "for" in given else None,
            warmup=self._whole("warmup", 0, 1_000_000) if "warmup" in given else 0,
            seed=self._whole("seed", 0, 2**63 - 1) if "seed" in given else 0,
            api=self._one_of("api", APIS[:-1]) if "api" in given else "completions",
            ignore_eos=self._one_of("ignore_eos", ("yes", "no")) == "yes" if "ignore_eos" in given else True,
            workers=self._whole("workers", 1, 256) if "workers" in given else 1,
        )
        if phase.input and phase.prefix_tokens >= phase.input.low:
            tokens = phase.input.low
            self.wrong(
                f"prefix={phase.prefix_tokens} leaves no token of its own in a prompt of {tokens}",
                f"in={tokens + phase.prefix_tokens}: the prefix counts",
            )
        return self._bounded(phase)

    def _bounded(self, phase: PlannedPhase) -> PlannedPhase:
        """With an end, if none was asked for."""
        if phase.requests is not None or phase.for_s is not None:
            return phase
        if phase.concurrency is not None:
            return replace(phase, requests=max(A_SLOT * phase.concurrency, LEAST_REQUESTS))
        if phase.rate_per_s is not None:
            return replace(phase, for_s=float(min(max(60, math.ceil(LEAST_REQUESTS / phase.rate_per_s)), LIMIT_S)))
        return phase  # a trace ends by itself

    def _series(self, key: str, read: Callable[[str], float]) -> list[float]:
        """The values of a list; a..b doubles from a and ends with b."""
        values: list[float] = []
        for part in self.values[key].split(","):
            first, dots, last = part.partition("..")
            low = read(first)
            values.append(low)
            if dots:
                high = read(last)
                if high < low:
                    self.wrong(f"{key}={part} runs backwards", f"{key}={last}..{first}")
                while values[-1] * 2 < high:
                    values.append(values[-1] * 2)
                if high > low:
                    values.append(high)
        return values

    def _whole(self, key: str, low: int, high: int, text: str | None = None) -> int:
        text = self.values[key] if text is None else text
        if not re.fullmatch(r"[0-9]{1,19}", text):
            self.wrong(f"{key}={text} is no whole number", WORDS[key][0])
        if not low <= int(text) <= high:
            self.wrong(f"{key}={text} is not within {low:,} to {high:,}", WORDS[key][0])
        return int(text)

    def _above_zero(self, key: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            self.wrong(f"{key}={text} is no number above 0", WORDS[key][0])
        return value

    def _seconds(self) -> float:
        try:
            seconds = duration(self.values["for"])
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.wrong(f"for={self.values['for']} is no time", "for=60s, for=2m30s or for=1h")
        return seconds

    def _lengths(self, key: str, default: TokenRange | None) -> TokenRange | None:
        if key not in self.values:
            return default
        text = self.values[key]
        if near := re.fullmatch(r"(\d+)(?:-|:|/|\.\.|…|–)(\d+)", text):
            self.wrong(f"{key}={text} is no range", f"{key}={near[1]}~{near[2]}")
        low, tilde, high = text.partition("~")
        ends = [self._whole(key, 1, 10_000_000, end) for end in ((low, high) if tilde else (low, low))]
        if ends[1] < ends[0]:
            self.wrong(f"{key}={text} runs backwards", f"{key}={high}~{low}")
        return TokenRange(*ends)

    def _arrival(self) -> str:
        text = self.values.get("arrival", "poisson")
        kind, colon, shape = text.partition(":")
        if kind == "gamma":
            if not colon:
                self.wrong("gamma needs its shape", "arrival=gamma:0.5 (1 is poisson, less is burstier)")
            try:
                known = 0 < float(shape) < math.inf
            except ValueError:
                known = False
            if not known:
                self.wrong(f"arrival={text}: the shape is no number above 0", "arrival=gamma:0.5")
            return f"gamma:{plain(float(shape))}"
        if text == "vllm":
            if "n" not in self.values:
                self.wrong("arrival=vllm scales the gaps so that n requests take n / rate", "n=500 with it")
            if "seed" in self.values and self._whole("seed", 0, 2**63 - 1) >= 2**32:
                self.wrong(f"seed={self.values['seed']}: arrival=vllm takes numpy's seeds", "a seed below 2^32")
            return text
        if text not in ("poisson", "constant"):
            near = _near(kind, ("poisson", "constant", "gamma:0.5", "vllm"))
            self.wrong(f"arrival={text} is not known", f"arrival={near or 'poisson, constant, gamma:0.5 or vllm'}")
        return text

    def _one_of(self, key: str, choices: Sequence[_Word]) -> _Word:
        text = self.values[key]
        if text not in choices:
            near = _near(text.removeprefix("/v1/"), choices)
            self.wrong(f"{key}={text} is not known", f"{key}={near or f' or {key}='.join(choices)}")
        return choices[choices.index(text)]


def _wrong(option: str, text: str, what: str, instead: str) -> NoReturn:
    raise VtopError(f"{option} {' '.join(text.split())!r}: {what}; write {instead}")


def _alone(word: str, last: str) -> tuple[str, str]:
    """What is wrong with a word that has no =, and what to write."""
    if last in ("dataset", "trace"):
        return f"{word!r} stands alone", f'the name in quotes if it belongs to the file: {last}="a, b.jsonl"'
    if last in ("in", "out") and word.isdecimal():
        return f"{word!r} stands alone", f"{last}=512~2048 for a range"
    if word.partition(":")[0] in ("poisson", "constant", "gamma"):
        return f"{word!r} stands alone", f"arrival={word}"
    if re.fullmatch(r"[\d.]+", word):
        return f"{word!r} stands alone", f"c={word} or rate={word}"
    key = re.match(r"[a-z]+", word)
    if key and key[0] in WORDS:
        rest = word[key.end() :].lstrip(":=- ")
        return f"{word!r} has no =", f"{key[0]}={rest}" if rest else WORDS[key[0]][0]
    return f"{word!r} has no =", "words such as c=64 in=1024 out=256"


def _near(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, written out where it is a SPEC's."""
    choices = tuple(known)
    meant = _MEANT.get(word.lower()) or next(iter(get_close_matches(word.lower(), choices, n=1, cutoff=0.6)), None)
    if meant not in choices:
        return None
    return WORDS[meant][0] if choices == tuple(WORDS) else meant
