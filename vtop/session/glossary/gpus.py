"""The numbers of the panel gpus: power, energy, clocks and the roofline."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

GPU = (
    Number(
        "gpus",
        "power",
        "gpus.power_w",
        "W",
        (),
        "sum of the GPUs in use by a watched server where NVML tells, else of all GPUs of this host",
        "an average over 1 s on most GPUs (power_kind says which); ≥ if one GPU's power is not known: the sum of the "
        "others; with MIG, the whole card's power",
        also=(
            "gpus.power_limit_w",
            "gpus.least_power_w",
            "gpus.powered",
            "gpus.counted",
            "gpus.power.high",
            "gpus.power.median",
            "gpus.power.low",
        ),
    ),
    Number(
        "gpus",
        "● ○",
        "gpus.serving",
        "sign",
        (),
        "● a watched server's process on this host computes on the GPU, or may do so (NVML does not list it, but "
        "CUDA_VISIBLE_DEVICES names the GPU); ○ none does; blank: not known",
    ),
    Number("gpus", "energy", "gpus.energy_j", "J", (), "growth of the GPU's energy counter in the window"),
    Number(
        "gpus",
        "clock",
        "gpus.sm_mhz",
        "MHz",
        (),
        "SM clock now, beside its maximum, then what holds it down",
        also=("gpus.sm_max_mhz",),
    ),
    Number(
        "gpus",
        "load",
        "gpus.util_ratio",
        "%",
        (),
        "share of the last sample period in which a kernel ran; then memory in use and in total, and the temperature",
        "shows that something ran, not how well: see MFU",
        also=("gpus.mem_used_bytes", "gpus.mem_total_bytes", "gpus.mig_instances", "gpus.temp_c"),
    ),
    Number(
        "gpus",
        "joules",
        "energy.joules",
        "J",
        (),
        "growth of the energy counters of the GPUs in use, from the reading nearest to the window's first scrape to "
        "that nearest to its last; for a GPU without one, power integrated over the readings, gaps left out",
        "the why panel says so if counters and integrated power differ by more than 20 %",
        also=("energy.apart_ratio",),
    ),
    Number(
        "gpus",
        "J per token",
        "energy.per_output_token_j",
        "J",
        (Q.GENERATION_TOKENS, Q.PROMPT_TOKENS),
        "joules ÷ generated tokens, and ÷ prompt and generated tokens, of the servers on this host",
        "not known if no server is on this host, or if the readings cover less than 95 % of the window",
        also=("energy.per_token_j",),
    ),
    Number(
        "gpus",
        "idle",
        "energy.idle_share",
        "%",
        (Q.RUNNING, Q.WAITING),
        "lowest power read while nothing ran, in the session so far × time ÷ joules",
        "not known until the session has seen the server idle",
    ),
    Number(
        "gpus",
        "at its limit",
        "energy.near_limit_share",
        "%",
        (),
        "readings with a GPU at 97 % of its power limit or above ÷ readings",
        on_screen=False,
    ),
    Number(
        "gpus",
        "throttled",
        "energy.throttled_share",
        "%",
        (),
        "readings with a clock event reason other than idle ÷ readings; each reason with its own share",
        on_screen=False,
    ),
    Number(
        "gpus",
        "MFU",
        "roofline.mfu_ratio",
        "%",
        (Q.FLOPS,),
        "Δ FLOP ÷ seconds ÷ engines ÷ dense bf16 peak of the GPU "
        "(session/hardware/gpu_peaks.py), over the window, idle "
        "time included",
        "vLLM's model of the work, recompute included; attention counts as a full rectangle; only with --enable-"
        "mfu-metrics",
        also=("roofline.flops_per_s",),
    ),
    Number(
        "gpus",
        "bandwidth",
        "roofline.bandwidth_ratio",
        "%",
        (Q.READ_BYTES, Q.WRITE_BYTES),
        "Δ (read + written bytes) ÷ seconds ÷ engines ÷ memory peak of the GPU",
        "vLLM's model of the traffic, not a measurement",
        also=("roofline.bytes_per_s",),
    ),
    Number(
        "gpus",
        "intensity",
        "roofline.intensity",
        "FLOP/byte",
        (Q.FLOPS, Q.READ_BYTES, Q.WRITE_BYTES),
        "Δ FLOP ÷ Δ (read + written bytes)",
    ),
)
