"""What turns the bytes of a file into text, piece by piece and each piece bounded, however much a few bytes hold."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

PIECE_BYTES: Final = 1 << 20
_ZST_BYTES: Final = 1 << 8  # fed at once: three bytes may hold a block of 128 KiB
_MAGIC: Final = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}

Inflate = Callable[[bytes], Iterator[bytes]]


class Undecodable(Exception):
    """A compressed file holds something else than it should."""


def suffix_of(path: Path) -> str:
    """.gz or .zst, however they are written; "" for a file that is not compressed."""
    suffix = path.suffix.lower()
    return suffix if suffix in _MAGIC.values() else ""


def suffix_by_content(head: bytes) -> str:
    """The same by the file's first bytes: a name may have been changed."""
    return next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")


def inflater(suffix: str) -> Inflate:
    """For the chunks of one file, in order; a stream that breaks off gives what was whole. Raises Undecodable."""
    if suffix == ".gz":
        return _gunzip()
    return _unzstd() if suffix == ".zst" else lambda chunk: iter((chunk,))


def _gunzip() -> Inflate:
    stream = zlib.decompressobj(31)

    def pieces(chunk: bytes) -> Iterator[bytes]:
        nonlocal stream
        try:
            while chunk:
                yield stream.decompress(chunk, PIECE_BYTES)
                chunk = stream.unconsumed_tail
                if stream.eof:  # a file joined from several
                    chunk, stream = stream.unused_data, zlib.decompressobj(31)
        except zlib.error as error:
            raise Undecodable(str(error)) from error

    return pieces


def _unzstd() -> Inflate:
    import zstandard

    frames = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj(read_across_frames=True)

    def pieces(chunk: bytes) -> Iterator[bytes]:
        try:
            for at in range(0, len(chunk), _ZST_BYTES):
                yield frames.decompress(chunk[at : at + _ZST_BYTES])
        except zstandard.ZstdError as error:
            raise Undecodable(str(error)) from error

    return pieces
