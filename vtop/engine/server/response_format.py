"""The bytes of an answer as vLLM 0.32 writes them: events of a stream, or one JSON object."""

from __future__ import annotations

import json
from typing import Any, Final

from vtop.engine.core.request import EngineRequest
from vtop.engine.server.metric_families import SIMULATED
from vtop.engine.server.simulated import Served, SimulatedAnswer

DONE: Final = b"data: [DONE]\n\n"
FINGERPRINT: Final = f"vllm-{SIMULATED}"
_SIGNED: Final = f',"system_fingerprint":"{FINGERPRINT}"'.encode()


class Wording:
    """Of one request. id: with its prefix, cmpl- or chatcmpl-. metrics and details: flags of the server."""

    def __init__(
        self, served: Served, *, id: str, model: str, created_s: int, metrics: bool = False, details: bool = False
    ) -> None:
        self._served = served
        self._asked = asked = served.asked
        self._metrics = metrics and len(served.choices) == 1
        self._details = details
        self._id, self._model, self._created = id, model, created_s
        kind = "chat.completion.chunk" if asked.chat else "text_completion"
        head = {"id": id, "object": kind, "created": created_s, "model": model, "choices": None}
        self._head = b"data: " + compact(head).removesuffix(b"null}") + b"["
        place = b'{"index":%d,"delta":{"content":"' if asked.chat else b'{"index":%d,"text":"'
        self._places = [self._head + place % index for index in range(len(served.choices))]
        self._middle = b'"},"logprobs":null,"finish_reason":' if asked.chat else b'","logprobs":null,"finish_reason":'
        self._plain = self._middle + (
            b'null,"token_ids":null}]}\n\n'
            if asked.chat
            else b'null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}\n\n'
        )
        self._all_plain = not asked.ids and not asked.running_usage

    def news(self) -> bytes:
        """The events of all that has come since the last time; several tokens of one answer are one event."""
        found = [self._event(index, choice) for index, choice in enumerate(self._served.choices) if fresh(choice)]
        return found[0] if len(found) == 1 else b"".join(found)

    def _event(self, index: int, choice: SimulatedAnswer) -> bytes:
        stream = choice.stream
        first = stream.sent
        count = stream.take()
        text = choice.answer.text(first, count).encode()
        if self._all_plain and first and not stream.finished:
            return b"%b%b%b" % (self._places[index], text, self._plain)
        asked = self._asked
        reason = b"null" if not stream.finished else b'"%b"' % str(stream.request.finish_reason).encode()
        ids = compact(choice.answer.ids(first, count)) if asked.ids else b"null"
        tail = b"" if asked.usage or not stream.finished else _SIGNED
        usage = b""
        if asked.running_usage:
            usage = b',"usage":' + self._usage(choice, first + count, running=True)
        prompt = compact(asked.prompts[choice.prompt]) if asked.ids and not first else b"null"
        if asked.chat:
            stop = b',"stop_reason":null' if stream.finished else b""
            said = b'%b,"token_ids":%b}]%b%b}\n\n' % (reason + stop, ids, tail, usage)
            opening = self._opening(index, choice, prompt) if not first else b""
            return opening + self._places[index] + text + self._middle + said
        said = b'%b,"stop_reason":null,"prompt_token_ids":%b,"token_ids":%b}]%b%b}\n\n' % (
            reason, prompt, ids, tail, usage,
        )  # fmt: skip
        return self._places[index] + text + self._middle + said

    def _opening(self, index: int, choice: SimulatedAnswer, prompt: bytes) -> bytes:
        """Chat begins with an event that says who speaks, sent with the first token."""
        usage = b',"usage":' + self._usage(choice, 0, running=True) if self._asked.running_usage else b""
        return (
            b'%b{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]%b'
            b',"prompt_token_ids":%b,"prompt_text":null}\n\n' % (self._head, index, usage, prompt)
        )

    def _usage(self, choice: SimulatedAnswer, tokens: int, *, running: bool) -> bytes:
        prompt_tokens = choice.stream.request.prompt_tokens
        usage: dict[str, Any] = {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + tokens,
            "completion_tokens": tokens,
        }
        if running and self._asked.chat:
            usage["completion_tokens_details"] = None
        return compact(usage)

    def end(self) -> bytes:
        """What follows the last token."""
        if not self._asked.usage:
            return DONE
        total = self._total()
        if self._details:
            total["prompt_tokens_details"] = {"cached_tokens": self._cached()}
        metrics = b""
        if self._metrics:
            known = timing(self._served.choices[0].stream.request)
            metrics = b',"metrics":' + compact({name: ms for name, ms in known.items() if ms is not None})
        return b'%b],"usage":%b%b%b}\n\n%b' % (self._head, compact(total), _SIGNED, metrics, DONE)

    def whole(self) -> dict[str, Any]:
        """The answer of a request that does not stream."""
        usage = self._total() | {
            "prompt_tokens_details": self._cached_details() if self._details else None,
            "completion_tokens_details": None,
        }
        answer: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion" if self._asked.chat else "text_completion",
            "created": self._created,
            "model": self._model,
            "choices": [self._whole_choice(index, choice) for index, choice in enumerate(self._served.choices)],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": usage,
        }
        if self._asked.chat:
            ids = list(self._asked.prompts[0]) if self._asked.ids else None
            answer |= {"prompt_logprobs": None, "prompt_token_ids": ids, "prompt_text": None}
        metrics: dict[str, Any] | None = None
        if self._metrics:
            metrics = timing(self._served.choices[0].stream.request) | {"speculative_decoding": None}
        return answer | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": metrics}

    def _whole_choice(self, index: int, choice: SimulatedAnswer) -> dict[str, Any]:
        asked, tokens = self._asked, choice.stream.tokens
        text = choice.answer.text(0, tokens)
        ids = choice.answer.ids(0, tokens) if asked.ids else None
        end = {"logprobs": None, "finish_reason": choice.stream.request.finish_reason, "stop_reason": None}
        if asked.chat:
            message = {
                "role": "assistant",
                "content": text,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "reasoning": None,
            }
            return {"index": index, "message": message, **end, "token_ids": ids, "routed_experts": None}
        prompt = list(asked.prompts[choice.prompt]) if asked.ids else None
        own = {"token_ids": ids, "prompt_logprobs": None, "prompt_token_ids": prompt, "routed_experts": None}
        return {"index": index, "text": text, **end, **own}

    def _total(self) -> dict[str, Any]:
        """Each prompt counts once, however many answers it has."""
        prompt_tokens = sum(map(len, self._asked.prompts))
        tokens = sum(choice.stream.tokens for choice in self._served.choices)
        return {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + tokens,
            "completion_tokens": tokens,
        }

    def _cached(self) -> int:
        return self._served.choices[0].stream.request.cached_tokens

    def _cached_details(self) -> dict[str, Any]:
        details: dict[str, Any] = {"cached_tokens": self._cached()}
        return details | ({"created_cache_tokens": 0, "multimodal_tokens": None} if self._asked.chat else {})


def fresh(choice: SimulatedAnswer) -> bool:
    return choice.stream.tokens > choice.stream.sent


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def timing(request: EngineRequest) -> dict[str, float | None]:
    """What --enable-per-request-metrics tells. time_to_first_token_ms leaves the queue out, as vLLM's does."""
    assert request.queued_s is not None
    assert request.scheduled_s is not None
    assert request.first_token_s is not None
    assert request.last_token_s is not None
    decode_s = request.last_token_s - request.first_token_s
    inference_s = request.last_token_s - request.scheduled_s
    return {
        "time_to_first_token_ms": (request.first_token_s - request.scheduled_s) * 1000,
        "generation_time_ms": decode_s * 1000,
        "queue_time_ms": (request.scheduled_s - request.queued_s) * 1000,
        "mean_itl_ms": decode_s / (request.generated - 1) * 1000 if request.generated > 1 else None,
        "tokens_per_second": request.generated / inference_s if inference_s > 0.0 else None,
    }
