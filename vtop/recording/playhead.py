"""The playhead: the instant of a session that is being looked at."""

from __future__ import annotations

from collections.abc import Callable


class Playhead:
    """Live (following the end), paused, or moving at a speed. Instants are seconds since the session's start.

    `clock` gives monotonic seconds from anywhere; `end_s` the session's latest instant: now for a session that
    is being recorded, the last line for a recording. Live is simply a playhead that stands at the end.
    """

    def __init__(self, clock: Callable[[], float], end_s: Callable[[], float]) -> None:
        self._clock = clock
        self._end_s = end_s
        self._at_s: float | None = None  # None: at the end
        self._since_s = 0.0
        self.speed = 1.0
        self._moving = False

    def now(self) -> float:
        """The instant looked at. A moving playhead that reaches the end stays there and is live."""
        end_s = self._end_s()
        if self._at_s is None:
            return end_s
        at_s = self._at_s
        if self._moving:
            at_s += (self._clock() - self._since_s) * self.speed
            if at_s >= end_s:
                self.follow()
                return end_s
        return max(0.0, min(at_s, end_s))

    @property
    def live(self) -> bool:
        return self._at_s is None

    @property
    def paused(self) -> bool:
        return self._at_s is not None and not self._moving

    def pause(self) -> None:
        self._at_s = self.now()
        self._moving = False

    def play(self, speed: float | None = None) -> None:
        """Move from where it stands."""
        self._at_s = self.now()
        self._since_s = self._clock()
        self._moving = True
        if speed is not None:
            self.speed = speed

    def toggle(self) -> None:
        if self.paused:
            self.play()
        else:
            self.pause()

    def seek(self, at_s: float) -> None:
        """Go to an instant; a moving playhead goes on moving from there, a live one is paused there."""
        self._at_s = max(0.0, min(at_s, self._end_s()))
        self._since_s = self._clock()

    def follow(self) -> None:
        """Back to the end."""
        self._at_s = None
        self._moving = False
