"""What the tests of sources share."""

from __future__ import annotations

import itertools
from typing import Any

import pytest


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Names of files that no other example has used."""
    folder, numbers = tmp_path_factory.mktemp("fresh"), itertools.count()
    return lambda suffix=".jsonl": folder / f"{next(numbers)}{suffix}"
