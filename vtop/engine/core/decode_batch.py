"""The lane: running requests that gain one token in every step, followed together instead of one by one.

Most steps of a server only decode. While nothing else happens, all that a request's progress depends on is the number
of steps since it entered, so a step costs the same for ten and for a thousand of them: what it reads is a sum that
grows by the lane's size, and which requests need a block is a matter of the step's number modulo the block size.
"""

from __future__ import annotations

from collections.abc import Iterable

from vtop.engine.core.request import EngineRequest


class DecodeBatch:
    """The requests in it, by the step at which they need a block and by the step at which they leave."""

    __slots__ = ("_block_size", "_ends", "_phases", "context", "size")

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._phases: list[dict[int, EngineRequest]] = [{} for _ in range(block_size)]
        self._ends: dict[int, dict[int, EngineRequest]] = {}
        self.size = 0
        self.context = 0  # tokens that the next step reads for all of them, each one's new token included

    def enter(self, request: EngineRequest, step: int) -> None:
        """The request is to gain a token in `step` and in every step after it, until the last one it generates."""
        request.batch_step = step
        request.batch_end = step + request.output_tokens - request.planned - 1
        self._phases[(step - request.computed) % self._block_size][request.id] = request
        self._ends.setdefault(request.batch_end, {})[request.id] = request
        self.size += 1
        self.context += request.computed + 1

    def needing_blocks(self, step: int) -> dict[int, EngineRequest]:
        """Those whose next token begins a block."""
        return self._phases[step % self._block_size]

    def advance(self) -> None:
        """A step was scheduled: every request in the lane is a token longer."""
        self.context += self.size

    def ending(self, step: int) -> Iterable[EngineRequest]:
        """Those for whom `step` was the last."""
        ends = self._ends.get(step)
        return tuple(ends.values()) if ends else ()

    def leave(self, request: EngineRequest, scheduled: int, updated: int, updated_s: float) -> None:
        """Write down how far the request is: `scheduled` and `updated` are the last steps that were, at updated_s."""
        steps = scheduled - request.batch_step + 1
        done = updated - request.batch_step + 1
        del self._phases[(request.batch_step - request.computed) % self._block_size][request.id]
        ends = self._ends[request.batch_end]
        del ends[request.id]
        if not ends:
            del self._ends[request.batch_end]
        self.size -= 1
        request.computed += steps
        self.context -= request.computed + 1
        request.planned += steps
        request.sampled_step = scheduled
        if done > 0:
            request.generated += done
            request.last_token_s = updated_s
        request.blocks = -(-request.computed // self._block_size)
        request.batch_step = -1

    def members(self) -> list[EngineRequest]:
        """All of them; a measure for a server that hands out tokens one by one."""
        return [request for phase in self._phases for request in phase.values()]
