"""Servers that vtop knows by sight and does not read: so that a person who pointed it at one is told which it is.

Sources: SGLang srt/metrics/collector.py and srt/entrypoints/http_server.py, text-generation-inference router/src,
TensorRT-LLM serve/openai_server.py and metrics/collector.py, llama.cpp tools/server, the routers' own metrics.
"""

from __future__ import annotations

from typing import Final

from vtop.server_kinds.kind import Endpoints, ServerKind

_BEHIND: Final = "watch a server behind it"
_ROUTER: Final = Endpoints(version=None)

OTHERS: Final = (
    ServerKind(
        name="vllm-router",
        title="the router of vLLM's production stack",
        sure_marks=("vllm:current_qps", "vllm:num_prefill_requests", "vllm:avg_decoding_length"),
        behind=_BEHIND,
        endpoints=_ROUTER,
    ),
    ServerKind(
        name="sglang",
        title="SGLang",
        marks=("sglang:", "sglang_"),
        endpoints=Endpoints(version="/get_server_info"),
    ),
    ServerKind(name="tgi", title="TGI", marks=("tgi_",), endpoints=Endpoints(version="/info")),
    ServerKind(
        name="tensorrt-llm",
        title="TensorRT-LLM",
        marks=("trtllm_", "trtllm:", "nv_trt_llm_"),
        endpoints=Endpoints(metrics="/prometheus/metrics"),
    ),
    ServerKind(
        name="llama.cpp",
        title="llama.cpp",
        marks=("llamacpp:", "llamacpp_"),
        endpoints=Endpoints(version="/props", version_field="build_info"),
    ),
    ServerKind(
        name="sglang-router",
        title="SGLang's router",
        marks=("sgl_router_", "sgl_model_gateway_", "smg_"),
        behind=_BEHIND,
        endpoints=_ROUTER,
    ),
    ServerKind(
        name="dynamo", title="NVIDIA Dynamo", marks=("dynamo_", "nv_llm_http_"), behind=_BEHIND, endpoints=_ROUTER
    ),
    ServerKind(
        name="inference-gateway",
        title="an inference gateway",
        marks=("inference_extension_", "inference_model_", "inference_objective_", "inference_pool_"),
        behind=_BEHIND,
        endpoints=_ROUTER,
    ),
    ServerKind(
        name="litellm",
        title="LiteLLM",
        marks=("litellm_",),
        behind=_BEHIND,
        endpoints=Endpoints(health="/health/liveliness", version=None),  # its /health asks every model for an answer
    ),
    ServerKind(
        name="ray",
        title="Ray's metrics agent",
        marks=("ray_",),
        behind="no model is served by this node, or its replica logs no statistics",
        endpoints=Endpoints(health=None, version=None, models=None),
    ),
)
