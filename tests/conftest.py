"""Generated cases are the same in every run, so that a change is judged by what it changes."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("vtop", derandomize=True, deadline=None)
settings.load_profile("vtop")
