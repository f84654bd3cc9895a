"""What the tests of formats share."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from runs import unpack_sample

from grpo_top.formats.late import Late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path, PurePath

    from grpo_top.formats.base import Claim


@pytest.fixture(scope="session")
def tracker_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tracker's unpacked folder, for reading only."""
    return cache(lambda tracker: unpack_sample(tracker, tmp_path_factory.mktemp(tracker)))


@pytest.fixture(scope="session", autouse=True)
def every_claim_has_its_sign() -> Iterator[None]:
    """Whatever a test gives to the formats, each is asked, and none claims what its row in the registry leaves out."""

    def claim(self: Late, path: PurePath, head: bytes) -> Claim | None:
        found = self.itself.claim(path, head)
        assert found is None or self.may_be(path, head), f"{self.name} claims {path} for which it has no sign"
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Late, "claim", claim)
        yield
