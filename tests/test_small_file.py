"""A file that a person names is read to a limit, and a pipe is not waited at for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtop import small_file


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    assert small_file.read_bytes(tmp_path / "a") == b"x" * 3_000_000
    assert small_file.read_bytes(tmp_path / "a", 3_000_000) == b"x" * 3_000_000


@pytest.mark.parametrize("endless", [True, False])
def test_what_is_larger_than_it_may_be_is_not_read(endless: bool, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(OSError, match="larger than 1 MiB, not read"):
        small_file.read_bytes(Path("/dev/zero") if endless else tmp_path / "a", 1 << 20)


def test_a_pipe_into_which_nobody_writes_is_not_waited_at_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match=r"nothing came for 0\.01 s"):
        small_file.read_bytes(tmp_path / "fifo", patience_s=0.01)


def test_a_pipe_without_a_writer_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match=r"nothing came for 0\.01 s"):
        small_file.opened(tmp_path / "fifo", patience_s=0.01)


def test_a_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one")
    os.write(writing, b" two")
    os.close(writing)
    assert small_file.read_text(Path(f"/dev/fd/{reading}")) == "one two"
    os.close(reading)


def test_a_folder_is_none() -> None:
    with pytest.raises(IsADirectoryError):
        small_file.read_bytes(Path("/"))
