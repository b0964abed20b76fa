"""How often a replica is told apart from its peers: simulated fleets of like replicas, and of those with an unlike one.

Run from the repository: python bench/fleet_outliers.py [--fleets 10] [--replicas 8] [--seconds 180] [--kind NAME …].
Each replica is a simulated engine on virtual time; requests of random length arrive by a Poisson process and are routed
in one of several ways. Looked at is every 5 s, as the screen does. Printed are, a kind: fleets, looks, and of both the
share on which a replica was named, by how it was said to differ; of fleets with an unlike one also who was named.
"""

from __future__ import annotations

import argparse
import heapq
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from vtop.engine.core.flags import Flags
from vtop.engine.server.request_parsing import ParsedRequest
from vtop.engine.server.simulated import Served, Settings, SimulatedServer
from vtop.metrics.page import Folder
from vtop.recording import Start, Target
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names
from vtop.session.fleet.fleet import COMPARED_S
from vtop.session.fleet.peers import WINDOW_S, seen, unlike
from vtop.session.session import Session

PROFILE = Path(__file__).resolve().parent.parent / "vtop/engine/profiles/h200-qwen2.5-7b.toml"
SLOWER = ("fixed_s", "row_s", "launch_graph_s", "launch_pieces_s", "launch_eager_s", "launch_warm_s", "plan_row_s")
FASTER = ("bandwidth_bytes_s", "compute_flops_s", "attention_flops_s")
RATE_PER_S = 3.0  # of each replica
Route = Callable[[Random, int, Sequence[int]], int]  # chance, number of the request, in flight of each -> replica


def at_random(chance: Random, _: int, in_flight: Sequence[int]) -> int:
    return chance.randrange(len(in_flight))


def in_turn(_: Random, number: int, in_flight: Sequence[int]) -> int:
    return number % len(in_flight)


def least_loaded(chance: Random, _: int, in_flight: Sequence[int]) -> int:
    return min(range(len(in_flight)), key=lambda at: (in_flight[at], chance.random()))


def sticky(chance: Random, _: int, in_flight: Sequence[int]) -> int:
    """A hundred sessions, each on the replica of its number."""
    return (chance.randrange(100) * 2654435761 >> 7) % len(in_flight)


def first_gets(times: float) -> Route:
    def route(chance: Random, _: int, in_flight: Sequence[int]) -> int:
        return chance.choices(range(len(in_flight)), [times] + [1.0] * (len(in_flight) - 1))[0]

    return route


KINDS: dict[str, tuple[Route, float]] = {  # how requests are routed, how many times slower the first replica is
    "alike, at random": (at_random, 1.0),
    "alike, in turn": (in_turn, 1.0),
    "alike, least loaded": (least_loaded, 1.0),
    "alike, sticky": (sticky, 1.0),
    "slow 1.2 x, at random": (at_random, 1.2),
    "slow 1.5 x, at random": (at_random, 1.5),
    "slow 1.5 x, in turn": (in_turn, 1.5),
    "slow 1.5 x, least loaded": (least_loaded, 1.5),
    "slow 2 x, at random": (at_random, 2.0),
    "first gets 2 x": (first_gets(2.0), 1.0),
    "first gets 3 x": (first_gets(3.0), 1.0),
    "first gets a third": (first_gets(1 / 3), 1.0),
}


def slowed(times: float, folder: Path) -> str:
    """A profile of a GPU and host that take so many times longer for everything."""

    def scaled(found: re.Match[str]) -> str:
        by = times if found[1] in SLOWER else 1 / times
        return f"{found[1]} = {float(found[2]) * by!r}"

    text = PROFILE.read_text()
    head, timing, rest = text.partition("[timing]")
    names = "|".join((*SLOWER, *FASTER))
    own, front, tail = rest.partition("[frontend]")
    path = folder / f"slow{times}.toml"
    path.write_text(head + timing + re.sub(rf"^({names}) = (\S+)", scaled, own, flags=re.M) + front + tail)
    return str(path)


def process(born_unix_s: float) -> Iterator[str]:
    yield f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {born_unix_s!r}"


def fleet(kind: str, replicas: int, for_s: float, seed: int, folder: Path) -> Session:
    """A session of so many replicas, read to its end."""
    route, times = KINDS[kind]
    chance = Random(seed)
    flags = Flags(num_gpu_blocks=5431, max_num_seqs=128, max_num_batched_tokens=8192)
    slow = slowed(times, folder) if times != 1.0 else None
    servers = [
        SimulatedServer(Settings(flags, **({"profile": slow} if slow and not at else {})), 0.0, process)  # type: ignore[arg-type]
        for at in range(replicas)
    ]
    targets = tuple(Target(url=f"http://replica{at}:8000") for at in range(replicas))
    session = Session(Start(format=FORMAT, vtop="bench", unix_s=0.0, servers=targets, interval_s=1.0))
    folders = [Folder(series_names) for _ in servers]
    under_way: list[list[Served]] = [[] for _ in servers]
    moments = [(at / replicas, at) for at in range(replicas)]  # of scrapes
    heapq.heapify(moments)
    number, next_s = 0, chance.expovariate(RATE_PER_S * replicas)
    while moments[0][0] < for_s:
        if next_s < moments[0][0]:
            for at, own in enumerate(under_way):
                servers[at].go_to(next_s)
                own[:] = [one for one in own if not one.choices[0].stream.finished]
            at = route(chance, number, [len(own) for own in under_way])
            asked = ParsedRequest((range(chance.randrange(128, 1024)),), chance.randrange(32, 256), ignore_eos=True)
            under_way[at].append(servers[at].submit(asked, next_s))
            number += 1
            next_s += chance.expovariate(RATE_PER_S * replicas)
            continue
        now_s, at = heapq.heappop(moments)
        text = servers[at].page(now_s)
        scrape = folders[at].scrape(text, server=at, at_s=now_s, took_s=0.0, bytes=len(text), health=200)
        scrape = type(scrape)(**{name: getattr(scrape, name) for name in scrape.__struct_fields__} | {"t": now_s})
        session.apply(scrape)
        heapq.heappush(moments, (now_s + 1.0, at))
    return session


def looks(session: Session) -> Iterator[list[tuple[int, str]]]:
    """Who was named at each look, and how."""
    now_s = WINDOW_S + COMPARED_S
    while now_s < session.end_s:
        found = [seen(at, one, "all", now_s, prefill=False) for at, one in enumerate(session.servers)]
        yield [(at, how.kind) for at, how in unlike([one for one in found if one is not None])]
        now_s += COMPARED_S


def _shares(named: Counter[str], looks: int) -> str:
    return ", ".join(f"{how} {n / looks:.0%}" for how, n in sorted(named.items())) or "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    print(f"{'kind':26} {'fleets':>6} {'looks':>6}  looks on which the first was named, another was")
    with tempfile.TemporaryDirectory(prefix="vtop-fleet-") as name:
        for kind in asked.kind:
            first, others, many = Counter[str](), Counter[str](), 0
            false_fleets = 0
            for seed in range(asked.fleets):
                wrong = False
                for named in looks(fleet(kind, asked.replicas, asked.seconds, seed, Path(name))):
                    many += 1
                    first.update({how for at, how in named if at == 0})
                    others.update({how for at, how in named if at})
                    wrong = wrong or any(at for at, _ in named)
                false_fleets += wrong
            said = [
                ", ".join(f"{how} {n / many:.0%}" for how, n in sorted(one.items())) or "-" for one in (first, others)
            ]
            print(f"{kind:26} {asked.fleets:6} {many:6}  {said[0]} | {said[1]} (in {false_fleets} fleets)", flush=True)


if __name__ == "__main__":
    main()
