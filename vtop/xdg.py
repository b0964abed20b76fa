"""Where a person's own files lie: settings in XDG_CONFIG_HOME, what is remembered and logged in XDG_STATE_HOME."""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path:
    """vtop in XDG_CONFIG_HOME, or in ~/.config."""
    return _home("XDG_CONFIG_HOME", "~/.config") / "vtop"


def state_folder() -> Path:
    """vtop in XDG_STATE_HOME, or in ~/.local/state."""
    return _home("XDG_STATE_HOME", "~/.local/state") / "vtop"


def _home(variable: str, default: str) -> Path:
    named = os.environ.get(variable, "")
    return Path(named) if os.path.isabs(named) else Path(os.path.expanduser(default))
