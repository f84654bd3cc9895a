"""What the tests of formats share."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from runs import unpack_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def tracker_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tracker's unpacked folder, for reading only."""
    return cache(lambda tracker: unpack_sample(tracker, tmp_path_factory.mktemp(tracker)))
