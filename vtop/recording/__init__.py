"""The recording: events in order, one JSON line each, append-only."""

from vtop.recording.events import (
    AnyEvent,
    End,
    Event,
    Gpu,
    GpuReading,
    HistogramCounts,
    Host,
    Identity,
    Load,
    Mark,
    Note,
    Outage,
    Request,
    Scrape,
    Start,
    Target,
    Unknown,
    decode,
    encode,
)
from vtop.recording.playhead import Playhead
from vtop.recording.recording import FileRecording, LiveRecording, Recording
from vtop.recording.with_model_shape import ShapedRecording

__all__ = [
    "AnyEvent",
    "End",
    "Event",
    "FileRecording",
    "Gpu",
    "GpuReading",
    "HistogramCounts",
    "Host",
    "Identity",
    "LiveRecording",
    "Load",
    "Mark",
    "Note",
    "Outage",
    "Playhead",
    "Recording",
    "Request",
    "Scrape",
    "ShapedRecording",
    "Start",
    "Target",
    "Unknown",
    "decode",
    "encode",
]
