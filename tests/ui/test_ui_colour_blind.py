"""The states as people see them who lack one kind of cone: they stay apart, and off their ground."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from grpo_top.ui.theme import DARK, LIGHT, Palette

# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
SEEN = {
    "all cones": np.eye(3),
    "no red (protanopia)": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green (deuteranopia)": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue (tritanopia)": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
STATES = ("ok", "warn", "fail", "info")
APART = 10.0
"""CIE 1976 difference: 2.3 is just noticeable, and from about 10 on two colours are told apart at a glance. No state
stands on its colour alone: each has a mark of its own as well, and fail is in reverse video."""
LEGIBLE = 3.0
"""Contrast that marks and lines need (WCAG 2.1, 1.4.11)."""


def linear(color: str) -> np.ndarray:
    channels = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    part = TO_XYZ @ light / WHITE
    root = np.where(part > (6 / 29) ** 3, np.cbrt(part), part / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """As WCAG 2 has it."""
    low, high = sorted(float(TO_XYZ[1] @ light) for light in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_states_are_told_apart_and_stand_off_their_ground(seen: np.ndarray, palette: Palette) -> None:
    def shown(role: str) -> np.ndarray:
        return np.clip(seen @ linear(getattr(palette, role)), 0, 1)

    for one, other in combinations(STATES, 2):
        difference = float(np.linalg.norm(lab(shown(one)) - lab(shown(other))))
        assert difference >= APART, (one, other, difference)
    for role, ground in product((*STATES, "series1", "series2", "series3"), ("background", "surface")):
        assert contrast(shown(role), shown(ground)) >= LEGIBLE, (role, ground)
    run_and_reference = lab(shown("series1")) - lab(shown("series3"))
    assert float(np.linalg.norm(run_and_reference)) >= APART
