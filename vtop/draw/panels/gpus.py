"""The panel GPU: power against its limit over time, joules, and a row a GPU."""

from __future__ import annotations

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import chart_rows, fixed, growing, left, scale, sparked, spread, stacked, top
from vtop.draw.text import Line, Phrase, Piece, clauses, line, padded, phrases
from vtop.draw.theme import Look
from vtop.session.frame.charts import Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.gpus import GpuPart

OLD_S = 5.0  # a reading older than this is no longer of now
NOT_THE_SERVERS = "GPUs of this host, not the server's"


def gpus(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Power against its limit over time, and a row a GPU. A reading that a GPU does not give is –."""
    found = frame.gpus
    note = found.note
    if found.age_s is not None and found.age_s > OLD_S and look.faded is not None:  # read apart from the servers
        look = look.faded
    if not found.devices:
        said = clauses(look.say(note or "no GPU is watched"), width)
        lines = [line(look, width, (said, "text" if note else "dim"))]
        return stacked(look, width, height, [fixed(0, lines)])

    def power(rows: int) -> list[Line]:
        limit = found.power_limit_w
        # a reading may pass its limit a little
        maximum = chart.nice_maximum((*frame.charts.power_w, found.power_w), (limit or 100.0) * 1.05)
        if limit and maximum <= limit * 1.05:
            maximum = limit
        word, stands = ("of", units.watts(limit)) if limit and maximum == limit else ("↑", units.watts(maximum))
        alone = found.devices[0] if len(found.devices) == 1 else None
        beside = [("energy", units.joules(alone.energy_j))] if alone is not None else []
        drawn = sparked(look, width, rows, frame.charts.power_w, (maximum, "power"))
        of = spread(alone.power, units.watts) if alone is not None else None
        partly = found.power_w is None and found.least_power_w is not None
        head = left("power", f"≥ {units.watts(found.least_power_w)}" if partly else units.watts(found.power_w))
        return chart_rows(look, width, head, drawn, scale(width, rows, top(stands, width, word), of), beside=beside)

    blocks = []
    if not found.local:
        blocks.append(fixed(0, [line(look, width, (NOT_THE_SERVERS, "warn"))]))
    blocks.append(growing(1, power))
    if found.local and frame.energy.per_output_token_j is not None and height > len(found.devices) + 2:
        blocks.append(fixed(99, [_joules(frame, width, look)]))
    if 0 < found.powered < found.counted:
        said = f"power of {found.powered} of {found.counted} GPUs is known"
        blocks.append(fixed(2, [line(look, width, (said, "warn"))]))
    if note:
        blocks.append(fixed(2, [line(look, width, (clauses(look.say(note), width), "warn"))]))
    several = len(found.devices) > 1
    room = max(1, height - len(blocks))
    shown = list(found.devices)
    if len(shown) > room:  # those in trouble are not the ones to leave out
        troubled = sorted(shown, key=lambda device: not (device.lost or device.throttle))
        shown = sorted(troubled[: max(1, room - 1)], key=lambda device: device.index)
    for at, device in enumerate(shown):
        blocks.append(fixed(3 + at, [_device(device, width, look, several)]))
    if more := len(found.devices) - len(shown):
        blocks.append(fixed(3 + len(shown), [line(look, width, (f"and {more} more GPUs", "dim"))]))
    return stacked(look, width, height, blocks)


def gpus_alone(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """All of the body: as its panel, with clock and temperature over time below it."""
    devices = frame.gpus.devices
    if not devices:
        return gpus(frame, width, height, look)
    clock, temp = frame.charts.sm_mhz, frame.charts.temp_c

    def over_time(label: str, unit: str, points: Points, limit: float, rows: int) -> list[Line]:
        latest = next((point for point in reversed(points) if point is not None), None)
        maximum = chart.nice_maximum(points, limit)
        drawn = sparked(look, width, rows, points, (maximum, "power"))
        head = left(label, units.count(latest), unit=unit)
        return chart_rows(look, width, head, drawn, [top(units.count(maximum), width)])

    top_mhz = max((device.sm_max_mhz for device in devices if device.sm_max_mhz is not None), default=2000.0)
    blocks = [growing(0, lambda rows: gpus(frame, width, rows, look), min(height, 4 + len(devices)))]
    if any(clock):
        blocks.append(growing(1, lambda rows: over_time("SM clock", "MHz", clock, top_mhz, rows)))
    if any(temp):
        blocks.append(growing(2, lambda rows: over_time("hottest", "°C", temp, 100.0, rows)))
    return stacked(look, width, height, blocks)


def watched(frame: Frame) -> list[str]:
    """How long a span the readings are of, which begin with the session; and that the GPUs are not the server's."""
    if not frame.gpus.devices:
        return []
    window = f"last {units.span(min(frame.asked_window_s, frame.now_s))}"
    return [window] if frame.gpus.local else ["this host", window]


def _joules(frame: Frame, width: int, look: Look) -> Line:
    energy, roof = frame.energy, frame.roofline
    shown = [Phrase(0, ((f"{units.number(energy.per_output_token_j)} J", "number"), (" per output token", "dim")))]
    if energy.idle_share is not None:
        shown.append(Phrase(2, ((f"{units.whole_percent(energy.idle_share)} of it idle", "dim"),)))
    if roof.mfu_ratio is not None:
        shown.append(Phrase(1, (("MFU ", "dim"), (units.percent(roof.mfu_ratio), "text"))))
    return phrases(look, width, shown)


def _device(device: GpuPart, width: int, look: Look, several: bool) -> Line:
    sign = {True: "●", False: "○", None: " "}[device.serving]
    who: tuple[Piece, ...] = ((f"GPU {device.index} {sign} ", "text" if device.serving else "dim"),)
    if device.lost is not None:
        return line(look, width, *who, (f"lost: {device.lost}", "bad"))

    def field(text: str, cells: int, role: str = "text") -> tuple[Piece, ...]:
        return ((padded(text, cells, right=True), role),)

    memory = f"{units.gib(device.mem_used_bytes)}/{units.gib(device.mem_total_bytes)} GiB"
    clock = f"{units.count(device.sm_mhz)}/{units.count(device.sm_max_mhz)} MHz"
    shown = [
        Phrase(0, (*who, *field(units.whole_percent(device.util_ratio), 5))),
        Phrase(2, field(memory, 15)),
        Phrase(3, field(f"{units.count(device.temp_c)} °C", 5)),
    ]
    if device.mig_instances is not None:
        parts = "1 part" if device.mig_instances == 1 else f"{device.mig_instances} parts"
        shown.append(Phrase(1, ((f"MIG: memory of {parts}, the card's power", "dim"),)))
    if several:
        shown.append(Phrase(4, field(units.watts(device.power.now), 6)))
    shown.append(Phrase(5, field(clock, 15)))
    if device.throttle:
        shown.append(Phrase(1, ((f"! {', '.join(device.throttle)}", "warn"),)))
    if device.name is not None:
        shown.append(Phrase(6, ((device.name, "dim"),)))
    if device.serving is not None:
        shown.append(Phrase(7, ((f"{sign} serving" if device.serving else f"{sign} not serving", "dim"),)))
    return phrases(look, width, shown, between="  ")
