"""The KV pool with prefix caching: which block holds what, who shares it, and which one is given away next.

As in vLLM (v1/core/block_pool.py): a block that nobody holds stays findable until it is handed out again; blocks of
known content are handed out last, the longest unused first, and of one request the end before the beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence

from vtop.engine.core.request import EngineRequest


class PrefixPool:
    """The same questions as `BlockPool` answers, with an identity for every block."""

    __slots__ = ("_block_of", "_committed", "_free", "_held", "_holders", "_key_of", "block_size", "usable")

    def __init__(self, usable_blocks: int, block_size: int) -> None:
        self.usable = usable_blocks
        self.block_size = block_size
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(usable_blocks))
        self._holders = [0] * usable_blocks
        self._key_of: list[Hashable] = [None] * usable_blocks
        self._block_of: dict[Hashable, int] = {}
        self._held: dict[int, list[int]] = {}
        self._committed: dict[int, int] = {}  # request -> blocks whose content is known

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def usage_ratio(self) -> float:
        """What vLLM's kv_cache_usage_perc says: blocks that are only remembered count as free."""
        return 1.0 - len(self._free) / self.usable

    def hit(self, request: EngineRequest) -> Sequence[int]:
        """The longest run of known blocks from the request's beginning; its last token is always computed anew."""
        found = []
        for index in range((request.tokens - 1) // self.block_size):
            block = self._block_of.get(self._key(request, index))
            if block is None:
                break
            found.append(block)
        return found

    def missing(self, blocks: int, hit: Sequence[int]) -> int:
        """How many free blocks it takes; a block of the hit that nobody holds is a free one, too."""
        return blocks - len(hit) + sum(not self._holders[block] for block in hit)

    def adopt(self, request: EngineRequest, hit: Sequence[int]) -> None:
        """The request holds the blocks of its hit."""
        for block in hit:
            if not self._holders[block]:
                del self._free[block]
            self._holders[block] += 1
        self._held[request.id] = list(hit)
        self._committed[request.id] = len(hit)
        request.blocks = len(hit)

    def grow(self, request: EngineRequest, blocks: int) -> None:
        """The request holds so many blocks from now on. The caller has seen that there is room."""
        held = self._held.setdefault(request.id, [])
        while len(held) < blocks:
            held.append(self._take())
        request.blocks = len(held)

    def grow_each(self, requests: Iterable[EngineRequest], count: int) -> None:
        """Each request of the lane takes one more block."""
        for request in requests:
            self._held[request.id].append(self._take())

    def commit(self, request: EngineRequest, tokens: int) -> None:
        """The first tokens of a request are final: their full blocks can be found by others."""
        held = self._held[request.id]
        full = min(tokens // self.block_size, len(held))
        for index in range(self._committed.get(request.id, 0), full):
            key, block = self._key(request, index), held[index]
            if key not in self._block_of:  # computed twice at once: the first one stays findable
                self._block_of[key] = block
                self._key_of[block] = key
        self._committed[request.id] = max(full, self._committed.get(request.id, 0))

    def release(self, request: EngineRequest) -> None:
        """The request holds nothing any more; what its blocks hold stays known until they are handed out."""
        for block in reversed(self._held.pop(request.id, ())):
            self._holders[block] -= 1
            if not self._holders[block]:
                self._free[block] = None
                if self._key_of[block] is None:
                    self._free.move_to_end(block, last=False)
        self._committed.pop(request.id, None)
        request.blocks = 0

    def _take(self) -> int:
        block, _ = self._free.popitem(last=False)
        key = self._key_of[block]
        if key is not None:
            del self._block_of[key]
            self._key_of[block] = None
        self._holders[block] = 1
        return block

    def _key(self, request: EngineRequest, index: int) -> Hashable:
        """A part of the prompt, which others may share; or, with tokens of an answer in it, the request's own."""
        keys = request.prefix_keys
        shared = index < len(keys) and (index + 1) * self.block_size <= request.prompt_tokens
        return keys[index] if shared else (request.id, index)
