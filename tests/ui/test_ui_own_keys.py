"""Keys of the user's own: they work, and the footer and the help name them."""

from __future__ import annotations

import importlib
import pkgutil

from recorded import line_with, lines, still
from textual.binding import Binding

import grpo_top.ui.screens
from grpo_top.config import Settings
from grpo_top.screen_settings import ACTS
from grpo_top.ui.glyphs import UNICODE
from grpo_top.ui.keys import ACTIONS, APP_KEYS, RUNS_KEY, TIME_KEYS, Key, as_set, bindings
from grpo_top.ui.screens.findings import FindingsScreen
from grpo_top.ui.screens.monitor import MonitorScreen


def every_key() -> set[Key]:
    found = {*APP_KEYS, RUNS_KEY}
    for module in pkgutil.iter_modules(grpo_top.ui.screens.__path__):
        for one in vars(importlib.import_module(f"grpo_top.ui.screens.{module.name}")).values():
            found |= {key for key in getattr(one, "KEYS", ()) if isinstance(key, Key)}
    return found


def test_every_name_has_an_action_and_the_keys_that_are_said_to_be_its_own() -> None:
    assert set(ACTIONS) == set(ACTS)
    keys = every_key()
    for name, actions in ACTIONS.items():
        known = {key.keys for key in keys if key.action in actions}
        assert ACTS[name].keys in known, name


def test_a_binding_that_can_be_changed_has_its_name() -> None:
    ids = {binding.id for binding in bindings(TIME_KEYS) if isinstance(binding, Binding)}
    assert ids == {"pause", "step_back", "step_forward", "ten_steps_back", "ten_steps_forward", "live"}


def test_a_row_that_speaks_for_two_keys_names_both() -> None:
    shown = as_set(TIME_KEYS, {"step_forward": "full_stop"})
    assert [key.label(UNICODE) for key in shown if key.shown] == ["space", "[ .", "{ }", "end"]
    assert as_set(TIME_KEYS, {}) == list(TIME_KEYS)


async def test_a_key_of_ones_own_works_in_place_of_the_other_and_is_named():
    settings = Settings(keys={"findings": "f3", "rollouts": "f", "up": "i"})
    app = still("sampler_cold", settings=settings)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "f3 findings   f rollouts" in lines(app)[-1]
        await pilot.press("s")
        assert isinstance(app.screen, MonitorScreen)
        await pilot.press("f1")
        await pilot.pause()
        assert line_with(app, " f3 ").rstrip().endswith("every finding, first cause first")
        await pilot.press("escape", "f3")
        await pilot.pause()
        assert isinstance(app.screen, FindingsScreen)
        before = line_with(app, "▸")
        await pilot.press("j")
        await pilot.pause()
        assert line_with(app, "▸") != before
        await pilot.press("i")
        await pilot.pause()
        assert line_with(app, "▸") == before
