"""The HTTP face of a simulated server beside what a real one said, and what it does when a client goes away."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.engine.virtual import FLAGS, Answer, Served, virtually
from vtop.engine.core.flags import Flags
from vtop.engine.server.metric_families import SIMULATED

STREAMS = Path(__file__).resolve().parents[1] / "streams"
TINY = Flags(num_gpu_blocks=128, block_size=32, max_model_len=1024, max_num_seqs=16)
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


class Exchange:
    """A request to a real server, and its answer, from tests/streams."""

    def __init__(self, name: str) -> None:
        text = (STREAMS / f"{name}.txt").read_text(encoding="utf-8")
        told, _, answer = text.partition("HTTP/1.1 ")
        self.path = re.findall(r"### POST (\S+)", told)[0]
        self.body = re.findall(r"### BODY: (.*)", told)[0]
        head, _, body = answer.partition("\n\n")
        self.status = int(head[:3])
        self.headers = dict(line.split(": ", 1) for line in head.splitlines()[1:])
        body = body.partition("\n### END")[0]
        self.events = [json.loads(line) for line in re.findall(r"^data: (\{.*)$", body, re.M)]
        self.whole = None if self.events else json.loads(body)


async def put(served: Served, real: Exchange) -> Answer:
    body: Any = real.body.encode()
    if real.status != 400:
        body = json.loads(real.body)
        body["model"] = served.simulated.settings.model if body["model"] == "tiny" else body["model"]
    return await served.post(real.path, body)


def shape(value: Any, key: str = "") -> Any:
    """A document without what is another server's own: names, times, words, token ids, milliseconds."""
    if isinstance(value, dict):
        return [(name, shape(each, name)) for name, each in value.items()]  # in its order
    if key in ("token_ids", "prompt_token_ids"):
        return value if value is None else len(value)
    if isinstance(value, list):
        return [shape(each) for each in value]
    own = ("id", "created", "model", "text", "content", "system_fingerprint")
    return type(value).__name__ if key in own or isinstance(value, float) else value


@pytest.mark.parametrize(
    "name",
    [
        "02_completions_stream_usage",
        "03_completions_stream_continuous_usage",
        "04_completions_tokenids_return",
        "12_batch_prompts_stream",
        "13_n2_stream",
    ],
)
def test_a_stream_of_completions_is_a_real_server_s_key_by_key(name: str) -> None:
    real = Exchange(name)
    answer = virtually(_put(real))
    assert (answer.status, answer.ended) == (200, True)
    assert answer.headers["content-type"] == real.headers["content-type"]
    theirs, mine = real.events, answer.events
    if '"prompt":"' in real.body:  # words are other tokens here
        theirs, mine = without_prompt_tokens(theirs), without_prompt_tokens(mine)
    by_index = sorted(range(len(mine)), key=lambda at: _index(mine[at]))  # several answers take turns as they come
    assert [shape(mine[at]) for at in by_index] == [shape(event) for event in theirs]


def _index(event: Any) -> int:
    return event["choices"][0]["index"] if event["choices"] else 99


@pytest.mark.parametrize("name", ["05_chat_stream_usage", "06_chat_stream_continuous_usage"])
def test_a_stream_of_chat_is_a_real_server_s_key_by_key(name: str) -> None:
    real = Exchange(name)
    mine, theirs = virtually(_put(real)).events, real.events
    assert [shape(event) for event in without_prompt_tokens(mine)] == [
        shape(event) for event in without_prompt_tokens(theirs)
    ]


def test_without_usage_the_last_event_is_signed() -> None:
    real = Exchange("01_completions_stream")
    assert [shape(event) for event in virtually(_put(real)).events] == [shape(event) for event in real.events]


@pytest.mark.parametrize("name", ["07_completions_nonstream", "08_chat_nonstream"])
def test_a_whole_answer_is_a_real_server_s_key_by_key(name: str) -> None:
    real = Exchange(name)
    answer = virtually(_put(real))
    assert answer.status == 200
    assert [shape(one) for one in without_prompt_tokens([answer.json])] == [
        shape(one) for one in without_prompt_tokens([real.whole])
    ]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("20_per_request_metrics_stream", {}),
        ("22_per_request_metrics_nonstream_chat", {}),
    ],
)
def test_per_request_metrics_are_a_real_server_s_key_by_key(name: str, settings: dict[str, Any]) -> None:
    real = Exchange(name)
    flags = {
        "enable_per_request_metrics": True,
        "enable_prompt_tokens_details": True,
        "enable_force_include_usage": True,
    }
    answer = virtually(_put(real, **flags))
    mine = answer.json if real.whole is not None else answer.events[-1]
    theirs = real.whole if real.whole is not None else real.events[-1]
    (mine,), (theirs,) = without_prompt_tokens([mine]), without_prompt_tokens([theirs])
    assert shape(mine) == shape(theirs)
    assert mine["metrics"]["time_to_first_token_ms"] > 0.0


@pytest.mark.parametrize("name", ["09_err_toolong_stream", "10_err_model404", "11_err_badjson"])
def test_errors_are_worded_as_a_real_server_words_them(name: str) -> None:
    real = Exchange(name)
    answer = virtually(_put(real, model="tiny"))
    assert (answer.status, answer.json) == (real.status, real.whole)


def test_a_prompt_longer_than_the_model_is_refused_in_vllm_s_words() -> None:
    async def scenario() -> list[Answer]:
        served = Served(TINY)
        return [await served.post(COMPLETIONS, {"prompt": [1] * n, "max_tokens": 4}) for n in (1024, 1025, 2000)]

    full, one_more, more = virtually(scenario())
    assert [answer.status for answer in (full, one_more, more)] == [400, 400, 400]
    assert full.json["error"]["message"] == "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
    assert "However, your prompt contains at least 1025 input tokens" in one_more.json["error"]["message"]
    assert more.json["error"] == {
        "message": "This model's maximum context length is 1024 tokens. However, your prompt contains 2000 input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
        "prompt. (parameter=input_tokens, value=2000)",
        "type": "BadRequestError",
        "param": "input_tokens",
        "code": 400,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"{}",
        b'{"prompt": []}',
        b'{"prompt": [[]]}',
        b'{"prompt": [1, "a"]}',
        b'{"prompt": {"a": 1}}',
        b'{"prompt": "a", "max_tokens": "many"}',
        b'{"prompt": "a", "max_tokens": -1}',
        b'{"prompt": "a", "n": 0}',
    ],
)
def test_a_body_that_makes_no_sense_is_a_400_with_a_message(body: bytes) -> None:
    answer = virtually(_posted(body))
    assert answer.status == 400
    assert set(answer.json["error"]) == {"message", "type", "param", "code"}
    assert answer.json["error"]["message"]


async def _posted(body: Any, **settings: Any) -> Answer:
    return await Served(TINY, **settings).post(COMPLETIONS, body)


async def _put(real: Exchange, **settings: Any) -> Answer:
    return await put(Served(TINY, **settings), real)


def without_prompt_tokens(documents: list[Any]) -> list[Any]:
    """Text is other tokens to the simulated tokenizer than to a real one."""
    found = json.loads(json.dumps(documents))
    for document in found:
        if usage := document.get("usage"):
            usage["prompt_tokens"] = usage["total_tokens"] = 0
    return list(found)


def test_more_requests_than_may_wait_are_a_503_and_are_counted() -> None:
    real = Exchange("24_n7_503")

    async def scenario() -> tuple[Answer, dict[str, float]]:
        served = Served(TINY, max_num_queued_reqs=6)
        return await put(served, real), await served.page()

    answer, page = virtually(scenario())
    assert (answer.status, answer.json) == (503, real.whole)
    counted = {name: value for name, value in page.items() if name.startswith("vllm:admission_rejections_total")}
    assert sorted(counted.values()) == [0.0, 1.0]


def test_a_backlog_of_prompt_tokens_is_a_503() -> None:
    async def scenario() -> list[Answer]:
        served = Served(FLAGS, max_num_queued_tokens=4000)
        asks = [served.post(COMPLETIONS, {"prompt": [1] * 3000, "max_tokens": 2}) for _ in range(4)]
        return list(await asyncio.gather(*asks))

    answers = virtually(scenario())
    assert [answer.status for answer in answers] == [200, 200, 503, 503]
    assert "prefill token backlog limit" in answers[-1].json["error"]["message"]


def test_a_key_is_asked_for_under_v1_and_nowhere_else() -> None:
    async def scenario() -> list[int]:
        served = Served(api_key="sesame")
        free = [await served.get(path) for path in ("/metrics", "/health", "/version")]
        refused = [await served.get("/v1/models"), await served.get("/v1/models", authorization="Bearer no")]
        let_in = await served.get("/v1/models", authorization="Bearer sesame")
        assert refused[0].json == {"error": "Unauthorized"}
        return [answer.status for answer in (*free, *refused, let_in)]

    assert virtually(scenario()) == [200, 200, 200, 401, 401, 200]


def test_who_answers_is_said_to_be_simulated() -> None:
    async def scenario() -> tuple[Any, Any]:
        served = Served()
        return (await served.get("/version")).json, (await served.get("/v1/models")).json

    version, models = virtually(scenario())
    assert version == {"version": SIMULATED}
    assert "simulated" in SIMULATED
    assert models["data"][0]["max_model_len"] == FLAGS.max_model_len
    assert "simulated" in models["data"][0]["id"]


def test_paths_and_methods_that_are_not_there() -> None:
    async def scenario() -> list[int]:
        served = Served()
        return [(await served.get("/nowhere")).status, (await served.post("/health", {})).status]

    assert virtually(scenario()) == [404, 405]


def test_an_id_that_the_client_gives_is_kept() -> None:
    async def scenario() -> Answer:
        return await Served().post(COMPLETIONS, {"prompt": [1], "max_tokens": 1}, x_request_id="mine")

    answer = virtually(scenario())
    assert answer.json["id"] == "cmpl-mine"
