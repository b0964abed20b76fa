"""Who answers at a server: what must stay the same for two runs to be of one search."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics.quantity import Quantity
from vtop.session.history.server import ServerHistory
from vtop.session.history.server_config import changed as flags_changed
from vtop.session.history.window import window
from vtop.session.kv import pool


@dataclass(frozen=True, slots=True)
class ServerState:
    """None: not known."""

    version: str | None
    models: tuple[str, ...]
    process_start_s: float | None  # wall clock
    pool_tokens: float | None
    engines: int  # behind its address; 0: not known

    def changed(self, now: ServerState) -> str | None:
        """What is another than it was; None where nothing is known to be."""
        if self.version and now.version and self.version != now.version:
            return f"its version is {now.version}, and was {self.version}"
        if self.models and now.models and self.models != now.models:
            return f"it serves {', '.join(now.models)}, and no longer {', '.join(self.models)}"
        if self.pool_tokens and now.pool_tokens and self.pool_tokens != now.pool_tokens:
            return f"its KV pool is {now.pool_tokens:,.0f} tokens, and was {self.pool_tokens:,.0f}"
        if self.engines and now.engines and self.engines != now.engines:
            return f"engines behind it: {now.engines}, and there were {self.engines}"
        if self.process_start_s and now.process_start_s and abs(self.process_start_s - now.process_start_s) > 1.0:
            return "another process answers: it was restarted"
        return None


def state_of(server: ServerHistory, now_s: float) -> ServerState:
    """As it was known at an instant."""
    last = server.visible(now_s) - 1
    identity = server.identity(now_s)
    began = server.total(Quantity.PROCESS_START)
    return ServerState(
        version=identity.version if identity is not None else None,
        models=identity.models if identity is not None else (),
        process_start_s=began.at(last) if began is not None and last >= 0 else None,
        pool_tokens=pool.kv(window([server], now_s, 1.0), now_s).pool_tokens if last >= 0 else None,
        engines=len(server.engines(Quantity.RUNNING, last)) if last >= 0 else 0,
    )


def another(was: ServerHistory, was_s: float, now: ServerHistory, now_s: float) -> str | None:
    """Why a server is not the one of an earlier recording, both as known at an instant; None where it is."""
    found = state_of(was, was_s).changed(state_of(now, now_s))
    identities = was.identity(was_s), now.identity(now_s)
    if found is None and identities[0] is not None and identities[1] is not None:
        flags = flags_changed(identities[0], identities[1])
        found = f"its flags changed: {', '.join(flags)}" if flags else None
    return found
