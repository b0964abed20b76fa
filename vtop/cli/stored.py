"""What a Prometheus stored, as a verb asks for it: --prometheus, --match, --from and --to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtop import units
from vtop.cli.common import echo, given_shape
from vtop.cli.options import Instant
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.access import Access
    from vtop.sources.prometheus.follow import PrometheusAttachment
    from vtop.sources.prometheus.stored import Stored

BEFORE_S = 300.0  # that a live screen begins with
_ONLY_WITH = {
    "match": "--match",
    "from_at": "--from",
    "to_at": "--to",
    "by": "--by",
    "core": "--core",
    "gpu_match": "--gpu-match",
}


def is_asked(asked: dict[str, Any]) -> bool:
    """Whether a Prometheus is to be read. Raises VtopError where its options are mixed with others."""
    given = [name for option, name in _ONLY_WITH.items() if asked.get(option)]
    if asked.get("prometheus") is None:
        if given:
            raise VtopError(f"{given[0]} goes with --prometheus URL")
        return False
    if asked["urls"] or asked["targets"]:
        raise VtopError(
            "--prometheus and --url or --targets: one or the other; servers of a Prometheus are chosen by --match"
        )
    return True


def is_over(asked: dict[str, Any]) -> bool:
    """Whether the stretch that is asked for ends before now."""
    return asked["to_at"] is not None and asked["to_at"] != Instant(None)


def attached(asked: dict[str, Any], path: Path | None) -> PrometheusAttachment:
    """A live session: the stretch up to now, and what comes after. Raises VtopError."""
    from vtop.sources.prometheus.follow import PrometheusAttachment

    found, access = _opened(asked)
    return PrometheusAttachment(found, found.api.clock_s(), path=path, secrets=access.secrets)


def replay(asked: dict[str, Any], path: Path | None, view: dict[str, Any]) -> None:
    """The screen at the end of a stretch that is over; recorded where a path is given."""
    from tempfile import TemporaryDirectory

    from vtop.recording import FileRecording
    from vtop.ui import run

    with TemporaryDirectory(prefix="vtop-") as folder:
        file = path if path is not None else Path(folder) / "stored.jsonl.zst"
        length_s = record(asked, file, None)
        recording = FileRecording(file)
        try:
            run.replay(recording, speed=1.0, at_s=length_s, **view)
        finally:
            recording.close()


def _opened(asked: dict[str, Any]) -> tuple[Stored, Access]:
    """The stretch that is asked for, and who was scraped in it. Raises VtopError."""
    from vtop.sources.access import access_of
    from vtop.sources.address import credentials
    from vtop.sources.prometheus.api import PrometheusApi
    from vtop.sources.prometheus.dcgm import rule_of
    from vtop.sources.prometheus.stored import HistoryQuery, Stored, prometheus_target

    text = asked["prometheus"]
    access = access_of(
        api_key=asked["api_key"],
        api_key_file=asked["api_key_file"],
        headers=asked["headers"],
        ca_file=asked["ca_file"],
        insecure=asked["insecure"],
        proxy=asked["proxy"],
        basic=credentials(text) if "@" in text else None,
    )
    warnings: list[str] = []
    api = PrometheusApi(prometheus_target(text), access, warn=warnings.append)
    now_s = api.clock_s()
    begin, end = asked["from_at"], asked["to_at"]
    end_s = min(end.on(now_s), now_s) if end is not None else now_s
    begin_s = begin.on(now_s) if begin is not None else end_s - BEFORE_S
    if begin_s >= now_s:
        raise VtopError("--from lies in the future of Prometheus' clock")
    by = tuple(label.strip() for label in (asked["by"] or "").split(",") if label.strip())
    stretch = HistoryQuery(
        begin_s,
        end_s,
        match=tuple(asked["match"]),
        by=by,
        core=asked["core"],
        from_is_given=begin is not None,
        gpus=not asked["no_gpu"],
        gpu_rule=rule_of(asked["gpu_match"]),
        shape=given_shape(asked.get("model_config")),
    )
    found = Stored(api, stretch, argv=[word.encode("utf-8", "replace").decode() for word in sys.argv[1:]])
    found.warnings = warnings
    return found, access


def record(asked: dict[str, Any], output: Path, for_s: float | None) -> float:
    """The stretch as a recording; its length in seconds. Exit code 2 where something is missing: the rest is kept."""
    from vtop.export.files import new_file, refuse_existing
    from vtop.recording import Outage, Scrape, encode

    if for_s is not None:
        raise VtopError("--for goes with what is going on now, without --from and --to")
    refuse_existing([output])
    found, _ = _opened(asked)
    scrapes = failed = 0
    with new_file(output, force=False) as file:
        for event in found.lines():
            scrapes += isinstance(event, Scrape)
            failed += isinstance(event, Outage)
            file.write(encode(event) + b"\n")
    for text in found.told:
        echo(f"vtop: {text}", err=True)
    told = f"{scrapes:,} scrapes of {len(found.servers)} servers, every {found.start.interval_s:g} s"
    told += f", {failed} failed" if failed else ""
    echo(f"{output}: {units.clock(found.asked.end_s - found.start.unix_s)}, {told}", err=True)
    if found.broken_off is not None:
        raise VtopError(f"not read any further: {found.broken_off}")
    if not scrapes:
        raise VtopError("nothing was stored in that time; the file holds no scrape")
    return found.end_s
