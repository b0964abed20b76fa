"""The GPU source against a scripted stand-in for pynvml: what it reads, what it says, and when it stays quiet."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pynvml
import pytest

from vtop.recording.events import Event, Gpu, GpuReading, Note, decode, encode
from vtop.sources.gpu import GpuSource, next_tick
from vtop.sources.processes import VisibleDevices, visible_devices

GIB = 1 << 30


class Refused:
    """An answer that is an NVML error."""

    def __init__(self, code: int) -> None:
        self.code = code


def field(milliwatts: int, code: int = 0) -> Any:
    return SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=milliwatts))


def h200(uuid: str, **changed: Any) -> dict[str, Any]:
    """What one GPU answers, by function name."""
    answers = {
        "nvmlDeviceGetUUID": uuid,
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetFieldValues": [field(300_000), field(520_000)],
        "nvmlDeviceGetPowerUsage": 301_000,
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetTotalEnergyConsumption": 12_345_678,
        "nvmlDeviceGetTemperature": 51,
        "nvmlDeviceGetClockInfo": {pynvml.NVML_CLOCK_SM: 1755, pynvml.NVML_CLOCK_MEM: 3201},
        "nvmlDeviceGetMaxClockInfo": {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201},
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=40),
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=120 * GIB, total=140 * GIB),
        "nvmlDeviceGetCurrentClocksEventReasons": 0,
        "nvmlDeviceGetCurrentClocksThrottleReasons": Refused(13),
        "nvmlDeviceGetComputeRunningProcesses_v3": [],
        "nvmlDeviceGetMigMode": Refused(3),
    }
    return answers | changed


class Handle:
    """A GPU or a part of one, which like a real one (a ctypes pointer) cannot be hashed."""

    def __init__(self, of: Any) -> None:
        self.of = of

    __hash__ = None  # type: ignore[assignment]


class StandIn:
    """pynvml with GPUs of our making. Knows only names that the real module has."""

    NVMLError = pynvml.NVMLError

    def __init__(self, *devices: dict[str, Any]) -> None:
        self.devices = list(devices)
        self.parts: dict[Any, dict[str, Any]] = {}  # of GPUs that MIG divides, by handle
        self.calls: Counter[str] = Counter()
        self.init_code: int | None = None
        self.all_code: int | None = None  # every call about a GPU is refused with it
        self.meanwhile: Callable[[], object] = lambda: None  # what happens during a utilisation call

    def nvmlInit(self) -> None:
        self.calls["nvmlInit"] += 1
        if self.init_code is not None:
            raise pynvml.NVMLError(self.init_code)

    def nvmlShutdown(self) -> None:
        self.calls["nvmlShutdown"] += 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        self.calls["nvmlDeviceGetHandleByIndex"] += 1
        answer = self.devices[index].get("handle", index)
        if isinstance(answer, Refused):
            raise pynvml.NVMLError(answer.code)
        return Handle(index)

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)  # AttributeError when NVML has no such thing
        if not name.startswith("nvmlDeviceGet"):
            return real

        def call(handle: Handle, *args: Any) -> Any:
            self.calls[name] += 1
            if name == "nvmlDeviceGetUtilizationRates":
                self.meanwhile()
            device = self.parts[handle.of] if handle.of in self.parts else self.devices[handle.of]
            answer = device.get("all", device[name]) if self.all_code is None else Refused(self.all_code)
            if isinstance(answer, dict):
                answer = answer[args[0]]
            if isinstance(answer, Refused):
                raise pynvml.NVMLError(answer.code)
            return answer

        return call


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


class Hang:
    """A call that has begun and does not return until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.over = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        self.over.wait()


class Bench:
    """A source on a stand-in, a clock moved by hand, and what was appended."""

    def __init__(self, nvml: Any, pids: frozenset[int] = frozenset()) -> None:
        self.nvml = nvml
        self.clock = Clock()
        self.events: list[Event] = []
        self.pid_calls = 0
        self.source = GpuSource(self.events.append, self.clock, server_pids=self._server_pids, nvml=nvml)
        self._pids = pids

    def _server_pids(self) -> frozenset[int]:
        self.pid_calls += 1
        return self._pids

    def read(self) -> tuple[GpuReading, ...]:
        """One reading that must succeed."""
        assert self.source.once()
        event = self.events[-1]
        assert isinstance(event, Gpu)
        assert decode(encode(msgspec.structs.replace(event, t=0.0))) == msgspec.structs.replace(event, t=0.0)
        return event.gpus

    def at(self, now_s: float) -> bool:
        self.clock.now_s = now_s
        return self.source.once()

    @property
    def notes(self) -> list[str]:
        assert all(event.source == "gpu" for event in self.events if isinstance(event, Note))
        return [event.text for event in self.events if isinstance(event, Note)]


WHOLE = GpuReading(
    index=0,
    uuid="GPU-a",
    name="NVIDIA H200",
    util_ratio=0.87,
    mem_used_bytes=120 * GIB,
    mem_total_bytes=140 * GIB,
    power_w=300.0,
    power_kind="average",
    power_limit_w=700.0,
    energy_j=12_345.678,
    temp_c=51,
    sm_mhz=1755,
    sm_max_mhz=1980,
    mem_mhz=3201,
    mem_max_mhz=3201,
    throttle=(),
)


def test_a_device_is_read_in_watts_joules_bytes_and_ratios() -> None:
    assert Bench(StandIn(h200("GPU-a"))).read() == (WHOLE,)


@pytest.mark.parametrize("code", [3, 4, 13, 999])
@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetName", ["name"]),
        ("nvmlDeviceGetEnforcedPowerLimit", ["power_limit_w"]),
        ("nvmlDeviceGetTotalEnergyConsumption", ["energy_j"]),
        ("nvmlDeviceGetTemperature", ["temp_c"]),
        ("nvmlDeviceGetClockInfo", ["sm_mhz", "mem_mhz"]),
        ("nvmlDeviceGetMaxClockInfo", ["sm_max_mhz", "mem_max_mhz"]),
        ("nvmlDeviceGetUtilizationRates", ["util_ratio"]),
        ("nvmlDeviceGetMemoryInfo", ["mem_used_bytes", "mem_total_bytes"]),
        ("nvmlDeviceGetCurrentClocksEventReasons", ["throttle"]),
    ],
)
def test_a_refused_value_is_missing_by_itself(function: str, fields: list[str], code: int) -> None:
    bench = Bench(StandIn(h200("GPU-a", **{function: Refused(code)})))
    assert bench.read() == (msgspec.structs.replace(WHOLE, **dict.fromkeys(fields)),)
    assert bench.notes == []


def test_a_function_that_pynvml_lacks_is_a_missing_value() -> None:
    class Old(StandIn):
        def __getattr__(self, name: str) -> Any:
            if "EventReasons" in name or "FieldValues" in name or "TotalEnergy" in name:
                raise AttributeError(name)
            return super().__getattr__(name)

    (device,) = Bench(Old(h200("GPU-a", nvmlDeviceGetCurrentClocksThrottleReasons=0x4))).read()
    assert (device.power_w, device.power_kind, device.energy_j) == (301.0, None, None)
    assert device.throttle == ("power cap",)


@pytest.mark.parametrize(
    ("average", "instant", "plain", "told"),
    [
        (field(300_000), field(520_000), 301_000, (300.0, "average")),
        (field(68_000), field(1_000), 68_000, (68.0, "average")),
        (field(0, code=3), field(250_000), 251_000, (251.0, "instant")),  # before Ampere
        (field(0, code=3), field(1_000), 68_000, (68.0, None)),
        (field(0, code=3), field(250_000), Refused(3), (250.0, "instant")),
        (field(0), field(0), 68_000, (68.0, None)),
        (field(0, code=3), field(1_000), Refused(3), (None, None)),
        (field(0, code=3), field(0, code=3), 1_000, (None, None)),
    ],
)
def test_power_says_its_kind_and_an_absurd_reading_is_not_used(
    average: Any, instant: Any, plain: Any, told: tuple[float | None, str | None]
) -> None:
    answers = {"nvmlDeviceGetFieldValues": [average, instant], "nvmlDeviceGetPowerUsage": plain}
    (device,) = Bench(StandIn(h200("GPU-a", **answers))).read()
    assert (device.power_w, device.power_kind) == told


def test_a_driver_without_power_fields_gives_power_of_unknown_kind() -> None:
    (device,) = Bench(StandIn(h200("GPU-a", nvmlDeviceGetFieldValues=Refused(13)))).read()
    assert (device.power_w, device.power_kind) == (301.0, None)


@pytest.mark.parametrize("info", [Refused(3), SimpleNamespace(used=0, total=0)])
def test_unified_memory_has_no_size_and_the_rest_is_read(info: Any) -> None:
    answers = {"nvmlDeviceGetMemoryInfo": info, "nvmlDeviceGetEnforcedPowerLimit": Refused(3)}
    (device,) = Bench(StandIn(h200("GPU-a", **answers))).read()
    assert (device.mem_used_bytes, device.mem_total_bytes, device.power_limit_w) == (None, None, None)
    assert (device.power_w, device.temp_c, device.util_ratio) == (300.0, 51, 0.87)


def test_memory_falls_back_where_the_driver_lacks_the_second_version() -> None:
    class Old(StandIn):
        def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:
            if version is not None:
                raise pynvml.NVMLError(25)
            return SimpleNamespace(used=3, total=4)

    (device,) = Bench(Old(h200("GPU-a"))).read()
    assert (device.mem_used_bytes, device.mem_total_bytes) == (3, 4)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x4, ("power cap",)),
        (0x5, ("power cap",)),
        (0x48, ("thermal (hw)", "hw slowdown")),
        (0x1B2, ("thermal (sw)", "power brake", "sync boost", "app clocks", "display clocks")),
    ],
)
def test_throttle_reasons_are_words_and_idle_is_none_of_them(bits: int, words: tuple[str, ...]) -> None:
    (device,) = Bench(StandIn(h200("GPU-a", nvmlDeviceGetCurrentClocksEventReasons=bits))).read()
    assert device.throttle == words


def test_a_lost_device_keeps_its_row_and_does_not_touch_the_other() -> None:
    nvml = StandIn(h200("GPU-a"), h200("GPU-b"))
    bench = Bench(nvml)
    before = bench.read()
    nvml.devices[0]["all"] = Refused(15)
    lost, well = bench.read()
    assert (lost.index, lost.uuid, lost.name, lost.lost) == (0, "GPU-a", "NVIDIA H200", "GPU is lost")
    assert (lost.power_w, lost.energy_j, lost.throttle) == (None, None, None)
    assert well == before[1]
    del nvml.devices[0]["all"]
    assert bench.read() == before
    assert nvml.calls["nvmlInit"] == 1
    assert bench.notes == []


def test_one_device_answering_unknown_error_is_lost_and_the_driver_is_not() -> None:
    nvml = StandIn(h200("GPU-a", all=Refused(999)), h200("GPU-b"))
    lost, well = Bench(nvml).read()
    assert lost.lost == "Unknown Error"
    assert well.lost is None


def test_a_device_dead_from_the_start_has_a_row() -> None:
    dead, well = Bench(StandIn({"handle": Refused(15)}, h200("GPU-b"))).read()
    assert dead == GpuReading(index=0, uuid="unknown-0", lost="GPU is lost")
    assert (well.index, well.uuid, well.lost) == (1, "GPU-b", None)


def test_the_only_device_being_lost_is_a_row_not_a_driver_gone() -> None:
    nvml = StandIn(h200("GPU-a"))
    bench = Bench(nvml)
    bench.read()
    nvml.all_code = 15
    assert bench.read()[0].lost == "GPU is lost"
    assert bench.notes == []


def test_a_driver_that_goes_is_a_note_and_a_gap_until_it_is_initialised_anew() -> None:
    nvml = StandIn(h200("GPU-a"), h200("GPU-b"))
    bench = Bench(nvml)
    before = bench.read()
    nvml.all_code = 999
    assert not bench.at(60)
    assert not bench.at(61)
    assert len(bench.notes) == 1
    assert "Unknown Error" in bench.notes[0]
    assert nvml.calls["nvmlShutdown"] == 1
    assert not bench.at(90)  # tried again after 30 s, in vain, quietly
    nvml.all_code = None
    assert not bench.at(149)  # the next try is 60 s later
    assert nvml.calls["nvmlInit"] == 2
    assert bench.at(150)
    assert nvml.calls["nvmlInit"] == 3
    assert bench.events[-2] == Note(source="gpu", text="NVML answers again after 90 s")
    assert bench.read() == before
    assert len([event for event in bench.events if isinstance(event, Gpu)]) == 3


def test_a_driver_that_goes_again_is_noted_again_and_retried_as_soon() -> None:
    nvml = StandIn(h200("GPU-a"))
    bench = Bench(nvml)
    for gone_s in (100, 1000):
        nvml.all_code = 999
        assert not bench.at(gone_s)
        assert not bench.at(gone_s + 29)
        nvml.all_code = None
        assert bench.at(gone_s + 30)
        assert bench.at(gone_s + 31)
    assert bench.notes[0] == bench.notes[2]
    assert bench.notes[1] == bench.notes[3] == "NVML answers again after 30 s"
    assert len(bench.notes) == 4


def test_fields_that_are_refused_one_by_one_are_no_sign_of_life() -> None:
    class Refusing(StandIn):
        def nvmlDeviceGetFieldValues(self, handle: int, fields: Any) -> Any:
            return [field(0, code=999), field(0, code=999)]

    nvml = Refusing(h200("GPU-a"))
    nvml.all_code = 999
    bench = Bench(nvml)
    assert not bench.source.once()
    assert len(bench.notes) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (4, ["no permission", "/dev/nvidia"]),
        (9, ["driver is not loaded", "modprobe"]),
        (18, ["versions", "reload the driver or reboot"]),
        (999, ["Unknown Error", "reload the driver"]),
        (20, ["Insufficient Memory", "code 20"]),
    ],
)
def test_nvml_that_cannot_be_initialised_is_one_note_and_quiet_retries(code: int, words: list[str]) -> None:
    nvml = StandIn(h200("GPU-a"))
    nvml.init_code = code
    bench = Bench(nvml)
    read = [bench.at(second) for second in range(1000)]
    assert not any(read)
    assert len(bench.notes) == 1
    assert all(word in bench.notes[0] for word in words)
    assert nvml.calls["nvmlInit"] == 6  # at 0, 30, 90, 210, 450, 750 s
    nvml.init_code = None
    assert bench.at(1050)
    assert bench.notes[1:] == ["NVML answers again after 1050 s"]


def test_a_missing_library_is_one_note_and_never_tried_again() -> None:
    nvml = StandIn()
    nvml.init_code = 12
    bench = Bench(nvml)
    assert not any(bench.at(second) for second in range(0, 86_400, 600))
    assert len(bench.notes) == 1
    assert "libnvidia-ml" in bench.notes[0]
    assert nvml.calls["nvmlInit"] == 1


def test_a_missing_pynvml_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    bench = Bench(None)
    assert not bench.at(0)
    assert not bench.at(600)
    assert len(bench.notes) == 1
    assert "pip install nvidia-ml-py" in bench.notes[0]


def test_the_real_pynvml_without_a_driver_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", no_library)
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    bench = Bench(None)
    assert not bench.at(0)
    assert not bench.at(600)
    assert len(bench.notes) == 1
    assert "libnvidia-ml" in bench.notes[0]


def test_a_host_without_devices_is_a_note() -> None:
    bench = Bench(StandIn())
    assert not bench.source.once()
    assert bench.notes == ["NVML sees no GPU on this host"]


def test_nvml_is_initialised_once_and_what_never_changes_is_read_once() -> None:
    nvml = StandIn(*(h200(f"GPU-{index}") for index in range(8)))
    bench = Bench(nvml)
    assert all(bench.at(second) for second in range(100))
    assert nvml.calls["nvmlInit"] == 1
    for function in ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetName"):
        assert nvml.calls[function] == 8
    assert nvml.calls["nvmlDeviceGetMaxClockInfo"] == 16


def test_nothing_is_asked_before_the_first_reading() -> None:
    nvml = StandIn(h200("GPU-a"))
    bench = Bench(nvml)
    bench.source.check()
    assert not nvml.calls
    assert bench.events == []


def test_devices_stand_in_the_order_of_nvml_whatever_cuda_visible_devices_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    devices = Bench(StandIn(h200("GPU-b"), h200("GPU-a"))).read()
    assert [(device.index, device.uuid) for device in devices] == [(0, "GPU-b"), (1, "GPU-a")]


def test_devices_of_the_server_are_marked() -> None:
    def used_by(*pids: int) -> dict[str, Any]:
        return {"nvmlDeviceGetComputeRunningProcesses_v3": [SimpleNamespace(pid=pid) for pid in pids]}

    devices = (
        h200("GPU-a", **used_by(7)),
        h200("GPU-b", **used_by(7, 42)),
        h200("GPU-c", nvmlDeviceGetComputeRunningProcesses_v3=Refused(3)),
    )
    marks = [device.serving for device in Bench(StandIn(*devices), frozenset({41, 42})).read()]
    assert marks == [False, True, None]


@pytest.mark.parametrize("pids", [frozenset(), frozenset({42})])
def test_no_device_is_ruled_out_when_the_server_is_found_on_none(pids: frozenset[int]) -> None:
    processes = [SimpleNamespace(pid=100_042)]  # the same process by the host's count, seen from a container
    devices = (h200("GPU-a", nvmlDeviceGetComputeRunningProcesses_v3=processes), h200("GPU-b"))
    assert [device.serving for device in Bench(StandIn(*devices), pids).read()] == [None, None]


def used_by(*pids: int) -> dict[str, Any]:
    return {"nvmlDeviceGetComputeRunningProcesses_v3": [SimpleNamespace(pid=pid) for pid in pids]}


@pytest.mark.parametrize(
    ("visible", "marks"),
    [
        (VisibleDevices(frozenset({"1"}), by_bus=True), [False, True, False]),
        (VisibleDevices(frozenset({"0", "2"}), by_bus=False), [True, False, True]),  # all of one name
        (VisibleDevices(frozenset({"GPU-b"}), by_bus=False), [False, True, False]),
        (VisibleDevices(frozenset({"7"}), by_bus=True), [None, None, None]),  # another's numbers
        (VisibleDevices(frozenset({"MIG-x"}), by_bus=True), [None, None, None]),
        (None, [None, None, None]),
    ],
    ids=["number", "numbers", "uuid", "foreign", "MIG of another", "not told"],
)
def test_in_a_container_the_server_s_own_environment_says_which_devices_it_may_use(
    visible: VisibleDevices | None, marks: list[bool | None]
) -> None:
    devices = [h200(f"GPU-{letter}", **used_by(100_042)) for letter in "abc"]  # pids by the host's count
    bench = Bench(StandIn(*devices), frozenset({42}))
    bench.source._visible_to = lambda _: visible
    assert [device.serving for device in bench.read()] == marks


def test_devices_of_several_kinds_are_not_told_by_cuda_s_own_numbers() -> None:
    devices = h200("GPU-a", **used_by(9)), h200("GPU-b", nvmlDeviceGetName="NVIDIA L4")
    bench = Bench(StandIn(*devices), frozenset({42}))
    bench.source._visible_to = lambda _: VisibleDevices(frozenset({"0"}), by_bus=False)
    assert [device.serving for device in bench.read()] == [None, None]


def divided() -> StandIn:
    """One card in three places: two parts of 35 GiB and 18 GiB, the third place empty; MIG gives no utilisation."""
    places = {0: "mig-0", 1: Refused(6), 2: "mig-2"}

    class Card(StandIn):
        def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, index: int) -> Any:
            answer = places[index]
            if isinstance(answer, Refused):
                raise pynvml.NVMLError(answer.code)
            return Handle(answer)

    whole = h200(
        "GPU-a",
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=3,
        nvmlDeviceGetUtilizationRates=Refused(3),
        **used_by(7, 42),
    )
    nvml = Card(whole)
    for handle, used, total, pids in (("mig-0", 30, 35, (42,)), ("mig-2", 2, 18, (7,))):
        nvml.parts[handle] = {
            "nvmlDeviceGetUUID": f"MIG-{handle}",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=used * GIB, total=total * GIB),
            **used_by(*pids),
        }
    return nvml


@pytest.mark.parametrize(
    ("pids", "serving", "parts", "used", "total"), [((42,), True, 1, 30, 35), ((), None, 2, 32, 53)]
)
def test_of_a_card_that_mig_divides_memory_is_that_of_the_server_s_parts_and_power_the_card_s(
    pids: tuple[int, ...], serving: bool | None, parts: int, used: int, total: int
) -> None:
    (reading,) = Bench(divided(), frozenset(pids)).read()
    assert (reading.serving, reading.mig_instances) == (serving, parts)
    assert (reading.mem_used_bytes, reading.mem_total_bytes) == (used * GIB, total * GIB)
    assert (reading.power_w, reading.util_ratio, reading.lost) == (300, None, None)


def test_a_part_is_the_server_s_by_its_environment_where_nvml_lists_other_pids() -> None:
    bench = Bench(divided(), frozenset({4242}))
    bench.source._visible_to = lambda _: VisibleDevices(frozenset({"MIG-mig-2"}), by_bus=False)
    (reading,) = bench.read()
    assert (reading.serving, reading.mem_total_bytes) == (True, 18 * GIB)


def test_what_cuda_shows_to_processes_is_read_of_their_environment(tmp_path: Path) -> None:
    for pid, said in ((1, b"A=b\0CUDA_VISIBLE_DEVICES=0, 2\0"), (2, b"CUDA_VISIBLE_DEVICES=GPU-x"), (3, b"C=1\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "environ").write_bytes(said)
    assert visible_devices((1, 2, 3, 4), str(tmp_path)) == VisibleDevices(frozenset({"0", "2", "GPU-x"}), by_bus=False)
    assert visible_devices((3, 4), str(tmp_path)) is None
    (tmp_path / "1" / "environ").write_bytes(b"CUDA_VISIBLE_DEVICES=1\0CUDA_DEVICE_ORDER=PCI_BUS_ID\0")
    assert visible_devices((1, 3), str(tmp_path)) == VisibleDevices(frozenset({"1"}), by_bus=True)


def test_processes_are_not_listed_for_an_unknown_server_and_pids_are_asked_for_every_30_s() -> None:
    nvml = StandIn(h200("GPU-a"))
    bench = Bench(nvml)
    for second in range(61):
        bench.at(second)
    assert nvml.calls["nvmlDeviceGetComputeRunningProcesses_v3"] == 0
    assert bench.pid_calls == 3


def test_a_server_that_appears_has_its_processes_asked_for_at_once() -> None:
    bench = Bench(StandIn(h200("GPU-a")))
    for second in range(20):
        if second == 7:
            bench.source.look_again()
        bench.at(second)
    assert bench.pid_calls == 2


def test_a_reading_says_when_it_began_and_how_long_it_took() -> None:
    nvml = StandIn(h200("GPU-a"), h200("GPU-b"))
    bench = Bench(nvml)
    nvml.meanwhile = lambda: bench.clock.pass_s(0.25)
    assert bench.at(10)
    event = bench.events[-1]
    assert isinstance(event, Gpu)
    assert (event.at_s, event.took_s) == (10.0, 0.5)


def test_a_hang_is_noted_once_while_it_lasts_and_again_when_it_ends() -> None:
    nvml = StandIn(h200("GPU-a"))
    bench = Bench(nvml)
    nvml.meanwhile = hang = Hang()
    reader = threading.Thread(target=bench.source.once)
    reader.start()
    assert hang.begun.wait(10)
    for now_s in (4.9, 5.2, 6.2, 60.0):
        bench.clock.now_s = now_s
        bench.source.check()
    assert bench.notes == ["NVML has not answered for 5 s"]
    bench.clock.now_s = 72.0
    hang.over.set()
    reader.join(10)
    assert bench.notes[1:] == ["NVML answers again after 72 s"]
    assert len(bench.events) == 2  # what was read across the hang is of no one instant
    assert bench.at(73)
    bench.clock.now_s = 90.0
    bench.source.check()
    assert len(bench.events) == 3


def test_a_driver_that_is_always_slow_is_not_noted_more_than_once_a_minute() -> None:
    nvml = StandIn(h200("GPU-a"))
    bench = Bench(nvml)

    def slowly() -> None:
        for _ in range(6):
            bench.clock.pass_s(1)
            bench.source.check()

    nvml.meanwhile = slowly
    for _ in range(20):
        assert not bench.source.once()
    assert bench.clock.now_s == 120
    assert bench.notes[:2] == ["NVML has not answered for 5 s", "NVML answers again after 6 s"]
    assert len(bench.notes) == 4


def test_stop_returns_at_once_during_a_hang_and_nothing_is_appended_after() -> None:
    nvml = StandIn(h200("GPU-a"))
    nvml.meanwhile = hang = Hang()
    bench = Bench(nvml)
    before = set(threading.enumerate())
    bench.source.start()
    assert hang.begun.wait(10)
    threads = set(threading.enumerate()) - before
    assert {thread.name for thread in threads} == {"gpu", "gpu-watch"}
    assert all(thread.daemon for thread in threads)
    bench.source.stop()  # the test would hang here
    assert any(thread.is_alive() for thread in threads)
    hang.over.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert bench.events == []


def test_ticks_keep_their_grid_and_missed_ones_are_left_out() -> None:
    clock = Clock()
    clock.now_s = 0.3
    events: list[Event] = []
    nvml = StandIn(h200("GPU-a"))
    took_s = [0.1, 0.1, 2.5, 0.1, 0.1]
    nvml.meanwhile = lambda: clock.pass_s(took_s.pop(0))

    def wait(seconds: float) -> bool:
        clock.pass_s(seconds)
        return not took_s

    GpuSource(events.append, clock, nvml=nvml, wait=wait).run()
    assert [round(event.at_s, 6) for event in events if isinstance(event, Gpu)] == [0.3, 1.3, 2.3, 5.3, 6.3]


def test_the_next_tick_is_never_in_the_past() -> None:
    assert next_tick(5.0, 5.0, 1.0) == 6.0
    assert next_tick(5.0, 5.9, 1.0) == 6.0
    assert next_tick(5.0, 8.2, 1.0) == 9.0
    assert next_tick(5.0, 65.0, 0.5) == 65.0
