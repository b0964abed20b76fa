"""The models whose config.json stand beside the tests: a few numbers each, as published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vtop.plan.model_config import ModelConfig, load

CONFIGS = Path(__file__).parent / "configs"


def model(name: str, cache_dtype: str | None = None) -> ModelConfig:
    return load(CONFIGS / f"{name}.json", cache_dtype)


def changed(folder: Path, name: str, **numbers: Any) -> Path:
    """A config.json like one of them, with other numbers; None takes one away."""
    content = json.loads((CONFIGS / f"{name}.json").read_text())
    content.update(numbers)
    path = folder / "config.json"
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return path
