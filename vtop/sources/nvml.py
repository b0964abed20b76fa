"""NVML, one GPU at a time: every value by itself, None where the driver does not give it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vtop.recording.events import GpuReading
from vtop.recording.vocabulary import PowerKind
from vtop.sources.processes import VisibleDevices

UNPOPULATED_W: Final = 1.0  # what some drivers give under load for a reading they do not have

# NVML's own numbers, which older pynvml modules do not name
POWER_AVERAGE: Final = 185
POWER_INSTANT: Final = 186
MEMORY_V2: Final = 0x02000028

NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
LOST: Final = (15, 16)  # GPU is lost, GPU requires restart: of one GPU, the others answer on

# NVML: nvmlClocksEventReasons. The idle bit (1) is not a throttle and is left out.
THROTTLE: Final = (
    (0x004, "power cap"),
    (0x020, "thermal (sw)"),
    (0x040, "thermal (hw)"),
    (0x008, "hw slowdown"),
    (0x080, "power brake"),
    (0x010, "sync boost"),
    (0x002, "app clocks"),
    (0x100, "display clocks"),
    (0x200, "board limit"),
    (0x400, "reliability"),
)


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A part of a GPU that MIG divides: memory and processes of its own, and the whole card's power and clocks."""

    uuid: str
    handle: Any


@dataclass(frozen=True, slots=True)
class NvmlDevice:
    """A GPU as found when NVML was initialised: its handle and what never changes. No handle: lost at that time."""

    index: int
    uuid: str
    handle: Any | None
    name: str | None = None
    sm_max_mhz: float | None = None
    mem_max_mhz: float | None = None
    lost: int | None = None  # why there is no handle
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class ServedBy:
    """Whether a watched server uses a GPU; None: not known. instances: the parts of it that its memory is read of."""

    serving: bool | None = None
    instances: tuple[MigInstance, ...] = ()


class Nvml:
    """The one door to NVML: None for what it does not answer, and why it did not."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.answers = 0
        self.refusals: list[int] = []  # NVML error codes

    def ask(self, function: str, *args: Any) -> Any | None:
        call = getattr(self.module, function, None)
        if call is None:  # an old pynvml
            self.refusals.append(FUNCTION_NOT_FOUND)
            return None
        try:
            answer = call(*args)
        except self.module.NVMLError as error:
            self.refusals.append(error.value)
            return None
        except UnicodeDecodeError:  # a name that is not UTF-8
            return None
        self.answers += 1
        return answer

    def forget(self) -> None:
        """Begin to count answers and refusals anew."""
        self.answers = 0
        self.refusals.clear()

    def lost(self) -> int | None:
        """The code of a GPU that is gone, going by its answers and refusals; None for one that is there."""
        said = next((code for code in self.refusals if code in LOST), None)
        if said is not None or self.answers:
            return said
        harmless = (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND)
        return next((code for code in self.refusals if code not in harmless), None)


def open_device(nvml: Nvml, index: int) -> NvmlDevice:
    nvml.forget()
    handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return NvmlDevice(index=index, uuid=f"unknown-{index}", handle=None, lost=nvml.refusals[0])
    return NvmlDevice(
        index=index,
        uuid=nvml.ask("nvmlDeviceGetUUID", handle) or f"unknown-{index}",
        handle=handle,
        name=nvml.ask("nvmlDeviceGetName", handle),
        sm_max_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", handle, nvml.module.NVML_CLOCK_SM),
        mem_max_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", handle, nvml.module.NVML_CLOCK_MEM),
        instances=tuple(_instances(nvml, handle)),
    )


def _instances(nvml: Nvml, handle: Any) -> Iterator[MigInstance]:
    """Those of a card that MIG divides now, in NVML's order."""
    mode = nvml.ask("nvmlDeviceGetMigMode", handle)
    if mode is None or mode[0] != 1:
        return
    for index in range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if part is not None:  # NVML counts places, taken or not
            yield MigInstance(nvml.ask("nvmlDeviceGetUUID", part) or f"MIG-{index}", part)


def read_device(nvml: Nvml, device: NvmlDevice, by: ServedBy) -> tuple[GpuReading, int | None]:
    """One GPU now, and the NVML code that says it is gone, or None."""
    if device.handle is None:
        return GpuReading(
            index=device.index, uuid=device.uuid, lost=str(nvml.module.NVMLError(device.lost))
        ), device.lost
    handle = device.handle
    power_w, power_kind = power(nvml, handle)
    nvml.forget()  # only now: asking for fields may succeed with every field refused, which is no sign of life
    limit_mw = nvml.ask("nvmlDeviceGetEnforcedPowerLimit", handle)
    energy_mj = nvml.ask("nvmlDeviceGetTotalEnergyConsumption", handle)
    temp_c = nvml.ask("nvmlDeviceGetTemperature", handle, nvml.module.NVML_TEMPERATURE_GPU)
    sm_mhz = nvml.ask("nvmlDeviceGetClockInfo", handle, nvml.module.NVML_CLOCK_SM)
    mem_mhz = nvml.ask("nvmlDeviceGetClockInfo", handle, nvml.module.NVML_CLOCK_MEM)
    util = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    mem_used, mem_total = _memory_of(nvml, [one.handle for one in by.instances] or [handle])
    reasons = throttle(nvml, handle)
    lost = nvml.lost()
    reading = GpuReading(
        index=device.index,
        uuid=device.uuid,
        name=device.name,
        util_ratio=None if util is None else util.gpu / 100,
        mem_used_bytes=mem_used,
        mem_total_bytes=mem_total,
        power_w=power_w,
        power_kind=power_kind,
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        energy_j=None if energy_mj is None else energy_mj / 1000,
        temp_c=temp_c,
        sm_mhz=sm_mhz,
        sm_max_mhz=device.sm_max_mhz,
        mem_mhz=mem_mhz,
        mem_max_mhz=device.mem_max_mhz,
        throttle=reasons,
        serving=by.serving,
        mig_instances=len(by.instances) or None,
        lost=None if lost is None else str(nvml.module.NVMLError(lost)),
    )
    return reading, lost


def power(nvml: Nvml, handle: Any) -> tuple[float | None, PowerKind | None]:
    """Watts, and whether they are an average over 1 s or of the instant.

    The plain call gives the average from Ampere on (not GA100), the instant before; which one is known only where
    the driver has the two fields. NVML: NVML_FI_DEV_POWER_AVERAGE, _INSTANT, nvmlDeviceGetPowerUsage.
    """
    fields = nvml.ask("nvmlDeviceGetFieldValues", handle, (POWER_AVERAGE, POWER_INSTANT)) or ()
    average_w, instant_w = [
        field.value.uiVal / 1000 if field.nvmlReturn == 0 and field.value.uiVal > UNPOPULATED_W * 1000 else None
        for field in fields
    ] or (None, None)
    if average_w is not None:
        return average_w, "average"
    kind: PowerKind | None = None if instant_w is None else "instant"
    plain_mw = nvml.ask("nvmlDeviceGetPowerUsage", handle)
    if plain_mw is not None and plain_mw > UNPOPULATED_W * 1000:
        return plain_mw / 1000, kind
    return instant_w, kind


def memory(nvml: Nvml, handle: Any) -> tuple[int | None, int | None]:
    """Bytes used and in all; None and None for a GPU that shares the host's memory."""
    # version 2 is what nvidia-smi shows: the driver's own reserve does not count as used
    told = nvml.ask("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
    if told is None:
        told = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    if told is None or told.total == 0:
        return None, None
    return told.used, told.total


def _memory_of(nvml: Nvml, handles: Sequence[Any]) -> tuple[int | None, int | None]:
    """Of a card, or of parts of one together; None and None where one part does not tell."""
    told = [memory(nvml, handle) for handle in handles]
    used, total = [one for one, _ in told if one is not None], [one for _, one in told if one is not None]
    return (sum(used), sum(total)) if len(used) == len(total) == len(told) else (None, None)


def throttle(nvml: Nvml, handle: Any) -> tuple[str, ...] | None:
    """Why the clocks are held down, in words."""
    bits = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:  # the name before driver 535
        bits = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    if bits is None:
        return None
    return throttle_words(bits)


def throttle_words(bits: int) -> tuple[str, ...]:
    """Clock event reason bits in words."""
    return tuple(word for bit, word in THROTTLE if bits & bit)


def serving(
    nvml: Nvml, devices: tuple[NvmlDevice, ...], pids: frozenset[int], visible: VisibleDevices | None = None
) -> list[ServedBy]:
    """Whether a process of the server computes on each GPU.

    In a container NVML lists other pids than /proc, or nothing: then CUDA_VISIBLE_DEVICES of the server's processes
    says which GPUs it may use, and without that it is not known of any.
    """
    nobody = [ServedBy(None, device.instances) for device in devices]
    if not pids:
        return nobody
    found = [_listed(nvml, device, pids) for device in devices]
    if any(one.serving for one in found):
        return found
    return _shown(devices, visible) or nobody


def _listed(nvml: Nvml, device: NvmlDevice, pids: frozenset[int]) -> ServedBy:
    """By the processes that NVML lists."""
    parts_of: list[tuple[Any, MigInstance | None]] = [(one.handle, one) for one in device.instances]
    told, mine = False, []
    for handle, part in parts_of or [(device.handle, None)]:  # a handle is a pointer: it cannot be a key
        listed = nvml.ask("nvmlDeviceGetComputeRunningProcesses_v3", handle) if handle is not None else None
        told |= listed is not None
        if listed is not None and any(process.pid in pids for process in listed):
            mine.append(part)
    parts = tuple(part for part in mine if part is not None)
    return ServedBy(bool(mine) if told else None, parts or device.instances)


def _shown(devices: Sequence[NvmlDevice], visible: VisibleDevices | None) -> list[ServedBy] | None:
    """By what CUDA shows to the server; None where that names another GPU than these, or might."""
    if visible is None:
        return None
    alike = visible.by_bus or len({device.name for device in devices}) == 1  # whatever the order, as many of one kind
    found, named = [], set()
    for place, device in enumerate(devices):
        own = {name for name in visible.names if device.uuid.startswith(name) or (name == str(place) and alike)}
        parts = tuple(one for one in device.instances if one.uuid in visible.names)
        named |= own | {one.uuid for one in parts}
        found.append(ServedBy(bool(own or parts), parts or device.instances))
    return found if named == visible.names else None
