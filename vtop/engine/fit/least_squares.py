"""Levenberg-Marquardt for simulations: slopes are taken over steps that are wide enough to outweigh chance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

ENOUGH_GAINED = 0.003  # of what is off; a round that brings less is the last


def least_squares(off: Callable[[Vector], Vector], at: Vector, scale: Vector, rounds: int) -> tuple[Vector, Vector]:
    """Where `off` is least, looked for from `at` on, and its slopes there. scale: how far each may well move."""
    damping = 0.03
    here = off(at)
    jacobian = _slopes(off, at, here, scale)
    for _ in range(rounds):
        slopes = jacobian * scale
        step = np.linalg.solve(slopes.T @ slopes + damping * np.diag(np.diag(slopes.T @ slopes)), -slopes.T @ here)
        there = at + np.clip(step, -1.0, 1.0) * scale
        trial = off(there)
        if trial @ trial < here @ here:
            gained = 1.0 - (trial @ trial) / (here @ here)
            at, here, damping = there, trial, damping / 3
            if gained < ENOUGH_GAINED:
                break
            jacobian = _slopes(off, at, here, scale)
        else:
            damping *= 4
            if damping > 30.0:
                break
    return at, jacobian


def _slopes(off: Callable[[Vector], Vector], at: Vector, here: Vector, scale: Vector) -> Vector:
    """Over steps wide enough that one answer more or less in a step does not rule."""
    columns = []
    for index in range(len(at)):
        step = np.zeros(len(at))
        step[index] = min(0.1, 0.25 * scale[index])
        columns.append((off(at + step) - here) / step[index])
    return np.array(columns).T
