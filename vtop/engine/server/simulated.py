"""A simulated vLLM server without its HTTP: settings in, requests in, tokens and pages out, on a clock from outside.

Its clock counts seconds since it was started; a simulated restart does not set it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.core.model_shape import ModelShape
from vtop.engine.core.request import EngineRequest
from vtop.engine.fit import profile
from vtop.engine.server import request_parsing as requests
from vtop.engine.server.clocked_engine import Drive, Stream
from vtop.engine.server.faults import Faults, faults
from vtop.engine.server.http_metrics import HttpCounts
from vtop.engine.server.metrics import Parent, SeenStep, ServerCounts
from vtop.engine.server.request_parsing import ParsedRequest, Refusal
from vtop.engine.server.vocabulary import AnswerWords
from vtop.errors import VtopError

BUSY = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
BACKLOG = "The engine has reached its prefill token backlog limit. Please try again later or on a different instance."


@dataclass(frozen=True, slots=True)
class Settings:
    """What a simulated server is started with. profile: a name, or a file. fault: words, see `faults`."""

    flags: Flags
    profile: str = "h200-qwen2.5-7b"
    model: str = "simulated/h200-qwen2.5-7b"
    seed: int = 0
    fault: str = ""
    api_key: str | None = None
    enable_mfu_metrics: bool = False
    enable_per_request_metrics: bool = False
    enable_prompt_tokens_details: bool = False
    enable_force_include_usage: bool = False
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None


@dataclass(slots=True)
class SimulatedAnswer:
    """One of the answers of a request: its tokens as they come, and the words they stand for."""

    stream: Stream
    answer: AnswerWords
    prompt: int  # number of the prompt it answers


@dataclass(slots=True)
class Served:
    """A request that is being answered. life: of the server, which a restart ends."""

    asked: ParsedRequest
    choices: list[SimulatedAnswer]
    life: int = 0


@dataclass(slots=True)
class _Life:
    """What a restart loses. Seconds of the server's clock at which it began."""

    drive: Drive
    counts: ServerCounts
    http: HttpCounts
    began_s: float


def check(flags: Flags) -> None:
    """Raises VtopError where vLLM would not start."""
    if flags.max_model_len > flags.most_tokens():
        raise VtopError(
            f"--max-model-len {flags.max_model_len} is more than the KV pool holds ({flags.most_tokens()} tokens); "
            "vLLM would not start"
        )


class SimulatedServer:
    """unix_s: the wall clock when the server's clock is 0. process: the page's lines about the server's process, which
    are given the Unix time of its start. Raises VtopError for settings that vLLM would refuse."""

    def __init__(self, settings: Settings, unix_s: float, process: Callable[[float], Iterator[str]]) -> None:
        self.settings = settings
        self.faults: Faults = faults(settings.fault)
        self.life = 0
        self.restarted: list[Callable[[], object]] = []  # called when all connections are cut
        self._unix_s = unix_s
        self._process = process
        self._profile = profile.load(settings.profile)
        self._restarts = self.faults.restarts()
        self._requests = 0
        check(settings.flags)
        self._life = self._begin(0.0)

    def _begin(self, at_s: float) -> _Life:
        settings, fitted = self.settings, self._profile
        engine = Engine(settings.flags, fitted.timing, fitted.frontend, fitted.shape, tell_batch=True)
        counts = ServerCounts(settings.model, settings.flags, self._unix_s + at_s)

        def told(step: SeenStep) -> None:
            counts.take(step, frozen=self.faults.during("freeze", at_s + step.at_s) is not None)

        drive = Drive(engine, told, work=settings.enable_mfu_metrics)
        return _Life(drive, counts, HttpCounts(self._unix_s + at_s), at_s)

    @property
    def counts(self) -> ServerCounts:
        return self._life.counts

    @property
    def engine(self) -> Engine:
        return self._life.drive.engine

    @property
    def http(self) -> HttpCounts:
        return self._life.http

    @property
    def shape(self) -> ModelShape:
        """Of the model that it simulates."""
        return self._profile.shape

    @property
    def requests(self) -> int:
        """How many it has taken up since it was first started."""
        return self._requests

    def down(self, now_s: float) -> bool:
        """It is restarting: connections are cut."""
        return self.faults.during("restart", now_s) is not None

    def next_s(self) -> float:
        """When it acts next, if nobody asks it for anything; infinity when it does not."""
        next_s = self._life.began_s + self._life.drive.next_s()
        return min(next_s, self._restarts[0].at_s) if self._restarts else next_s

    def go_to(self, now_s: float) -> None:
        """All that happens until then."""
        while self._restarts and self._restarts[0].at_s <= now_s:
            fault = self._restarts.pop(0)
            self._life = self._begin(fault.at_s)
            self.life += 1
            for cut in self.restarted:
                cut()
        life = self._life
        life.drive.go_to(now_s - life.began_s)

    def submit(self, asked: ParsedRequest, now_s: float) -> Served:
        """Take up a request. Raises Refusal, in vLLM's words."""
        settings = self.settings
        requests.check(asked, settings.model, settings.flags)
        self._admit(asked)
        served = Served(asked, [], self.life)
        drive, counts, now_s = self._life.drive, self._life.counts, now_s - self._life.began_s
        for number, prompt in enumerate(asked.prompts):
            keys = (
                requests.prefix_keys(prompt, settings.flags.block_size) if settings.flags.enable_prefix_caching else ()
            )
            most = settings.flags.max_model_len - len(prompt)
            limit = most if asked.max_tokens is None else min(asked.max_tokens, most)
            parent = Parent(asked.n, asked.n)
            for n in range(asked.n):
                draw = requests.drawn(prompt, settings.seed, n)
                natural = limit if asked.ignore_eos else max(asked.min_tokens, requests.natural_tokens(draw))
                self._requests += 1
                request = EngineRequest(
                    self._requests,
                    len(prompt),
                    min(natural, limit),
                    max_tokens=limit,
                    priority=asked.priority,
                    prefix_keys=keys,
                )
                if asked.n > 1:
                    counts.parents[request.id] = parent
                served.choices.append(SimulatedAnswer(drive.submit(request, now_s), AnswerWords(draw), number))
        return served

    def _admit(self, asked: ParsedRequest) -> None:
        """vLLM: v1/engine/async_llm.py, check_admission."""
        settings, drive = self.settings, self._life.drive
        most = settings.max_num_queued_reqs
        if most is not None and drive.in_flight + asked.n * len(asked.prompts) > most:
            self.counts.reject("max_num_queued_reqs")
            raise Refusal(503, BUSY, "Service Unavailable")
        most = settings.max_num_queued_tokens
        if most is not None and drive.queued_tokens >= most:
            self.counts.reject("max_num_queued_tokens")
            raise Refusal(503, BACKLOG, "Service Unavailable")

    def abort(self, served: Served, now_s: float) -> None:
        """Its client is gone."""
        if served.life != self.life:
            return
        for choice in served.choices:
            request = choice.stream.request
            self._life.drive.abort(request, now_s - self._life.began_s)
            self.counts.parents.pop(request.id, None)

    def page(self, now_s: float) -> str:
        """/metrics, as of now."""
        self.go_to(now_s)
        nan = self.faults.during("nan", now_s) is not None
        lines = [*self._process(self.counts.born_unix_s), *self.counts.lines(nan=nan), *self.http.lines(nan=nan)]
        return "\n".join(lines) + "\n"
