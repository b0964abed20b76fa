"""What travels with vtop beside its code: themes and recordings."""

from __future__ import annotations

from pathlib import Path


def folder(name: str) -> Path:
    """Inside the wheel it lies in the package; in a checkout it lies beside it."""
    package = Path(__file__).resolve().parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name
