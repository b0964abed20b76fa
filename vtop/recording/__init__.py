"""The recording: events in order, one JSON line each, append-only."""

from vtop.recording.events import (
    AnyEvent,
    End,
    Event,
    Gpu,
    GpuReading,
    HistogramCounts,
    Identity,
    Mark,
    Note,
    Outage,
    Scrape,
    Start,
    Target,
    Unknown,
    decode,
    encode,
)
from vtop.recording.playhead import Playhead
from vtop.recording.recording import FileRecording, LiveRecording, Recording

__all__ = [
    "AnyEvent",
    "End",
    "Event",
    "FileRecording",
    "Gpu",
    "GpuReading",
    "HistogramCounts",
    "Identity",
    "LiveRecording",
    "Mark",
    "Note",
    "Outage",
    "Playhead",
    "Recording",
    "Scrape",
    "Start",
    "Target",
    "Unknown",
    "decode",
    "encode",
]
