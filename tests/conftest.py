"""What every test shares: nothing of the machine's user is read or written, and hypothesis is not timed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from loopback import loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopback import Loopback

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(autouse=True)
def _a_defect_of_our_own_is_an_error(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside the tests a part that raises is switched off; in a test that would hide it."""

    def raised(part: str, error: Exception, now: str) -> str:
        raise error

    if "defects" not in request.keywords:
        monkeypatch.setattr("grpo_top.defects.defect", raised)


@pytest.fixture(autouse=True, scope="session")
def _a_user_who_has_set_nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("CONFIG", "STATE", "CACHE", "DATA"):
            patch.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.mktemp(kind.lower())))
        for name in ("NO_COLOR", "GRPO_TOP_HEADERS"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def server() -> Iterator[Loopback]:
    """A real HTTP server that answers what a test has it say."""
    with loopback() as running:
        yield running


@pytest.fixture
def signals_are_heard() -> Iterator[None]:
    """For what a test starts: in the background and under nohup a shell has its programs ignore some of them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
