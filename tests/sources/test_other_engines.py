"""A port that is another engine, or a router in front of some, is named as what it is: vtop does not read it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.sources.test_server import Hand, Reply, serving
from vtop.access import Access
from vtop.recording import AnyEvent, LiveRecording, Scrape, Start, Target, encode
from vtop.recording.events import FORMAT
from vtop.session.frame.frame import View
from vtop.session.session import Session
from vtop.sources.server import ServerSource

SGLANG = """# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",tp_rank="0"} 8.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="m",tp_rank="0"} 0.42
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m",tp_rank="0"} 512.0
"""
TGI = """# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 8
# TYPE tgi_request_count counter
tgi_request_count 12
"""
TRTLLM = """# TYPE trtllm_kv_cache_utilization gauge
trtllm_kv_cache_utilization{model_name="m"} 0.4
"""
LLAMA = """# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 1
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 900
"""
ROUTER = """# TYPE vllm:current_qps gauge
vllm:current_qps{server="http://a:8000"} 2.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{server="http://a:8000"} 5.0
# TYPE vllm:healthy_pods_total gauge
vllm:healthy_pods_total{server="http://a:8000"} 1.0
"""
SGLANG_ROUTER = """# TYPE sgl_router_requests_total counter
sgl_router_requests_total{route="/v1/chat/completions",method="POST"} 12
"""
RAY = """# TYPE ray_node_cpu_count gauge
ray_node_cpu_count{NodeAddress="10.0.0.1"} 32.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.0
"""
LITELLM = "# TYPE litellm_requests_metric_total counter\nlitellm_requests_metric_total 4\n"
DYNAMO = "# TYPE dynamo_frontend_requests_total counter\ndynamo_frontend_requests_total 4\n"
GATEWAY = "# TYPE inference_pool_ready_pods gauge\ninference_pool_ready_pods 4\n"

BEHIND = "; watch a server behind it"
CASES = {
    "sglang": (
        {"/metrics": SGLANG, "/get_server_info": '{"version": "0.5.3", "api_key": "s3cret", "tp_size": 1}'},
        "this is SGLang 0.5.3: vtop reads vLLM",
    ),
    "tgi": ({"/metrics": TGI, "/info": '{"version": "3.3.4"}'}, "this is TGI 3.3.4: vtop reads vLLM"),
    "tensorrt-llm": (
        {"/metrics": TRTLLM, "/version": '{"version": "1.1.0"}'},
        "this is TensorRT-LLM 1.1.0: vtop reads vLLM",
    ),
    "tensorrt-llm, its own server": (
        {"/metrics": "[]", "/prometheus/metrics": TRTLLM, "/version": '{"version": "1.1.0"}'},
        "this is TensorRT-LLM 1.1.0: vtop reads vLLM",
    ),
    "llama.cpp": (
        {"/metrics": LLAMA, "/props": '{"build_info": "b6123-abc"}'},
        "this is llama.cpp b6123-abc: vtop reads vLLM",
    ),
    "vllm-router": (
        {"/metrics": ROUTER},
        f"this is the router of vLLM's production stack: vtop reads vLLM{BEHIND}",
    ),
    "sglang-router": ({"/metrics": SGLANG_ROUTER}, f"this is SGLang's router: vtop reads vLLM{BEHIND}"),
    "litellm": ({"/metrics": LITELLM}, f"this is LiteLLM: vtop reads vLLM{BEHIND}"),
    "dynamo": ({"/metrics": DYNAMO}, f"this is NVIDIA Dynamo: vtop reads vLLM{BEHIND}"),
    "inference-gateway": ({"/metrics": GATEWAY}, f"this is an inference gateway: vtop reads vLLM{BEHIND}"),
    "ray": (
        {"/metrics": RAY},
        "this is Ray's metrics agent: vtop reads vLLM; "
        "no model is served by this node, or its replica logs no statistics",
    ),
}


def watched(pages: Mapping[str, str]) -> tuple[list[AnyEvent], Session, list[str]]:
    """The lines of a session that watched a server which answers on these paths alone, and the paths it was asked."""
    start = Start(format=FORMAT, vtop="0", unix_s=0.0, servers=(Target(url="http://a"),), interval_s=1.0)
    hand = Hand()
    live = LiveRecording(start, hand.clock)
    with serving(lambda path, _: Reply(200, pages[path].encode()) if path in pages else Reply(404)) as server:
        ServerSource(0, Target(url=server.url), Access(), live.append, hand.clock, wait=hand.wait).once()
        asked = list(server.seen)
    events = live.take()
    live.close("quit")
    session = Session(start)
    for event in events:
        session.apply(event)
    return events, session, asked


@pytest.mark.parametrize(("pages", "sentence"), CASES.values(), ids=CASES)
def test_another_engine_is_named_with_its_version(pages: Mapping[str, str], sentence: str) -> None:
    events, session, _ = watched(pages)
    frame = session.frame(session.end_s, View())
    assert (frame.status.kind, frame.status.sentence) == ("blind", sentence)
    assert frame.requests.running.now is None
    assert sum(isinstance(event, Scrape) for event in events) == 2
    assert b"s3cret" not in b"".join(map(encode, events))


def test_a_router_without_a_health_page_is_named_all_the_same() -> None:
    _, session, asked = watched({"/metrics": RAY})
    assert session.frame(session.end_s, View()).status.kind == "blind"
    assert "/health" not in asked


def test_no_model_is_asked_for_an_answer_to_learn_how_well_it_is() -> None:
    _, _, asked = watched({"/metrics": LITELLM})
    assert "/health/liveliness" in asked
    assert "/health" not in asked


def test_vllm_behind_a_page_of_another_s_series_is_still_read() -> None:
    """Dynamo and Ray put vLLM's series beside their own."""
    page = f"{DYNAMO}{RAY}# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3.0\n"
    events, session, _ = watched({"/metrics": page, "/health": "", "/version": '{"version": "0.26.0"}'})
    frame = session.frame(session.end_s, View())
    assert (frame.requests.running.now, frame.servers[0].kind) == (3, "vllm")
    assert b'"kind"' not in b"".join(map(encode, events))


def test_a_page_of_nobody_s_series_names_nobody() -> None:
    _, session, _ = watched({"/metrics": "up 1.0\n", "/health": ""})
    sentence = session.frame(session.end_s, View()).status.sentence
    assert sentence == "/metrics answers without vLLM series: not a vLLM server's port?"


def test_a_page_is_asked_for_where_it_was_found_whatever_its_kind() -> None:
    _, _, asked = watched({"/metrics": TRTLLM})
    assert "/prometheus/metrics" not in asked
    _, _, asked = watched({"/metrics": "[]", "/prometheus/metrics": TRTLLM})
    assert (asked.count("/metrics"), asked.count("/prometheus/metrics")) == (1, 2)


def test_another_path_is_tried_once_where_metrics_has_no_page() -> None:
    _, session, asked = watched({"/health": ""})
    assert (asked.count("/metrics"), asked.count("/prometheus/metrics")) == (1, 1)
    assert session.frame(session.end_s, View()).status.kind == "waiting"
