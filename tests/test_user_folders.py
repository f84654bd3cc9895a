"""Where the user's own folders are."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from grpo_top.user_folders import user_folder


@pytest.mark.parametrize("home", ["/home/somebody", "/home/some body/", "", "relative", None])
@pytest.mark.parametrize("given", ["/elsewhere", "/elsewhere/", "", "relative", "~/mine", None])
def test_they_are_where_platformdirs_has_them(
    monkeypatch: pytest.MonkeyPatch, home: str | None, given: str | None
) -> None:
    for name, value in (("HOME", home), ("XDG_CONFIG_HOME", given), ("XDG_STATE_HOME", given)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)

    assert user_folder("config") == Path(platformdirs.user_config_dir("grpo-top"))
    assert user_folder("state") == Path(platformdirs.user_state_dir("grpo-top"))


def test_on_another_system_they_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda app: f"/Library/{app}")

    assert user_folder("config") == Path("/Library/grpo-top")
