"""What was found: at most five sentences with their numbers, each made by a rule that states what it rests on.

A rule looks at the report and says nothing where it has no evidence. They stand in the order of what a reader needs
first: failures, what binds, what the wait is made of, what it costs; the first MOST that speak are the findings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vtop import units
from vtop.report.labels import kinds, levels_of, percentile_words, ttft_words
from vtop.report.like_phases import LENGTHS
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers
from vtop.session.bottleneck.verdict import STILL_S
from vtop.session.frame.incidents import Incident
from vtop.session.frame.prices import SOONER

MOST: Final = 5
SHOWN: Final = 3  # instants named one by one
ENOUGH: Final = 5  # preemptions, for what one costs: at the edges some are counted without their recomputing
ROUNDS: Final = 2  # of a closed loop: what less of it brought is no rate of it
FEWER: Final = 0.8  # of the requests in flight: less of them running is a finding
NEARLY_FULL: Final = 0.95
CLOCK_LOST: Final = SOONER  # of the clock: less costs less TTFT than what a limit is said to bind from
WORTH_SAYING: Final = 0.05  # a share below is not a finding of its own


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    sentence: str
    evidence: tuple[str, ...]


def findings(report: Report) -> tuple[Finding, ...]:
    found = [one for rule in RULES if (one := rule(report)) is not None]
    return tuple(found[:MOST])


def failed(report: Report) -> Finding | None:
    """Requests of the own load failed."""
    loads = [phase.load for phase in report.phases if phase.load is not None]
    count, judged = sum(load.failed for load in loads), sum(load.failed + load.done for load in loads)
    if not count:
        return None
    classes: dict[str, int] = {}
    for load in loads:
        for name, many in load.failed_by_class:
            classes[name] = classes.get(name, 0) + many
    named = ", ".join(f"{name} {many:,}" for name, many in sorted(classes.items(), key=lambda one: -one[1]))
    return Finding(
        "failed",
        f"{count:,} of {judged:,} requests failed ({named}); percentiles count them as longer than everything.",
        (f"{judged:,} own requests ended", named),
    )


def stuck(report: Report) -> Finding | None:
    """Requests were there and the engine did nothing."""
    still = [one for one in report.incidents if one.kind == "stuck"]
    if not still:
        return None
    longest = max(still, key=lambda one: one.seconds)
    times = "" if len(still) == 1 else f" {len(still)} times, the longest of them"
    said = f"The engine stood still{times} for {units.span(longest.seconds)} ({_during(longest)}): no counter and no "
    said += f"gauge moved, with {units.count(longest.running)} running and {units.count(longest.waiting)} waiting."
    why = "a prefill that shows nothing, an engine that hangs, or gauges left behind when all requests were aborted"
    return Finding("stuck", said, (f"verdict STUCK from {units.clock(longest.begin_s + STILL_S)} on", why))


def unread(report: Report) -> Finding | None:
    """The server could not be read: its numbers of that time are not known."""
    away = [one for one in report.incidents if one.kind not in ("stuck", "restart")]
    restarts = [one for one in report.incidents if one.kind == "restart"]
    if not away:
        if not restarts:
            return None
        at = ", ".join(units.clock(one.begin_s) for one in restarts[:SHOWN])
        return Finding("unread", f"The server restarted ({at}).", ("its counters began anew",))
    longest = max(away, key=lambda one: one.seconds)
    what = {
        "outage": "The server did not answer",
        "stale": "No scrape came",
        "unhealthy": "The server was not healthy",
    }[longest.kind]
    times = "" if len(away) == 1 else f", the longest of {len(away)} such stretches"
    said = f"{what} for {units.span(longest.seconds)} ({_during(longest)}){times}"
    said += f": {longest.detail}" if longest.detail else ""
    anew = [one for one in restarts if longest.begin_s <= one.begin_s <= longest.end_s]
    said += "; it came back restarted." if anew else "."
    before = f"{units.count(longest.running)} running and {units.count(longest.waiting)} waiting on the last scrape"
    return Finding("unread", said, (before, "what it did in between is not known"))


def residents(report: Report) -> Finding | None:
    """Far fewer ran than were asked for: the pool was full, or running stood at its limit."""
    phase, of = heaviest(report)
    account = of.account if of is not None else None
    if phase is None or of is None or account is None or account.nominal is None or account.measured_residents is None:
        return None
    asked, ran = account.nominal.concurrency, account.measured_residents
    if (of.waiting.median or 0.0) + ran < FEWER * asked:
        return None  # the load ran out, or was not begun: fewer were there than it asks for
    of_seqs = of.verdict.limit == "max-num-seqs"
    if ran > FEWER * asked or not (of_seqs or (of.verdict.limit == "kv" and (of.kv.peak_ratio or 0.0) >= NEARLY_FULL)):
        return None
    fits = account.predicted_residents
    if (fits is not None and fits >= asked) if not of_seqs else len(report.servers) > 1:
        return None  # of several servers one is at its limit, and these are sums of all
    said = f"{units.count(asked)} requests were in flight and only {units.count(ran)} ran (median)"
    if of_seqs:
        said += (
            f": {of.verdict.evidence[0]}, with {units.whole_percent(of.kv.median_ratio)} of the KV pool in use (median)"
        )
    elif fits is not None:
        said += f": the KV pool holds {units.number(fits)} requests of {units.count(account.request_tokens)} tokens"
    said += "."
    evidence = [f"running {units.count(of.running.low)}–{units.count(of.running.peak)} on {of.scrapes:,} scrapes"]
    if account.oversubscription is not None:
        evidence.append(f"need of all in flight: {account.oversubscription:.1f} × the pool")
    evidence += [f"lengths from {account.lengths_from}", at(phase, of)]
    return Finding("residents", said, tuple(evidence))


def made_of(report: Report) -> Finding | None:
    """What the time to first token is made of under the heaviest load."""
    phase, of = heaviest(report)
    if phase is None or of is None or of.parts.total_s is None or not of.parts.total_s:
        return None
    parts = of.parts
    shares = {
        "queueing": of.queue_of_ttft_ratio,
        "prefill": of.prefill_of_ttft_ratio,
        "frontend": of.frontend_of_ttft_ratio,
    }
    most = max(shares, key=lambda name: shares[name] or 0.0)
    where = f" at {phase.label}" if len(report.phases) > 1 else ""
    said = f"TTFT{where} is {ttft_words(of)}: {units.percent(shares[most])} of it is {most}."
    finished = "of the one request" if parts.n == 1 else f"means of the {units.count(parts.n)} requests"
    evidence = [f"{finished} that finished", at(phase, of)]
    if of.own_ttft is not None and of.own_ttft.client_s is not None:
        evidence.append(f"the client saw {units.seconds(of.own_ttft.client_s)}")
    return Finding("made of", said, tuple(evidence))


def preempted(report: Report) -> Finding | None:
    """Requests were put back."""
    run, staircase = report.run, report.staircase
    if run is None or not run.preemptions:
        return None
    each = [(phase, of) for phase, of in _measured(report) if of.preemptions]
    said = f"{units.count(run.preemptions)} preemptions" if run.preemptions != 1 else "1 preemption"
    several = len(report.phases) > 1 and bool(each)
    if several:  # over a change of load there is no rate
        most = min(each, key=lambda one: one[1].preemptions_apart_s or math.inf)
        shown = sum(of.preemptions or 0.0 for _, of in each[:SHOWN])
        all_at_one = len(each) == 1 and shown == run.preemptions
        if all_at_one:
            said += f", all at {most[0].label}"
        else:
            said += f": {', '.join(f'{units.count(of.preemptions)} at {phase.label}' for phase, of in each[:SHOWN])}"
        said += (
            f", {units.count(run.preemptions - shown)} elsewhere (warm-up included)" if run.preemptions > shown else ""
        )
        said += f"; one every {units.seconds(most[1].preemptions_apart_s)}"
        said += "" if all_at_one else f" at {most[0].label}"
    elif staircase.interval_mean_s is not None:
        said += f", one every {units.seconds(staircase.interval_mean_s)}"
    if staircase.trigger_mean_ratio is not None:
        said += f", when KV use stood at {units.percent(staircase.trigger_mean_ratio)}"
    if staircase.freed_mean_tokens is not None:
        said += f"; each freed {units.count(staircase.freed_mean_tokens)} tokens"
    said += ": a steady cycle." if staircase.steady else "."
    if several:
        evidence = [f"num_preemptions_total: {at(*one)}" for one in each[:SHOWN]]
    else:
        per_minute = f"{units.number(staircase.per_minute)} a minute"
        evidence = [f"num_preemptions_total over {units.seconds(run.seconds)}: {per_minute}"]
    if staircase.straightness is not None and not several:
        evidence.append(f"R² of the staircase {staircase.straightness:.3f}")
    if staircase.trigger_low_ratio is not None:
        evidence.append(f"lowest trigger {units.percent(staircase.trigger_low_ratio)}")
    return Finding("preempted", said, tuple(evidence))


def recomputed(report: Report) -> Finding | None:
    """What the preemptions cost."""
    run = report.run
    if run is None or not run.recompute.tokens or (run.recompute.ratio or 0.0) < WORTH_SAYING:
        return None
    of = run.recompute
    about = "About " if of.estimate else ""
    said = f"{about}{units.count(of.tokens)} tokens were run through the model again, "
    said += f"{units.percent(of.ratio)} more than the answers needed"
    if of.per_preemption is not None and (run.preemptions or 0.0) >= ENOUGH:
        said += f": {units.count(of.per_preemption)} a preemption"
    if of.time_ratio is not None:
        share = units.percent(of.time_ratio)
        said += f", {units.seconds(run.wallclock.recompute_s)} or {share} of the time in which the engine worked"
    evidence = [f"by {of.method}"]
    if of.executed_tokens is not None:
        there = f"{units.count(of.executed_tokens)} executed, {units.count(of.least_tokens)} needed"
        evidence.append(f"{there} in {units.seconds(run.seconds)} of requests")
    for name, other in (("FLOPs", of.by_flops_tokens), ("released KV", of.by_kv_tokens)):
        if other is not None and not of.estimate and (name != "FLOPs" or _one_length(report)):
            evidence.append(f"since the recording began {units.count(of.since_start)}, by {name} {units.count(other)}")
    return Finding("recomputed", said + ".", tuple(evidence))


def grown(report: Report) -> Finding | None:
    """How queue and prefill grow from the lowest load to the highest."""
    growth = report.growth
    known = [row for row in levels_of(report) if row[1].prefill_s is not None and row[1].queue_s is not None]
    if len(known) < 2:
        return None
    (_, low), (level, high) = known[0], known[-1]
    moved = "grew" if (high.queue_s or 0.0) > (low.queue_s or 0.0) else "went"
    said = f"From {_load(report, low.phase)} to {_load(report, high.phase)} queueing {moved} from "
    said += f"{units.seconds(low.queue_s)} to {units.seconds(high.queue_s)}"
    if level.prefill_factor is not None:
        said += f", prefill {units.number(level.prefill_factor)} ×"
    if (crossed := growth.crossed) is not None:
        said += f"; {crossed}"
    elif growth.crossing is not None:
        said += (
            f"; it would overtake prefill at ≈ {units.number(growth.crossing)} {growth.crossing_unit} (extrapolated)"
        )
    counts = ", ".join(units.count(one.finished) for _, one in known)
    return Finding("grown", said + ".", (f"{len(known)} loads", f"finished at each: {counts}"))


def reached(report: Report) -> Finding | None:
    """What the load brought, and how it scales from the lowest load."""
    known = [(phase, of) for phase, of in _measured(report) if of.output_per_s]
    if not known:
        return None
    phase, of = max(known, key=lambda one: one[1].output_per_s or 0.0)
    said = f"Throughput was {units.number(of.output_per_s)} output tokens/s"
    if len(known) > 1:
        loads_or = "loads" if all(one.load is not None for one, _ in known) else "stretches"
        said = f"The highest throughput of {len(known)} {loads_or} was {units.number(of.output_per_s)} output tokens/s"
        said += f" at {phase.label}"
        like = {one.phase for one in report.load_levels.levels}
        first, low = min(known, key=lambda one: (one[0].load.concurrency if one[0].load else None) or math.inf)
        loads = (first.load.concurrency if first.load else None, phase.load.concurrency if phase.load else None)
        factor = (of.output_per_s or 0.0) / (low.output_per_s or math.inf)
        alike = not _few_rounds(phase, of) and all(
            one.load is not None and one.load.phase in like for one in (first, phase)
        )
        if first is not phase and loads[0] and loads[1] and alike and not _few_rounds(phase, of):
            said += f", {units.number(factor)} × that of {first.label} with {loads[1] / loads[0]:g} × the load"
    few = (
        (f"fewer than {ROUNDS} rounds of requests: a while of the load, no rate of it",)
        if _few_rounds(phase, of)
        else ()
    )
    return Finding("reached", said + ".", (f"from {of.output_from}", *few, at(phase, of)))


def _few_rounds(phase: Phase, of: Numbers) -> bool:
    """Whether a closed loop was seen for a part of what it takes: its requests begin and end together."""
    many = phase.load.concurrency if phase.load is not None else None
    return many is not None and of.finished is not None and of.finished < ROUNDS * many


def kept(report: Report) -> Finding | None:
    """How many requests kept the service levels."""
    judged = [
        (phase, phase.load.slo) for phase in report.phases if phase.load is not None and phase.load.slo is not None
    ]
    if not judged:
        return None
    phase, slo = min(reversed(judged), key=lambda one: one[1].attainment_ratio or 0.0)
    bounds = " and ".join(f"{name} ≤ {units.seconds(bound)}" for name, bound in slo.bounds)
    where = f" at {phase.label}" if len(report.phases) > 1 else ""
    said = f"{slo.good:,} of {slo.judged:,} requests ({units.percent(slo.attainment_ratio)}){where} kept {bounds}."
    if slo.broken:
        said = f"{said[:-1]}; {', '.join(f'{count:,} broke {name}' for name, count in slo.broken)}."
    return Finding("kept", said, (f"{units.number(slo.good_per_s)} requests/s that kept all bounds",))


def powered(report: Report) -> Finding | None:
    """The GPU stood at its limit."""
    phase, of = heaviest(report, steady=True)
    if phase is None or of is None:
        return None
    held = of.pressure.power if of.pressure is not None else None
    lost = held.clock_loss_ratio if held is not None else None
    if held is None or held.limit_w is None or lost is None or lost < CLOCK_LOST:
        return None
    where = f" at {phase.label}" if len(report.phases) > 1 else ""
    said = f"The power limit of {units.watts(held.limit_w)} took {units.percent(lost)} of the clock{where}"
    said += f", which no metric of {kinds(report.servers)} shows."
    by = (
        f"power cap in {units.whole_percent(held.capped_share)}"
        if held.capped_share
        else "power within 3 % of its limit"
    )
    evidence = [f"mean of {held.readings:,} readings of the steady part, {by}"]
    evidence += [f"up to {units.watts(held.high_w)}"] if held.high_w is not None else []
    return Finding("powered", said, (*evidence, at(phase, of)))


def unseen(report: Report) -> Finding | None:
    """The percentile of ITL that people watch cannot show the preemptions."""
    run = report.run
    if run is None or run.tail.sentence is None:
        return None
    evidence = (f"{units.count(run.tail.samples)} gaps between tokens", f"{units.count(run.tail.touched)} touched")
    return Finding("unseen", run.tail.sentence.rstrip(".") + ".", evidence)


def stolen(report: Report) -> Finding | None:
    """How much of decoding other requests took."""
    phase, of = heaviest(report)
    if phase is None or of is None or (of.wallclock.stolen_ratio or 0.0) < WORTH_SAYING:
        return None
    clock = of.wallclock
    others = "the prefill, and the recomputing, of others" if of.preemptions else "the prefill of others"
    said = (
        f"Decoding took {units.seconds(clock.request_decode_s)} a request where "
        f"{units.seconds(clock.undisturbed_decode_s)} would do: {units.percent(clock.stolen_ratio)} went to {others}."
    )
    return Finding("stolen", said, (f"a step that only decodes takes {units.seconds(clock.step_s)}", at(phase, of)))


def answered(report: Report) -> Finding | None:
    """What the requests of the heaviest load saw."""
    phase, of = heaviest(report)
    if phase is None or of is None or of.ttft is None or not of.ttft.n:
        return None
    said = []
    for name, times in (("TTFT", of.ttft), ("ITL", of.itl), ("TPOT", of.tpot), ("e2e", of.e2e)):
        if times is not None and times.p50_s is not None:
            p99 = f", p99 {percentile_words(times.p99_s)}" if times.p99_s is not None else ""
            said.append(f"{name} p50 {percentile_words(times.p50_s)}{p99}")
    if not said:
        return None
    where = f"At {phase.label}: " if len(report.phases) > 1 else ""
    n = f"{units.count(of.ttft.n)} request" + ("s" if of.ttft.n != 1 else "")
    return Finding("answered", f"{where}{'; '.join(said)}.", (f"{n}: {of.ttft.whose}", at(phase, of)))


def calm(report: Report) -> Finding | None:
    """Nobody waited and nothing was put back: the server could do more."""
    run = report.run
    if run is None or run.verdict.limit != "none" or len(report.phases) > 1 or run.preemptions:
        return None
    if (run.queue_of_ttft_ratio or 0.0) >= WORTH_SAYING:
        return None  # that requests queue says that something binds, at times
    said = f"Nothing binds: {', '.join(run.verdict.evidence[:3])}, {units.count(run.preemptions)} preemptions."
    return Finding("calm", said, (f"{run.scrapes:,} scrapes",))


RULES: Final[tuple[Callable[[Report], Finding | None], ...]] = (
    failed, stuck, unread, residents, made_of, preempted, recomputed, grown, reached, kept, powered, unseen, stolen,
    answered, calm,
)  # fmt: skip


def heaviest(report: Report, *, steady: bool = False) -> tuple[Phase | None, Numbers | None]:
    """The phase that asks most of the KV pool, and its numbers; where the lengths of one are not known, that with most
    requests in flight."""
    known = [(phase, of) for phase in report.phases if (of := phase.steady if steady else phase.whole) is not None]
    if not known:
        return None, None
    asked = [of.account.asked_tokens for _, of in known]
    if None in asked or len(set(asked)) == 1:
        return max(known, key=_heavy)
    return max(known, key=lambda one: (one[1].account.asked_tokens or 0.0, _heavy(one)))


def _one_length(report: Report) -> bool:
    """Whether all its loads are of requests of one length: the estimate by FLOPs takes them all for mean ones."""
    known = [of.account.request_tokens for _, of in _measured(report) if of.account.request_tokens is not None]
    return not known or max(known) <= (1 + LENGTHS) * min(known)


def _measured(report: Report) -> list[tuple[Phase, Numbers]]:
    return [(phase, phase.whole) for phase in report.phases if phase.whole is not None]


def _heavy(one: tuple[Phase, Numbers]) -> tuple[float, float]:
    """Requests in flight as scrapes show them; where there are none, what the load aims at."""
    phase, of = one
    load = phase.load
    aim = (load.concurrency or load.rate_per_s or 0.0) if load is not None else 0.0
    return (of.running.mean or 0.0) + (of.waiting.mean or 0.0), aim


def _during(one: Incident) -> str:
    return (
        f"{units.clock(one.begin_s)}–{units.clock(one.end_s)}" if one.over else f"{units.clock(one.begin_s)} to the end"
    )


def at(phase: Phase, of: Numbers) -> str:
    between = f"{units.clock(of.begin_s)}–{units.clock(of.end_s)}"
    return between if phase.label == between else f"{phase.label}, {between}"


def _load(report: Report, number: int) -> str:
    labels = (one.label for one in report.phases if one.load is not None and one.load.phase == number)
    return next(labels, f"phase {number + 1}")
