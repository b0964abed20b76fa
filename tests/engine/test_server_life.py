"""What a simulated server does over time: tokens as they are made, clients that go, stalls, restarts, frozen gauges."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.engine.virtual import FLAGS, Answer, Served, virtually

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def test_tokens_come_as_the_engine_makes_them() -> None:
    async def scenario() -> tuple[Answer, list[float]]:
        served = Served()
        body = {"prompt": [5] * 1000, "max_tokens": 50, "ignore_eos": True, "stream": True, "return_token_ids": True}
        answer = await served.post(COMPLETIONS, body)
        return answer, [at for at, _ in answer.pieces]

    answer, at_s = virtually(scenario())
    assert answer.tokens == 50
    gaps = [b - a for a, b in pairwise(at_s[1:])]
    assert 0.003 < min(gaps) <= max(gaps) < 0.010  # an H200's decode step
    assert 0.02 < at_s[0] < 0.2


def test_the_same_prompt_gets_the_same_answer_and_another_seed_another() -> None:
    async def scenario(seed: int) -> list[Any]:
        served = Served(seed=seed)
        answers = [await served.post(COMPLETIONS, {"prompt": "a b c", "max_tokens": 900}) for _ in range(2)]
        return [(one.json["choices"][0]["text"], one.json["choices"][0]["finish_reason"]) for one in answers]

    first, again = virtually(scenario(1))
    assert first == again
    assert first[1] == "stop"
    assert virtually(scenario(2))[0] != first


def test_a_client_that_goes_away_ends_its_request() -> None:
    async def scenario(stream: bool, leave_s: float) -> tuple[Answer, dict[str, float], dict[str, float]]:
        served = Served()
        body = {"prompt": [5] * 1000, "max_tokens": 5000, "ignore_eos": True, "stream": stream}
        asked = asyncio.ensure_future(served.post(COMPLETIONS, body, leave_s=leave_s))
        await served.until(leave_s * 0.9)
        before = await served.page()
        answer = await asked
        await served.until(leave_s + 0.1)
        return answer, before, await served.page()

    for stream, leave_s in ((True, 1.0), (False, 1.0), (True, 0.002)):
        answer, before, after = virtually(scenario(stream, leave_s))
        assert not answer.ended
        assert before["vllm:num_requests_running"] == (1.0 if leave_s == 1.0 else 0.0)
        assert after["vllm:num_requests_running"] == after["vllm:kv_cache_usage_perc"] == 0.0
        assert not [value for name, value in after.items() if name.startswith("vllm:request_success_total") and value]


def test_a_stall_holds_everything_back_and_then_it_comes_together() -> None:
    async def scenario() -> tuple[Answer, Answer, float]:
        served = Served(fault="stall=5s@1")
        body = {"prompt": [5] * 100, "max_tokens": 1000, "ignore_eos": True, "stream": True, "return_token_ids": True}
        asked = asyncio.ensure_future(served.post(COMPLETIONS, body))
        await served.until(2.0)
        page = await served.get("/metrics")
        return await asked, page, served.pump.now()

    answer, page, _ = virtually(scenario())
    at_s = [at for at, _ in answer.pieces]
    assert not [at for at in at_s if 1.01 < at < 6.0]
    assert page.pieces[0][0] == pytest.approx(6.0)
    assert answer.tokens == 1000  # nothing was lost
    assert max(at_s) < 6.1  # the engine went on behind it


def test_a_restart_cuts_the_streams_and_counts_anew() -> None:
    async def scenario() -> tuple[Answer, dict[str, float], dict[str, float]]:
        served = Served(fault="restart=2s@3")
        body = {"prompt": [5] * 100, "max_tokens": 1000, "ignore_eos": True, "stream": True}
        asked = asyncio.ensure_future(served.post(COMPLETIONS, body))
        await served.until(2.9)
        before = await served.page()
        answer = await asked
        await served.until(6.0)
        after = await served.page()
        again = await served.post(COMPLETIONS, {"prompt": [5], "max_tokens": 3})
        assert again.status == 200
        return answer, before, after

    answer, before, after = virtually(scenario())
    assert (answer.ended, answer.pieces[-1][0] <= 3.0) == (False, True)
    assert before["vllm:generation_tokens_total"] > 100
    assert after["vllm:generation_tokens_total"] == after["vllm:num_requests_running"] == 0.0
    assert after["process_start_time_seconds"] == before["process_start_time_seconds"] + 3.0


def test_frozen_gauges_stay_while_counters_go_on() -> None:
    async def scenario() -> list[dict[str, float]]:
        served = Served(fault="freeze=5s@1")
        body = {"prompt": [5] * 100, "max_tokens": 300, "ignore_eos": True}
        asked = asyncio.ensure_future(served.post(COMPLETIONS, body))
        pages = []
        for at_s in (0.99, 3.0):
            await served.until(at_s)
            pages.append(await served.page())
        await asked
        await served.until(7.0)
        await served.post(COMPLETIONS, body)
        return [*pages, await served.page()]

    before, frozen, after = virtually(scenario())
    assert before["vllm:num_requests_running"] == frozen["vllm:num_requests_running"] == 1.0
    assert before["vllm:kv_cache_usage_perc"] == pytest.approx(frozen["vllm:kv_cache_usage_perc"], abs=0.001)
    assert frozen["vllm:generation_tokens_total"] == 300 > before["vllm:generation_tokens_total"]
    assert after["vllm:num_requests_running"] == 0.0


def test_tokenize_counts_what_a_request_is_charged_for() -> None:
    messages = [{"role": "user", "content": "Read: air arm art"}]

    async def scenario() -> tuple[int, int]:
        served = Served()
        counted = (await served.post("/tokenize", {"messages": messages})).json["count"]
        usage = (await served.post(CHAT, {"messages": messages, "max_tokens": 1})).json["usage"]
        return counted, usage["prompt_tokens"]

    counted, charged = virtually(scenario())
    assert counted == charged


def test_http_is_counted_as_the_instrumentator_counts_it() -> None:
    async def scenario() -> dict[str, float]:
        served = Served()
        await served.post(COMPLETIONS, {"prompt": [1], "max_tokens": 2})
        await served.post(COMPLETIONS, {"prompt": [], "max_tokens": 2})
        await served.get("/nowhere")
        await served.get("/health")
        return await served.page()

    page = virtually(scenario())
    counted = {name: value for name, value in page.items() if name.startswith("http_requests_total")}
    assert counted == {
        'http_requests_total{handler="/v1/completions",method="POST",status="2xx"}': 1.0,
        'http_requests_total{handler="/v1/completions",method="POST",status="4xx"}': 1.0,
        'http_requests_total{handler="none",method="GET",status="4xx"}': 1.0,
    }
    took_s = page['http_request_duration_seconds_sum{handler="/v1/completions",method="POST"}']
    assert took_s >= page["vllm:e2e_request_latency_seconds_sum"] > 0.0


def test_priority_reaches_the_scheduler() -> None:
    async def scenario() -> list[float]:
        served = Served(replace(FLAGS, policy="priority", max_num_seqs=1))
        body = {"prompt": [1] * 50, "max_tokens": 20, "ignore_eos": True}
        ended: dict[int, float] = {}

        async def ask(priority: int) -> None:
            await served.post(COMPLETIONS, {**body, "priority": priority})
            ended[priority] = served.pump.now()

        first = asyncio.ensure_future(ask(9))
        await served.until(0.05)
        await asyncio.gather(first, ask(3), ask(1))
        return [ended[9], ended[3], ended[1]]

    first, last, second = virtually(scenario())
    assert first < second < last
