"""The KV pool as a count of blocks: all that matters while no two requests share one (vLLM: v1/core/block_pool.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtop.engine.core.request import EngineRequest

NO_HIT: tuple[int, ...] = ()


class BlockPool:
    """Blocks of block_size tokens; which ones a request holds is nobody's concern, only how many."""

    __slots__ = ("block_size", "free", "usable")

    def __init__(self, usable_blocks: int, block_size: int) -> None:
        self.usable = usable_blocks  # without the null block
        self.free = usable_blocks
        self.block_size = block_size

    @property
    def usage_ratio(self) -> float:
        """What vLLM's kv_cache_usage_perc says."""
        return 1.0 - self.free / self.usable

    def hit(self, request: EngineRequest) -> Sequence[int]:
        """The cached blocks that a request's beginning can be read from: none here."""
        return NO_HIT

    def missing(self, blocks: int, hit: Sequence[int]) -> int:
        """How many free blocks a request that holds none takes until it has so many, its hit among them."""
        return blocks

    def adopt(self, request: EngineRequest, hit: Sequence[int]) -> None:
        """The request holds the blocks of its hit."""

    def grow(self, request: EngineRequest, blocks: int) -> None:
        """The request holds so many blocks from now on. The caller has seen that there is room."""
        self.free -= blocks - request.blocks
        request.blocks = blocks

    def grow_each(self, requests: Iterable[EngineRequest], count: int) -> None:
        """Each of `count` requests of the lane takes one more block; the lane knows how many they hold."""
        self.free -= count

    def commit(self, request: EngineRequest, tokens: int) -> None:
        """The first tokens of a request are final: their full blocks can be found by others."""

    def release(self, request: EngineRequest) -> None:
        """The request holds nothing any more."""
        self.free += request.blocks
        request.blocks = 0
