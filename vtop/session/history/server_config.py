"""What a server was started with: the flags of its command on record, and its kind's defaults of two that it lacks."""

from __future__ import annotations

from vtop.recording import Identity
from vtop.recording.events import FlagValue
from vtop.server_kinds import registry
from vtop.session.frame.servers import StartedWith, typed
from vtop.session.history.server import ServerHistory


def started_with(identity: Identity | None, device: str | None, memory_bytes: float | None) -> StartedWith | None:
    """What an identity says. GPU, memory_bytes: of the GPUs that the server uses, None where not known."""
    if identity is None or identity.flags is None:
        return None
    kind = registry.of(identity.kind)
    limits, names = kind.limits(identity, device, memory_bytes), kind.flag_names
    return StartedWith(
        command=identity.command or "",
        flags=identity.flags,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        defaults=tuple(
            name
            for name, known in (
                (names.max_num_seqs, limits.max_num_seqs),
                (names.max_num_batched_tokens, limits.max_num_batched_tokens),
            )
            if known is not None and name not in identity.flags
        ),
    )


def changed(before: Identity, now: Identity) -> tuple[str, ...]:
    """How two commands on record differ, a flag each: --max-num-seqs 128 → 10, new --enforce-eager."""
    was, flags = before.flags, now.flags
    if was is None or flags is None:
        return ()
    said = [
        f"--{name} {flag_value(was[name])} → {flag_value(value)}" if name in was else f"new {typed(name, value)}"
        for name, value in flags.items()
        if was.get(name) != value
    ]
    said += [f"without {typed(name, value)}" for name, value in was.items() if name not in flags]
    if before.command != now.command:
        said.append(f"{before.command} → {now.command}")
    return tuple(said)


def max_num_seqs(
    server: ServerHistory, begin_s: float, now_s: float, started: StartedWith | None, engines: int
) -> int | None:
    """How many requests may run at once on all engines of a server; None where it was another number since begin_s."""
    if started is None or started.max_num_seqs is None:
        return None
    known = [one for one in server.identities if one.t <= now_s and one.flags is not None]
    since = [one for at, one in enumerate(known) if at + 1 == len(known) or known[at + 1].t > begin_s]
    if len({(one.flags or {}).get(registry.of(one.kind).flag_names.max_num_seqs) for one in since}) > 1:
        return None
    return started.max_num_seqs * max(1, engines)


def flag_value(value: FlagValue) -> str:
    """A flag's value in words: on and off of a switch."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
