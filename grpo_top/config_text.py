"""What is in force, as a settings file: `grpo-top config > grpo-top.toml` gives one to begin with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grpo_top.config import (
    FIELDS_HELP,
    FILE_NAME,
    MEMORY_HELP,
    NAMES_HELP,
    ROLLOUTS_HELD,
    RUN_KEYS,
    SHARED_KNOBS,
)
from grpo_top.screen_settings import ACTS, KEYS_HELP, SCREEN, shown_key
from grpo_top.snapshot import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from grpo_top.config import Settings
    from grpo_top.detectors.base import Detector

VALUE_COLUMN = 34


def config_text(settings: Settings, detectors: Iterable[type[Detector]]) -> str:
    """Every setting with its value, where the value comes from, and what it means. TOML: what is only a default stands
    behind a `#`, so that a default which a later version mends is not held fast.
    """
    return "\n".join(_lines(settings, detectors)) + "\n"


def _lines(settings: Settings, detectors: Iterable[type[Detector]]) -> Iterator[str]:
    nowhere = f"no file: there is no {FILE_NAME} in the run directory or the user's config directory"
    yield f"# Settings in force, from {settings.file or nowhere}"
    yield ""
    yield "[run]"
    for key, how in RUN_KEYS.items():
        value = settings.run.get(key)
        yield f"# {how}" if value is None else _row(f"{key} = {_toml(value)}", settings.file)
    for table, given, what in (
        ("fields", settings.fields, FIELDS_HELP),
        ("names", settings.names, NAMES_HELP),
    ):
        yield ""
        yield f"[{table}]"
        yield f"# {what}"
        yield from (_row(f"{_key(name)} = {_toml(value)}", settings.file) for name, value in given.items())
    yield ""
    yield "[memory]"
    if settings.rollouts_held == ROLLOUTS_HELD:
        yield f"# {MEMORY_HELP}"
    else:
        yield _row(f"rollouts = {settings.rollouts_held}", settings.file)
    yield from _of_the_screen(settings)
    stage = -1
    for detector in detectors:
        if detector.stage != stage:
            stage = detector.stage
            yield ""
            yield f"# ---- {stage} {STAGES[stage][0]}: {STAGES[stage][1]}"
        yield from _detector(detector, settings)


def _of_the_screen(settings: Settings) -> Iterator[str]:
    yield ""
    yield "[screen]"
    for name, how in SCREEN.items():
        if name in settings.screen:
            yield _row(f"{name} = {_toml(settings.screen[name])}", settings.said_in[f"screen.{name}"])
        else:
            yield f"# {how}"
    yield ""
    yield "[keys]"
    yield f"# {KEYS_HELP}"
    for name, act in ACTS.items():
        own = settings.keys.get(name)
        keys = [shown_key(key, short=False) for key in (act.keys if own is None else own).split(",")]
        setting = f"{name} = {_toml(keys[0] if len(keys) == 1 else keys)}"
        if own is None:
            yield _row(f"# {setting}", f"default; {act.what}")
        else:
            yield _row(setting, f"{settings.said_in[f'keys.{name}']}; {act.what}")


def _detector(detector: type[Detector], settings: Settings) -> Iterator[str]:
    given = settings.knobs.get(detector.id, {})
    yield ""
    yield f"[{detector.id}]"
    knobs = [(knob.name, knob.default, knob.meaning) for knob in detector.knobs]
    knobs += [("clear", float(getattr(detector, "clear", 5)), SHARED_KNOBS["clear"])]
    knobs += [("enabled", 1.0, SHARED_KNOBS["enabled"])]
    for name, default, meaning in knobs:
        setting = given.get(name)
        value = default if setting is None else setting.value
        written = str(bool(value)).lower() if name == "enabled" else _number(value)
        if setting is None:
            yield _row(f"# {name} = {written}", f"default; {meaning}")
        else:
            yield _row(f"{name} = {written}", f"{setting.origin}; {meaning}")


def _row(setting: str, comment: str) -> str:
    return f"{setting:<{VALUE_COLUMN}} # {comment}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value: Any) -> str:
    """A value as TOML writes it; strings and lists are written as in JSON."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml(of)}" for key, of in _items(value)) + "}"
    return json.dumps(value)


def _items(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return table.items()
