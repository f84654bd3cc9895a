"""Runs that the rollouts' screens are tested on, read once for each test file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rollout_screens import read, recorded, tool_records

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return recorded(tmp_path_factory.mktemp("cold"), "sampler_cold", 110)


@pytest.fixture(scope="module")
def truncated(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return recorded(tmp_path_factory.mktemp("truncated"), "truncation", 30)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return read(tmp_path_factory.mktemp("tools"), tool_records())
