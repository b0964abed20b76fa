"""A report: what one recording says, as plain frozen records, made by asking the session and by nothing else.

`build` reads a recording to its end and asks the session for a frame of the whole run, of each phase and of each
phase's steady part; every number in a report stands in one of these frames. Findings, doubts and steps are sentences
with the numbers they rest on. The writers (html, markdown, json, terminal) and `vtop compare` read this and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from vtop.plan.capacity_answer import CapacityResult, on_record
from vtop.recording import FileRecording, Recording
from vtop.report.numbers import Numbers, numbers
from vtop.report.phases import Pages, Question, TimeRange, ranges
from vtop.session.charts import charts
from vtop.session.frame.charts import Charts, LoggedEvent
from vtop.session.frame.fleet import Fleet, FleetView, NamedPeer
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.gpus import GpuPart
from vtop.session.frame.incidents import Incident
from vtop.session.frame.kv import Kv
from vtop.session.frame.load import LoadPart
from vtop.session.frame.load_levels import LoadLevels
from vtop.session.frame.requests import Staircase
from vtop.session.frame.servers import ServerPart
from vtop.session.frame.ttft import Growth
from vtop.session.history.sampling import Sampling, sampling
from vtop.session.history.window import window
from vtop.session.load import distribution
from vtop.session.load.distribution import Distribution
from vtop.session.session import Session, read

COLUMNS = 240  # of the figures of the whole session
ZOOM_S = 140.0  # of the preemption cycle
ZOOM_FALLS = 12  # preemptions that it shows, at most

Ask = Callable[[Question], Frame]


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """A span of the session under one load: its numbers as a whole, and of its steady part."""

    name: str  # a load's words, a mark's text, or what was asked for
    label: str  # the same in short, for axes: c=64
    source: str  # load, asked, mark, activity
    begin_s: float
    end_s: float
    load: LoadPart | None  # at its end
    whole: Numbers | None  # None: no two scrapes cover it, and no request of vtop's own tells of it
    steady: Numbers | None
    distributions: tuple[Distribution, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What one recording says."""

    file: str  # its name, without folders
    vtop: str  # that recorded it
    origin: str | None  # set when it was not made by attaching to a server
    start_unix_s: float
    seconds: float  # of the recording, to its last line
    closed: bool  # in good order
    faults: tuple[str, ...]  # what was wrong with its lines, the first of it
    backward: int  # lines whose time was earlier than that of the line before
    servers: tuple[ServerPart, ...]
    pool: Kv | None
    devices: tuple[GpuPart, ...]
    gpu_note: str | None
    power_limit_w: float | None
    sampling: tuple[Sampling, ...]  # a server each, over the run
    run: Numbers | None  # from the first phase to the last; None where no request ran
    phases: tuple[Phase, ...]
    staircase: Staircase
    growth: Growth
    load_levels: LoadLevels
    incidents: tuple[Incident, ...]  # of the whole recording
    event_log: tuple[LoggedEvent, ...]
    fleet: Fleet | None  # the table of servers at the end, over the whole recording
    unlike_peers: tuple[NamedPeer, ...]  # of the whole recording
    searches: tuple[CapacityResult, ...]  # of capacity
    timeline: Charts | None  # the whole recording
    zoom: Charts | None  # some preemptions, scrape by scrape


def build(recording: Recording, file: str, asked: Sequence[TimeRange] = ()) -> Report:
    """The report of a recording, read to its present end. Raises VtopError for a phase asked for beyond it."""
    session = read(recording)
    faults, backward = (recording.faults, recording.backward) if isinstance(recording, FileRecording) else ([], 0)
    return replace(of_session(session, file, asked), faults=tuple(faults), backward=backward)


def of_session(session: Session, file: str, asked: Sequence[TimeRange] = ()) -> Report:
    scrapes = Pages(session.servers)
    found = ranges(session, asked)

    @cache
    def ask(question: Question) -> Frame:
        return session.frame(question.now_s, View(window_s=question.window_s, columns=1, whole=True))

    phases = labelled([_phase(session, scrapes, ask, one) for one in found])
    question = _run(session, scrapes, found)
    frame = ask(question) if question is not None else None
    all_of_it = View(window_s=max(session.end_s, 1.0), columns=COLUMNS, whole=True, fleet=FleetView())
    last = session.frame(session.end_s, all_of_it)
    spoken = frame or last
    return Report(
        file=file.encode("utf-8", "replace").decode(),  # a file's name may be no text
        vtop=session.start.vtop,
        origin=session.start.origin,
        start_unix_s=session.start.unix_s,
        seconds=session.end_s,
        closed=session.finished,
        faults=(),
        backward=0,
        servers=spoken.servers,
        pool=spoken.kv,
        devices=spoken.gpus.devices,
        gpu_note=spoken.gpus.note,
        power_limit_w=spoken.gpus.power_limit_w,
        sampling=_sampled(session, question if scrapes.at_s else None),
        run=numbers(frame, _only(phases), question.begin_s, question.end_s) if frame and question else None,
        phases=phases,
        staircase=spoken.staircase,
        growth=spoken.growth,
        load_levels=session.load_levels(),
        incidents=session.incidents(),
        fleet=last.fleet,
        unlike_peers=session.unlike_peers(),
        event_log=last.event_log,
        searches=on_record(session) if session.searches.lines else (),
        timeline=last.charts if scrapes.at_s else None,
        zoom=_zoom(session, scrapes, spoken.staircase),
    )


def _run(session: Session, scrapes: Pages, found: Sequence[TimeRange]) -> Question | None:
    """From the first phase to the last."""
    if not found:
        return None
    begin_s, end_s = found[0].begin_s, max(one.end_s for one in found)
    covering = scrapes.covering(begin_s, end_s)
    own = any(one.load is not None for one in found)
    return _unwatched(session, begin_s, end_s) if covering is None and own else covering


def _unwatched(session: Session, begin_s: float, end_s: float) -> Question:
    """A span without scrapes."""
    return Question(now_s=session.end_s, window_s=end_s - begin_s, begin_s=begin_s, end_s=end_s)


def labelled(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Phases with short names that tell them apart: what they aim at, or their name, with a number where it must be."""
    short = [_target(phase.load) or phase.name for phase in phases]
    many = {word for word in short if short.count(word) > 1}
    return tuple(
        replace(phase, label=f"{word} #{short[: at + 1].count(word)}" if word in many else word)
        for at, (phase, word) in enumerate(zip(phases, short, strict=True))
    )


def _target(load: LoadPart | None) -> str | None:
    if load is None:
        return None
    if load.rate_per_s is not None:
        return f"{load.rate_per_s:g}/s"
    return f"c={load.concurrency}" if load.concurrency is not None else None


def _phase(session: Session, scrapes: Pages, ask: Ask, of: TimeRange) -> Phase:
    # in order of time, as a session answers quickest
    steady = _numbers(ask, scrapes.within(*of.steady), None)
    whole = scrapes.covering(of.begin_s, of.end_s, of.until_s)
    covered = whole
    if whole is None and of.load is not None:  # what its own requests saw is known without a scrape
        whole = _unwatched(session, of.begin_s, of.end_s)
    if whole is not None:
        ask(whole)
    load = session.load.part_of(of.load, session.end_s) if of.load is not None else None
    return Phase(
        name=of.name,
        label=of.name,
        source=of.source,
        begin_s=of.begin_s,
        end_s=of.end_s,
        load=load,
        whole=_numbers(ask, whole, load),
        steady=steady,
        distributions=_distributions(session, of, covered),
    )


def _numbers(ask: Ask, question: Question | None, load: LoadPart | None) -> Numbers | None:
    return numbers(ask(question), load, question.begin_s, question.end_s) if question is not None else None


def _only(phases: Sequence[Phase]) -> LoadPart | None:
    """The own load of a run with one phase: only then are its times those of the whole run."""
    return phases[0].load if len(phases) == 1 else None


def _distributions(session: Session, of: TimeRange, whole: Question | None) -> tuple[Distribution, ...]:
    if of.load is not None:
        return distribution.of_load(session.load, of.load, session.end_s)
    return distribution.of_window(window(session.servers, whole.now_s, whole.window_s)) if whole is not None else ()


def _sampled(session: Session, question: Question | None) -> tuple[Sampling, ...]:
    begin_s, end_s = (question.begin_s, question.end_s) if question is not None else (0.0, session.end_s)
    return sampling(session.servers, begin_s, end_s)


def _zoom(session: Session, scrapes: Pages, detector: Staircase) -> Charts | None:
    """From a little before the first preemption, a column a scrape."""
    if len(detector.events) < 2:
        return None
    begin_s = max(0.0, detector.events[0].at_s - 5.0)
    until_s = detector.events[min(len(detector.events), ZOOM_FALLS) - 1].at_s + 5.0
    question = scrapes.within(begin_s, min(until_s, begin_s + ZOOM_S))
    if question is None:
        return None
    columns = max(2, round(question.window_s / session.start.interval_s))
    view = View(window_s=columns * session.start.interval_s, columns=columns)
    return charts(session.servers, session.gpus, (), question.now_s, view)
