"""A slow line is never given more than one frame ahead, and what it has not taken is dropped when vtop is left."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

from tests.ui.pty import VTOP, Terminal
from tests.ui.screens import OVERLOAD
from vtop.ui.driver import ANSWER, ASK, RESUME, Line, Wire


def answering(after_s: float) -> Line:
    line = Line()
    line.asked(0.0)
    line.answered(after_s)
    return line


def test_a_terminal_that_never_answers_holds_nothing_up() -> None:
    line = Line()
    line.asked(0.0)
    assert not line.behind(0.1)
    assert not line.behind(9.0)
    assert not line.wants_asking(9.0), "and is not asked again"


def test_a_fast_line_is_asked_now_and_then_and_draws_on() -> None:
    line = answering(0.02)
    assert line.wants_asking(1.0)
    line.asked(1.0)
    assert not line.behind(1.1)
    line.answered(1.2)
    assert not line.wants_asking(5.0)
    assert line.wants_asking(11.0)


def test_a_slow_line_gets_one_frame_at_a_time() -> None:
    line = answering(0.1)
    line.asked(1.0)
    assert line.behind(1.6), "the answer is late already"
    line.answered(4.0)
    assert (line.slow, line.late_s) == (True, 3.0)
    assert line.wants_asking(4.0)
    assert not line.behind(4.0)
    line.asked(4.0)
    assert line.behind(4.1)
    assert not line.behind(40.0), "an answer that got lost does not stop the screen"
    line.answered(4.2)
    assert not line.slow, "it recovers"


def test_what_a_line_has_not_taken_is_dropped_and_what_follows_is_written() -> None:
    reads, writes = os.pipe()
    with open(writes, "w", encoding="utf-8") as file:
        wire = Wire(file)
        wire.write("x" * (1 << 20))
        many = threading.Thread(target=wire.flush)
        many.start()
        while select.select([], [writes], [], 0)[1]:
            pass  # until the pipe is full
        wire.drop()
        many.join(5)
        assert not many.is_alive()
        wire.write("dropped")
        wire.write(RESUME)
        taken = os.read(reads, 1 << 20)  # all that is in the pipe
        wire.write("end")
        wire.flush()
        taken += os.read(reads, 1 << 20)
    os.close(reads)
    assert taken.endswith(b"end")
    assert b"dropped" not in taken
    assert len(taken) < 1 << 20


def test_the_answer_of_a_terminal_is_no_key_even_in_pieces(tmp_path: Path) -> None:
    with Terminal([*VTOP, "replay", str(OVERLOAD), "--at", "90"], folder=tmp_path) as terminal:
        terminal.until(ASK.encode())
        terminal.until(b"preempt")
        for piece in (ANSWER, ANSWER[:2], ANSWER[2:], ANSWER[:3], ANSWER[3:], "q"):
            terminal.press(piece.encode())
        assert terminal.exit_code() == 0
    assert b": hidden" not in terminal.written
    assert b"no event" not in terminal.written
