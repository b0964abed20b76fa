"""The arithmetic of the engine against what the GPU can do: MFU, bandwidth, arithmetic intensity.

The counters of --enable-mfu-metrics are computed by vLLM from the tokens of every step that it executed, recomputed and
wasted ones included, and are per GPU; each engine has its own. So over the window

    FLOP/s    = sum over engines of the growth / seconds, / engines           of one GPU, on average
    bytes/s   = the same of read + written
    intensity = FLOP / bytes
    MFU       = FLOP/s / dense bf16 peak,   bandwidth = bytes/s / memory peak    (peaks.py)

Idle time counts. Attention is counted as a full rectangle, so a step of pure prefill may look better than it is;
weights are read once a step; caches on the chip are not known: both are models, not measurements. A peak is known where
all GPUs in use by the server (else all of this host) bear one name that is known, and the server runs here.
Source: vLLM v1/metrics/perf.py. FLOP, bytes, seconds.
"""

from __future__ import annotations

from vtop.metrics.quantity import Quantity
from vtop.session.frame.gpus import Gpus, Roofline, counted_of
from vtop.session.hardware.gpu_peaks import peak
from vtop.session.history.window import ScrapeRange, Window


def roofline(window: Window, gpus: Gpus) -> Roofline:
    flops = _per_gpu(window, (Quantity.FLOPS,))
    moved = _per_gpu(window, (Quantity.READ_BYTES, Quantity.WRITE_BYTES))
    device = _device(gpus)
    most = peak(device)
    return Roofline(
        flops_per_s=flops,
        bytes_per_s=moved,
        intensity=flops / moved if flops is not None and moved else None,
        mfu_ratio=flops / most.flops_per_s if flops is not None and most is not None else None,
        bandwidth_ratio=moved / most.bytes_per_s if moved is not None and most is not None else None,
        gpu=device,
        peak_flops_per_s=most.flops_per_s if most is not None else None,
        peak_bytes_per_s=most.bytes_per_s if most is not None else None,
    )


def _per_gpu(window: Window, quantities: tuple[Quantity, ...]) -> float | None:
    """Growth per second of one GPU; None where the server counts nothing."""
    rate, engines = 0.0, 0
    for one in window.ranges:
        grown = [_grown(one, quantity) for quantity in quantities]
        known = [value for value in grown if value is not None]
        if not one.silent and len(known) == len(grown) and (seconds := one.counted_s) > 0:
            rate += sum(known) / seconds
            engines += max(1, len(one.server.engines(Quantity.RUNNING, one.last)))
    return rate / engines if engines else None


def _grown(one: ScrapeRange, quantity: Quantity) -> float | None:
    """None also where the counter never left 0: the flag is off."""
    return one.server.grown(quantity, one.first, one.last) if one.server.value(quantity, one.last) else None


def _device(gpus: Gpus) -> str | None:
    if not gpus.local:
        return None
    names = {device.name for device in counted_of(gpus.devices)}
    return names.pop() if len(names) == 1 else None
